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
};

// Names and sizes of the axes. Devices are numbered from 0, the last axis fastest; the number is called the rank.
struct Mesh {
  Mesh() = default;  // one device
  Mesh(std::initializer_list<MeshAxis> axes) : axes(axes) {}

  std::vector<MeshAxis> axes;  // the first changes slowest from rank to rank
  // How values are exchanged: `streams` (all devices are workers of this process), `mpi` (each is a process that mpirun
  // has started); `auto` is `mpi` in a process of several that mpirun has started, else `streams`.
  std::string engine = "auto";

  int64_t devices() const;                       // the product of the sizes; 1 without axes
  int find(std::string_view name) const;         // the number of the axis of this name, or -1
  int64_t coordinate(int axis, int rank) const;  // the position of a device along an axis
  std::vector<int> along(int axis,
                         int rank) const;  // the ranks of the devices that differ from it along this axis alone
};

std::string to_string(const Mesh& mesh);   // "data=2, model=4"
Mesh parse_mesh(const std::string& text);  // the inverse; throws ConfigError

}  // namespace caravan
