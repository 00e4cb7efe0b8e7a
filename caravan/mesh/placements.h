// Which iterators of each accumulation are divided over the devices of a mesh, and so which axes of each buffer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "caravan/ir/program.h"
#include "caravan/mesh/mesh.h"

namespace caravan::mesh {

// By iterator of an accumulation, or by axis of a buffer in memory order: the axis of the mesh that it is divided over,
// -1 if it is not.
using Places = std::vector<int>;
using StatePlaces = std::map<std::string, Places>;  // by the name of the state

// The iterator that an axis is divided by: in `2*b + t` over an axis of 2 * 8 elements with b < 8 and t < 2 it is b,
// because the first half of b writes the first half of the axis. -1 if there is none. The term is an index of an axis
// of this size.
int leading_iterator(const ir::Program& program, const ir::Accumulation& accumulation, const ir::Term& term,
                     int64_t size);

// What each device has of the target, if the accumulation's iterators are divided so: each divided iterator divides at
// most one axis, the first that it leads.
Places written_places(const ir::Program& program, const ir::Accumulation& accumulation, const Places& iterators);

struct Placements {
  std::vector<Places> iterators;  // by accumulation
  std::vector<Places> buffers;    // by buffer; none of the axes of a leaf that is not state
};

// Finds placements from the program's `placements` (what the user asked for) and those that states have already. They
// are propagated until nothing changes:
// * forwards: an iterator is divided if it leads a divided axis of an operand;
// * backwards: an axis of a result is divided if that was asked for, if the state that it is assigned to
//   has it divided, or if all readers divide the iterator that leads it, so that no device needs the rest;
// * a state that nothing was said of is divided as the value that is assigned to it.
// Then states of optimisers are divided if the mesh says so (Mesh::optimizer_states), and all other states keep what
// they have; what an update needs of a gradient is divided then, and so are sums over the same gradient, such as its
// norm, if nothing else needs all of it. At last, the result of a sum over a divided iterator is divided along an axis
// if all readers divide the iterator that leads it: each device gets the part of the sum that it needs. So an axis of a
// buffer may be divided though the iterator of its writer that leads it is not. An axis of the mesh divides at most one
// iterator of an accumulation. An iterator is not divided if its extent is not a multiple of the devices (of the parts,
// if there are more: MeshAxis::parts), or if it counts in the position that an argmax or argmin keeps and is reduced.
// Throws ConfigError if an axis that was asked for is not a multiple of the devices, or if two axes of one tensor were
// asked for on one axis of the mesh.
Placements propagate(const ir::Program& program, const Mesh& mesh, const StatePlaces& known);

}  // namespace caravan::mesh
