// A mesh: devices that run one program together, arranged along named axes. Where an axis of a tensor is placed on an
// axis of the mesh, each device has a part of it.
//
//     Context ctx({.mesh = {{"data", 2}}});                      // two workers of this process
//     Tensor x = place(points.batches(32)[batch], "data");       // each of them has 16 of the 32 examples
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace caravan {

// One axis of a mesh.
struct MeshAxis {
  std::string name;  // that `place` calls it by
  int64_t size = 1;  // its number of devices
  // Sums over what is divided are added up as on so many devices, so that fewer devices compute the same bits: each of
  // them sums its parts one by one. A multiple of the devices; 0: as many as there are.
  int64_t parts = 0;
  int64_t summed_parts() const { return parts > 0 ? parts : size; }  // `parts`, or the number of devices
};

// Names and sizes of the axes. Devices are numbered from 0, the last axis fastest; the number is called the rank.
struct Mesh {
  Mesh() = default;  // one device
  Mesh(std::initializer_list<MeshAxis> axes) : axes(axes) {}

  std::vector<MeshAxis> axes;  // the first changes slowest from rank to rank
  // How values are exchanged: `streams` (all devices are workers of this process), `mpi` (each is a process that mpirun
  // has started), `nccl` (each is a GPU of its own, of this process or of one that mpirun has started); `auto` is `mpi`
  // in a process of several that mpirun has started, else `streams`.
  std::string engine = "auto";
  std::vector<std::string> names{};  // of the devices of this process, such as cuda:0; none: ContextOptions::device
  // The axis of the mesh over which every batch is divided that an index cuts out of data, as in
  // images.batches(64)[batch]; empty: only what `place` has placed is divided.
  std::string batches{};
  // The axis of the mesh over which what optimisers remember is divided: each device keeps a part of the moments and
  // updates that part of the weights; empty: each device keeps all of it.
  std::string optimizer_states{};

  int64_t devices() const;       // the product of the sizes; 1 without axes
  bool exchanges() const;        // several devices; also one whose engine is named, which exchanges with itself
  bool divides(int axis) const;  // whether programs change by this axis: it has devices or parts
  int find(std::string_view name) const;         // the number of the axis of this name, or -1
  int64_t coordinate(int axis, int rank) const;  // the position of a device along an axis
  std::vector<int> along(int axis,
                         int rank) const;  // the ranks of the devices that differ from it along this axis alone
};

// What a device of a mesh has exchanged with others: the mean of those that belong to this process.
struct Exchanged {
  double seconds = 0;  // of collectives, from begin to end
  double waited = 0;   // of these, while the device had nothing else to do
  int64_t bytes = 0;   // sent to other devices, about
  // The share of the time in which the device had kernels to run, 0 to 1. (It may wait longer than a collective takes:
  // for the thread that runs it.)
  double hidden() const { return seconds > waited ? 1 - waited / seconds : 0; }
};

// Devices along the axis "data", which every batch is divided over. With `divided_states`, so is what optimisers
// remember.
Mesh data_parallel(int64_t devices);
Mesh divided_states(Mesh mesh, std::string axis = "data");  // the mesh with the policy `optimizer_states`

std::string to_string(const Mesh& mesh);   // "data=2, model=4"; "data=1/4" has 4 parts
Mesh parse_mesh(const std::string& text);  // the inverse; throws ConfigError
void check(const Mesh& mesh);              // throws ConfigError if axes, parts or policies do not fit

}  // namespace caravan
