#include "caravan/mesh/placements.h"

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/ir/print.h"
#include "caravan/ops/op.h"

namespace caravan::mesh {

using ir::Accumulation;
using ir::BufferId;
using ir::Program;
using ir::Term;

namespace {

std::vector<int64_t> symbol_ranges(const Program& program) {
  std::vector<int64_t> out;
  for (const ir::Symbol& symbol : program.symbols) out.push_back(symbol.range);
  return out;
}

bool is_state(const ir::Buffer& buffer) { return std::holds_alternative<ir::StateLeaf>(buffer.kind); }

bool is_data(const ir::Buffer& buffer) { return std::holds_alternative<ir::DataLeaf>(buffer.kind); }

// "63 and 66 are", of the multiples next to a number that is none.
std::string multiples_text(int64_t number, int64_t of) {
  const int64_t below = number / of * of;
  return (below > 0 ? std::to_string(below) + " and " : "") + std::to_string(below + of) + (below > 0 ? " are" : " is");
}

class Propagation {
 public:
  Propagation(const Program& program, const Mesh& mesh, const StatePlaces& known)
      : program_(program), mesh_(mesh), writer_(program.buffers.size(), -1), readers_(program.buffers.size()) {
    for (const ir::Buffer& b : program.buffers) out_.buffers.emplace_back(size_t(b.shape.rank()), -1);
    wished_ = out_.buffers;
    fixed_.assign(program.buffers.size(), false);
    for (size_t k = 0; k < program.accumulations.size(); ++k) {
      const Accumulation& a = program.accumulations[k];
      out_.iterators.emplace_back(a.iterators.size(), -1);
      writer_[size_t(a.target)] = int(k);
      for (size_t o = 0; o < a.operands.size(); ++o) readers_[size_t(a.operands[o].buffer)].push_back({k, o});
    }
    for (size_t b = 0; b < program.buffers.size(); ++b)
      if (const auto at = known.find(program.buffers[b].name); is_state(program.buffers[b]) && at != known.end())
        out_.buffers[b] = at->second, fixed_[b] = true;
    for (const ir::Placement& p : program.placements) ask(p);
    if (!mesh.batches.empty()) ask_for_batches();
    observed_.assign(program.buffers.size(), false);
    for (const BufferId id : program.observed) observed_[size_t(id)] = true;
    assigned_.assign(program.buffers.size(), -1);
    for (const ir::Assignment& a : program.assignments) assigned_[size_t(a.value)] = a.state;
  }

  Placements run() {
    settle();
    if (!mesh_.optimizer_states.empty()) {
      const int axis = mesh_.find(mesh_.optimizer_states);
      divide_states(axis);
      settle();
      divide_sums(axis);
      settle();
    }
    for (size_t k = 0; k < program_.accumulations.size(); ++k) scatter(k);
    return std::move(out_);
  }

 private:
  // Propagates until nothing changes.
  void settle() {
    do {
      changed_ = false;
      for (size_t k = 0; k < program_.accumulations.size(); ++k) backwards(k, /*only_wishes=*/true), forwards(k);
      for (size_t k = program_.accumulations.size(); k-- > 0;) backwards(k, /*only_wishes=*/false);
      for (const ir::Assignment& a : program_.assignments) follow_value(a);
    } while (changed_);
  }
  // An axis is divided only if it is a multiple of this.
  int64_t parts(int axis) const { return mesh_.axes[size_t(axis)].summed_parts(); }
  const ir::Buffer& buffer(BufferId id) const { return program_.buffers[size_t(id)]; }

  void ask(const ir::Placement& p) {
    const int axis = mesh_.find(p.mesh_axis);
    if (axis < 0 || !mesh_.divides(axis)) return;
    const ir::Buffer& b = buffer(p.buffer);
    const int64_t size = b.shape.sizes()[p.axis];
    if (size % parts(axis) != 0)
      throw ConfigError("`" + b.name + "`" + where_text(b.where) + " cannot be placed on `" + p.mesh_axis +
                            "`: " + ir::axis_text(b.shape, p.axis) + " has size " + std::to_string(size) +
                            ", which is not a multiple of " + std::to_string(parts(axis)) + " (the mesh is " +
                            to_string(mesh_) + "); " + multiples_text(size, parts(axis)) + ".",
                        b.where);
    Places& wished = wished_[size_t(p.buffer)];
    if (const auto other = std::find(wished.begin(), wished.end(), axis);
        other != wished.end() && other != wished.begin() + int64_t(p.axis))
      throw ConfigError("`" + b.name + "`" + where_text(b.where) + " is placed on `" + p.mesh_axis +
                            "` twice: " + ir::axis_text(b.shape, size_t(other - wished.begin())) + " and " +
                            ir::axis_text(b.shape, p.axis) + "; an axis of the mesh divides one axis of a tensor.",
                        b.where);
    wished[p.axis] = axis;
    // A copy of a state that was made to be placed: the state is meant.
    if (writer_[size_t(p.buffer)] < 0) return;
    const Accumulation& a = program_.accumulations[size_t(writer_[size_t(p.buffer)])];
    if (a.operands.size() != 1 || !(a.body == ir::Body::identity()) || !is_state(buffer(a.operands[0].buffer))) return;
    const ir::Operand& o = a.operands[0];
    const int k = leading_iterator(program_, a, a.write[p.axis], size);
    Places& state = out_.buffers[size_t(o.buffer)];
    if (k < 0 || fixed_[size_t(o.buffer)] || std::find(state.begin(), state.end(), axis) != state.end()) return;
    for (size_t x = 0; x < o.map.size(); ++x)
      if (o.map[x] == Term::iterator(k) && buffer(o.buffer).shape.sizes()[x] % parts(axis) == 0) {
        state[x] = axis;
        return;
      }
  }

  // The policy Mesh::batches: the first batch axis of what is read from data by an index.
  void ask_for_batches() {
    for (const Accumulation& a : program_.accumulations) {
      const auto by_index = [&](const ir::Operand& o) {
        for (const Term& term : o.map)
          for (const Term::Part& part : term.parts)
            if (part.kind == Term::Part::Kind::symbol && is_data(buffer(o.buffer))) return true;
        return false;
      };
      const Places& wished = wished_[size_t(a.target)];
      const bool is_placed = std::find(wished.begin(), wished.end(), mesh_.find(mesh_.batches)) != wished.end();
      if (!is_placed && !buffer(a.target).shape.batch.empty() &&
          std::any_of(a.operands.begin(), a.operands.end(), by_index))
        ask({a.target, 0, mesh_.batches});
    }
  }

  // The policy Mesh::optimizer_states: of each state of an optimiser the first axis that can be divided, if none is
  // divided over this axis of the mesh yet. All other states stay as they are, so that what a device has updated of a
  // weight is gathered.
  void divide_states(int axis) {
    if (!mesh_.divides(axis)) return;
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      auto* state = std::get_if<ir::StateLeaf>(&program_.buffers[b].kind);
      if (!state) continue;
      Places& places = out_.buffers[b];
      const std::vector<int64_t> sizes = program_.buffers[b].shape.sizes();
      const bool open =
          state->of_optimizer && !fixed_[b] && std::find(places.begin(), places.end(), axis) == places.end();
      for (size_t x = 0; open && x < sizes.size(); ++x)
        if (places[x] < 0 && sizes[x] > 1 && sizes[x] % parts(axis) == 0) {
          places[x] = axis;
          break;
        }
      fixed_[b] = true;
    }
  }

  // An update needs a part of a gradient, and the norm of the gradient needs all of it; but the norm is a sum, which
  // can be divided. So each buffer of which some readers need a part, and all others can do with it, is divided.
  void divide_sums(int axis) {
    if (!mesh_.divides(axis)) return;
    // By buffer and axis in memory order: can all readers do with a part of it?
    std::vector<std::vector<bool>> in_parts;
    for (const Places& places : out_.buffers) in_parts.emplace_back(places.size(), false);
    for (size_t k = program_.accumulations.size(); k-- > 0;) {
      const BufferId id = program_.accumulations[k].target;
      if (observed_[size_t(id)] || assigned_[size_t(id)] >= 0) continue;
      for (size_t x = 0; x < in_parts[size_t(id)].size(); ++x) {
        const auto& readers = readers_[size_t(id)];
        in_parts[size_t(id)][x] = std::all_of(readers.begin(), readers.end(), [&](const auto& reader) {
          return can_read_a_part(reader.first, reader.second, x, axis, in_parts);
        });
        if (!in_parts[size_t(id)][x] || std::none_of(readers.begin(), readers.end(), [&](const auto& reader) {
              return iterator_place(reader.first, reader.second, x) == axis;
            }))
          continue;
        for (const auto& [reader, o] : readers) divide(reader, reading_iterator(reader, o, x), axis);
      }
    }
  }
  // The iterator of an accumulation that leads axis x of an operand, -1 if there is none.
  int reading_iterator(size_t k, size_t o, size_t x) const {
    const ir::Operand& operand = program_.accumulations[k].operands[o];
    return leading_iterator(program_, program_.accumulations[k], operand.map[x],
                            buffer(operand.buffer).shape.sizes()[x]);
  }
  int iterator_place(size_t k, size_t o, size_t x) const {
    const int iterator = reading_iterator(k, o, x);
    return iterator < 0 ? -1 : out_.iterators[k][size_t(iterator)];
  }
  // Does the accumulation divide the iterator that leads axis x of an operand, or could it? If the iterator is summed
  // over, the result must be smaller than the operand, because all devices exchange it; else all readers of the result
  // must do with a part.
  bool can_read_a_part(size_t k, size_t o, size_t x, int axis, const std::vector<std::vector<bool>>& in_parts) const {
    const Accumulation& a = program_.accumulations[k];
    const int iterator = reading_iterator(k, o, x);
    const Places& places = out_.iterators[k];
    if (iterator < 0) return false;
    if (places[size_t(iterator)] >= 0) return places[size_t(iterator)] == axis;
    if (std::find(places.begin(), places.end(), axis) != places.end() ||
        a.extents[size_t(iterator)] % parts(axis) != 0 || keeps_position(a.accumulator))
      return false;
    const std::vector<int64_t> sizes = buffer(a.target).shape.sizes();
    for (size_t y = 0; y < sizes.size(); ++y)
      if (leading_iterator(program_, a, a.write[y], sizes[y]) == iterator) return in_parts[size_t(a.target)][y];
    return buffer(a.target).shape.elements() < buffer(a.operands[o].buffer).shape.elements();
  }

  // Divides the iterator, if that is possible.
  void divide(size_t accumulation, int iterator, int axis) {
    Places& places = out_.iterators[accumulation];
    const Accumulation& a = program_.accumulations[accumulation];
    if (iterator < 0 || places[size_t(iterator)] >= 0 ||
        std::find(places.begin(), places.end(), axis) != places.end() ||
        a.extents[size_t(iterator)] % parts(axis) != 0 || !can_be_divided(a, iterator))
      return;
    places[size_t(iterator)] = axis;
    Places made = written_places(program_, a, places);
    if (keeps_position(a.accumulator) && std::find(made.begin(), made.end(), axis) == made.end()) {
      places[size_t(iterator)] = -1;  // its results cannot be combined
      return;
    }
    changed_ = true;
    out_.buffers[size_t(a.target)] = std::move(made);
  }
  // The position that an argmax keeps is that of the whole box (shard.cpp adds what is missing): the iterators outside
  // of the divided one must be known where the result is.
  static bool can_be_divided(const Accumulation& a, int iterator) {
    if (!keeps_position(a.accumulator) || !a.counted[size_t(iterator)]) return true;
    for (int k = 0; k <= iterator; ++k)
      if (a.counted[size_t(k)] && a.extents[size_t(k)] > 1 &&
          std::find(a.write.begin(), a.write.end(), Term::iterator(k)) == a.write.end())
        return false;
    return true;
  }

  void forwards(size_t k) {
    const Accumulation& a = program_.accumulations[k];
    for (const ir::Operand& o : a.operands) {
      const Places& places = out_.buffers[size_t(o.buffer)];
      const std::vector<int64_t> sizes = buffer(o.buffer).shape.sizes();
      for (size_t x = 0; x < places.size(); ++x)
        if (places[x] >= 0) divide(k, leading_iterator(program_, a, o.map[x], sizes[x]), places[x]);
    }
  }

  void backwards(size_t k, bool only_wishes) {
    const Accumulation& a = program_.accumulations[k];
    const std::vector<int64_t> sizes = buffer(a.target).shape.sizes();
    for (size_t x = 0; x < sizes.size(); ++x) {
      int axis = wished_[size_t(a.target)][x];
      if (const int state = assigned_[size_t(a.target)]; axis < 0 && state >= 0) axis = out_.buffers[size_t(state)][x];
      if (axis < 0 && !only_wishes) axis = common_place(a.target, x);
      if (axis >= 0) divide(k, leading_iterator(program_, a, a.write[x], sizes[x]), axis);
    }
  }
  int common_place(BufferId id, size_t x) const {
    return observed_[size_t(id)] || assigned_[size_t(id)] >= 0 ? -1 : readers_place(id, x);
  }
  // The axis of the mesh over which all readers divide this axis; -1 if there is none.
  int readers_place(BufferId id, size_t x) const {
    int out = -1;
    for (const auto& [k, o] : readers_[size_t(id)]) {
      const int axis = iterator_place(k, o, x);
      if (axis < 0 || (out >= 0 && axis != out)) return -1;
      out = axis;
    }
    return out;
  }

  // Divides the result of a sum over divided iterators, if each device needs only a part of it. No iterator changes.
  void scatter(size_t k) {
    const BufferId target = program_.accumulations[k].target;
    Places& made = out_.buffers[size_t(target)];
    for (const int axis : out_.iterators[k])
      for (size_t x = 0; axis >= 0 && x < made.size() && std::find(made.begin(), made.end(), axis) == made.end(); ++x)
        if (made[x] < 0 && is_needed_in_parts(target, x, axis)) made[x] = axis;
  }
  bool is_needed_in_parts(BufferId id, size_t x, int axis) const {
    const int state = assigned_[size_t(id)];
    if (state >= 0 && out_.buffers[size_t(state)][x] != axis) return false;
    return !observed_[size_t(id)] && (readers_[size_t(id)].empty() ? state >= 0 : readers_place(id, x) == axis);
  }

  void follow_value(const ir::Assignment& a) {
    Places& state = out_.buffers[size_t(a.state)];
    const Places& value = out_.buffers[size_t(a.value)];
    const auto is_whole = [](int axis) { return axis < 0; };
    if (fixed_[size_t(a.state)] || !std::all_of(state.begin(), state.end(), is_whole) ||
        std::all_of(value.begin(), value.end(), is_whole))
      return;
    state = value;
    changed_ = true;
  }

  const Program& program_;
  const Mesh& mesh_;
  Placements out_;
  std::vector<Places> wished_;  // by buffer
  std::vector<bool> fixed_;     // by buffer: a state whose places are known from other programs
  std::vector<int> writer_;     // by buffer
  std::vector<std::vector<std::pair<size_t, size_t>>> readers_;  // by buffer: accumulation and operand
  std::vector<bool> observed_;
  std::vector<int> assigned_;  // by buffer: the state
  bool changed_ = false;
};

}  // namespace

int leading_iterator(const Program& program, const Accumulation& a, const Term& term, int64_t size) {
  for (const Term::Part& part : term.parts) {
    if (part.kind != Term::Part::Kind::iterator || part.coefficient <= 0) continue;
    const int64_t extent = a.extents[size_t(part.which)];
    if (extent == 1 || part.coefficient * extent != size) continue;
    Term rest = term;
    rest.add(Term::Part::Kind::iterator, part.which, -part.coefficient);
    const ir::Interval range = ir::range(rest, a.extents, symbol_ranges(program));
    if (range.low >= 0 && range.high < part.coefficient) return part.which;
  }
  return -1;
}

Places written_places(const Program& program, const Accumulation& a, const Places& iterators) {
  const std::vector<int64_t> sizes = program.buffers[size_t(a.target)].shape.sizes();
  Places out(sizes.size(), -1);
  for (size_t x = 0; x < sizes.size(); ++x) {
    const int k = leading_iterator(program, a, a.write[x], sizes[x]);
    const int axis = k < 0 ? -1 : iterators[size_t(k)];
    if (axis >= 0 && std::find(out.begin(), out.end(), axis) == out.end()) out[x] = axis;
  }
  return out;
}

Placements propagate(const Program& program, const Mesh& mesh, const StatePlaces& known) {
  check(mesh);
  return Propagation(program, mesh, known).run();
}

}  // namespace caravan::mesh
