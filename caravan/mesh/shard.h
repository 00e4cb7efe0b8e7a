// The program that each device of a mesh runs.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/mesh/mesh.h"
#include "caravan/mesh/placements.h"

namespace caravan::mesh {

// Divides a verified program over the devices of a mesh. In the program that comes out
// * divided iterators and axes have the extent that one device has;
// * where the absolute value of a divided iterator matters (random bits, data that every device has, conditions), it is
//   the iterator plus its extent times a symbol, `mesh.data`, the position of the device along that axis of the mesh.
//   These symbols follow those of the program, one for each axis of the mesh;
// * where a divided iterator is reduced, the accumulation writes a new buffer, and an all_reduce the old one, or a
//   reduce_scatter if each device needs a part of it. If a device has several parts (MeshAxis::parts), they are summed
//   one by one and added up in between, as a balanced tree of the parts of all devices. Where the parts of a device are
//   no subtree of it, an all_gather stands in the place of the all_reduce, and each device adds what is gathered;
// * the order of sums is chosen as in the whole program (Accumulation::chosen_by), where they are not divided;
// * where an accumulation needs an axis that is divided otherwise, it reads an all_gather of it; so does who observes
//   it;
// * `placements` says which axes of states and other buffers are divided.
// Buffers keep their numbers; new ones follow. With one device and one part the program stays as it is.
ir::Program shard(const ir::Program& program, const Mesh& mesh, const StatePlaces& known);

StatePlaces state_places(const ir::Program& sharded, const Mesh& mesh);  // by the program's `placements`
// The shape with another size of an axis, in memory order.
Shape with_size(Shape shape, size_t axis, int64_t size);
Shape local_shape(Shape whole, const Places& places, const Mesh& mesh);  // what a device has of it

}  // namespace caravan::mesh
