// How fast processes add up values: the all-reduce of a mesh beside MPI_Allreduce, for several sizes, in one run.
//   cmake --preset release && cmake --build build/release --target bench_all_reduce
//   mpirun -n 2 build/release/bin/bench_all_reduce [--json]
// Both are called in turn, and the median of each is printed. The order in which MPI adds is not stated; that of a mesh
// is (backend/communicator.h).
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "caravan/backend/mpi/library.h"
#include "caravan/backend/mpi/mpi.h"
#include "caravan/base/error.h"

namespace {

using namespace caravan;

double now() {  // microseconds
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + int64_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// MPI's own function, which the library has no use for.
struct AllReduce {
  int (*function)(const void*, void*, int, void* type, void* op, void* comm) = nullptr;
  void *type = nullptr, *op = nullptr;

  AllReduce() {
    auto find = [](const char* name) {
      void* out = dlsym(RTLD_DEFAULT, name);
      if (!out) throw BackendError(std::string("MPI has no ") + name + ".");
      return out;
    };
    function = reinterpret_cast<decltype(function)>(find("MPI_Allreduce"));
    type = find("ompi_mpi_float"), op = find("ompi_mpi_op_sum");
  }
};

int run(bool json) {
  const mpi::Launch launch = mpi::launch();
  if (launch.processes == 1) throw ConfigError("this measures processes: mpirun -n 2 bench_all_reduce");
  const auto communicator = mpi::communicator();
  communicator->set_urgent(true);
  const AllReduce mpi_all_reduce;
  std::vector<int> group;
  for (int r = 0; r < launch.processes; ++r) group.push_back(r);
  if (launch.rank == 0 && !json) std::printf("%12s %12s %12s %8s\n", "bytes", "mesh, us", "MPI, us", "MPI/mesh");
  double worst = 1e9;
  for (int64_t elements = 256; elements <= int64_t(1) << 22; elements *= 4) {
    std::vector<float> own(size_t(elements), float(launch.rank + 1)), ours(own.size()), theirs(own.size());
    const backend::Reduced part{own.data(), ours.data(), elements, DType::f32, Accumulator::add};
    const int rounds = int(std::clamp<int64_t>((int64_t(1) << 24) / elements, 15, 1000));
    std::vector<double> of_mesh, of_mpi;
    for (int round = 0; round < rounds + 3; ++round) {
      const double start = now();
      communicator->all_reduce(group, {&part, 1});
      const double middle = now();
      mpi_all_reduce.function(own.data(), theirs.data(), int(elements), mpi_all_reduce.type, mpi_all_reduce.op,
                              mpi::library().world);
      const double end = now();
      if (round >= 3) of_mesh.push_back(middle - start), of_mpi.push_back(end - middle);  // the first ones touch memory
    }
    if (std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(float)) != 0)
      throw BackendError("the sums differ.");  // of whole numbers they do not round
    const double mesh = median(of_mesh), mpi = median(of_mpi);
    worst = std::min(worst, mpi / mesh);
    if (launch.rank != 0) continue;
    if (json)
      std::printf("{\"bytes\": %lld, \"mesh_microseconds\": %.2f, \"mpi_microseconds\": %.2f}\n",
                  static_cast<long long>(4 * elements), mesh, mpi);
    else
      std::printf("%12lld %12.1f %12.1f %8.2f\n", static_cast<long long>(4 * elements), mesh, mpi, mpi / mesh);
  }
  if (launch.rank == 0 && !json) std::printf("the least is %.2f\n", worst);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 && std::strcmp(argv[1], "--json") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_all_reduce: %s\n", error.what());
    return 2;
  }
}
