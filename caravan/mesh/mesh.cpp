#include "caravan/mesh/mesh.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "caravan/base/error.h"

namespace caravan {

int64_t Mesh::devices() const {
  int64_t out = 1;
  for (const MeshAxis& axis : axes) out *= axis.size;
  return out;
}

int Mesh::find(std::string_view name) const {
  for (size_t k = 0; k < axes.size(); ++k)
    if (axes[k].name == name) return int(k);
  return -1;
}

bool Mesh::exchanges() const { return devices() > 1 || (!axes.empty() && engine != "auto"); }
bool Mesh::divides(int axis) const { return axes[size_t(axis)].summed_parts() > 1 || exchanges(); }

namespace {

// By how much the rank changes from one device to the next along an axis.
int64_t rank_stride(const Mesh& mesh, int axis) {
  int64_t out = 1;
  for (size_t k = mesh.axes.size(); --k > size_t(axis);) out *= mesh.axes[k].size;
  return out;
}

}  // namespace

int64_t Mesh::coordinate(int axis, int rank) const { return rank / rank_stride(*this, axis) % axes[size_t(axis)].size; }

std::vector<int> Mesh::along(int axis, int rank) const {
  const int64_t stride = rank_stride(*this, axis), first = rank - coordinate(axis, rank) * stride;
  std::vector<int> out;
  for (int64_t k = 0; k < axes[size_t(axis)].size; ++k) out.push_back(int(first + k * stride));
  return out;
}

Mesh data_parallel(int64_t devices) {
  Mesh out{{"data", devices}};
  out.batches = "data";
  return out;
}
Mesh divided_states(Mesh mesh, std::string axis) {
  mesh.optimizer_states = std::move(axis);
  return mesh;
}

std::string to_string(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes) {
    out += (out.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.size);
    if (axis.summed_parts() != axis.size) out += "/" + std::to_string(axis.parts);
  }
  return out;
}

Mesh parse_mesh(const std::string& text) {
  Mesh out;
  for (size_t from = 0; from < text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size()), equals = text.find('=', from);
    MeshAxis axis;
    const char* end = text.data() + comma;
    bool right = equals != text.npos && equals > from && equals < comma;
    if (right) {
      axis.name = text.substr(from, equals - from);
      auto [stop, error] = std::from_chars(text.data() + equals + 1, end, axis.size);
      right = error == std::errc() && axis.size > 0 && out.find(axis.name) < 0;
      if (right && stop != end && *stop == '/') {
        const auto [last, wrong] = std::from_chars(stop + 1, end, axis.parts);
        right = wrong == std::errc() && axis.parts > 0;
        stop = last;
      }
      right = right && stop == end;
    }
    if (!right) throw ConfigError("`" + text + "` is not a mesh; one is written as data=2, or data=2,model=4.");
    out.axes.push_back(axis);
    from = comma + 1;
    while (from < text.size() && text[from] == ' ') ++from;
  }
  return out;
}

void check(const Mesh& mesh) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();  // ranks are of type int
  int64_t devices = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (&mesh.axes[size_t(mesh.find(axis.name))] != &axis)
      throw ConfigError("two axes of the mesh " + to_string(mesh) + " are called `" + axis.name +
                        "`; each needs a name of its own.");
    if (axis.size < 1 || axis.name.empty())
      throw ConfigError("an axis of a mesh has a name and at least one device; the mesh is " + to_string(mesh) + ".");
    if (axis.parts < 0 || axis.summed_parts() % axis.size != 0)
      throw ConfigError("the axis `" + axis.name + "` of the mesh " + to_string(mesh) + " has " +
                        std::to_string(axis.size) + " devices and " + std::to_string(axis.parts) +
                        " parts; each device must have the same number of them.");
    if (axis.size > kMost / devices)
      throw ConfigError("the mesh " + to_string(mesh) + " has more than " + std::to_string(kMost) + " devices.");
    devices *= axis.size;
  }
  for (const auto& [policy, axis] : {std::pair{"batches", mesh.batches}, {"optimizer_states", mesh.optimizer_states}})
    if (!axis.empty() && mesh.find(axis) < 0)
      throw ConfigError(std::string("the policy `") + policy + "` names the axis `" + axis + "`; the mesh has " +
                        (mesh.axes.empty() ? "none" : to_string(mesh)) + ".");
}

}  // namespace caravan
