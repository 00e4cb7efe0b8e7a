// The processes of a program that `mpirun -n 4` has started four times (docs/many.md). They run the same code, and what
// one of them is to do alone asks for its rank.
//
//     if (process_rank() == 0) std::cout << "loss " << step.read(loss).item() << "\n";
#pragma once

namespace caravan {

// The number of this process among those that the mpirun of Open MPI has started together, from 0; without mpirun it is
// 0. With the engine `mpi`, it is the rank of the device in the mesh.
int process_rank();
int process_count();  // how many mpirun has started together; 1 without mpirun

}  // namespace caravan
