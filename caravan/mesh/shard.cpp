#include "caravan/mesh/shard.h"

#include <algorithm>
#include <set>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"

namespace caravan::mesh {

using ir::Accumulation;
using ir::BufferId;
using ir::Program;
using ir::Term;

namespace {

class Sharder {
 public:
  Sharder(const Program& program, const Mesh& mesh, const StatePlaces& known)
      : whole_(program),
        mesh_(mesh),
        placed_(propagate(program, mesh, known)),
        out_(program),
        places_(placed_.buffers) {
    out_.accumulations.clear(), out_.placements.clear();
    for (const ir::Buffer& b : program.buffers) names_.insert(b.name);
    first_symbol_ = int(out_.symbols.size());
    if (mesh.exchanges())
      for (const MeshAxis& axis : mesh.axes) out_.symbols.push_back({"mesh." + axis.name, axis.size});
    for (size_t b = 0; b < out_.buffers.size(); ++b)
      out_.buffers[b].shape = local_shape(std::move(out_.buffers[b].shape), places_[b], mesh);
  }

  Program run() {
    for (size_t k = 0; k < whole_.accumulations.size(); ++k) add(whole_.accumulations[k], placed_.iterators[k]);
    for (BufferId& id : out_.observed) id = whole(id);
    for (ir::Assignment& a : out_.assignments) a.value = placed_as(a.value, places_[size_t(a.state)]);
    for (size_t b = 0; b < places_.size(); ++b)
      for (size_t x = 0; x < places_[b].size(); ++x)
        if (places_[b][x] >= 0) out_.placements.push_back({BufferId(b), x, mesh_.axes[size_t(places_[b][x])].name});
    return std::move(out_);
  }

 private:
  int64_t devices(int axis) const { return mesh_.axes[size_t(axis)].size; }
  Term rank(int axis) const {  // the position of a device along the axis
    return devices(axis) == 1 ? Term::number(0) : Term::symbol(first_symbol_ + axis);
  }
  std::string unique(std::string name, const char* suffix) {
    while (!names_.insert(name += suffix).second) {
    }
    return name;
  }
  BufferId add_buffer(ir::Buffer buffer, Places places) {
    out_.buffers.push_back(std::move(buffer)), places_.push_back(std::move(places));
    return BufferId(out_.buffers.size()) - 1;
  }

  // --- accumulations ---

  // The iterators of the whole program as terms of those of one device. If a divided iterator is summed over, and a
  // device has several parts of it, the parts have an iterator of their own, before all others.
  struct Divided {
    std::vector<Term> within;    // the device's part of the iterator: counts from 0
    std::vector<Term> absolute;  // in the whole
  };

  // The term over divided iterators; `local` is the one whose part of the axis this is, so that it counts from 0.
  static Term over_parts(const Term& term, const Divided& divided, int local) {
    std::vector<Term> iterators = divided.absolute;
    if (local >= 0) iterators[size_t(local)] = divided.within[size_t(local)];
    return ir::substitute(term, iterators);
  }
  // How many parts of a sum a device has.
  int64_t own_parts(int axis) const { return mesh_.axes[size_t(axis)].summed_parts() / devices(axis); }

  void add(const Accumulation& a, const Places& split) {
    CARAVAN_CHECK(!a.part && a.after == -1, "a program is divided before it is optimised");
    const Places made = places_[size_t(a.target)];
    Accumulation out = a;
    std::vector<int> reduced;  // axes of the mesh
    for (size_t k = 0; k < split.size(); ++k)
      if (split[k] >= 0 && !is_written(a, int(k), split[k])) reduced.push_back(split[k]);
    std::vector<int> in_parts;  // of these, those of which a device has several parts
    std::copy_if(reduced.begin(), reduced.end(), std::back_inserter(in_parts),
                 [&](int axis) { return own_parts(axis) > 1; });
    const Divided divided = divide_iterators(out, a, split, in_parts);
    if (out.extents != a.extents && a.body.uses_position()) read_position(out, a, divided.absolute);
    auto divide = [&](std::vector<Term>& map, const std::vector<Term>& before, const Places& places,
                      const std::vector<int64_t>& sizes) {
      for (size_t x = 0; x < map.size(); ++x)
        map[x] = over_parts(before[x], divided, places[x] < 0 ? -1 : leading_iterator(whole_, a, before[x], sizes[x]));
    };
    for (size_t o = 0; o < a.operands.size(); ++o) {
      const BufferId id = a.operands[o].buffer;
      const std::vector<int64_t> sizes = whole_.buffers[size_t(id)].shape.sizes();
      Places needed = places_[size_t(id)];  // what the accumulation can use of it
      for (size_t x = 0; x < needed.size(); ++x) {
        const int k = leading_iterator(whole_, a, a.operands[o].map[x], sizes[x]);
        if (needed[x] >= 0 && (k < 0 || split[size_t(k)] != needed[x])) needed[x] = -1;
      }
      out.operands[o].buffer = gathered(id, needed);
      divide(out.operands[o].map, a.operands[o].map, needed, sizes);
    }
    divide(out.write, a.write, made, whole_.buffers[size_t(a.target)].shape.sizes());
    for (Term& term : out.where) term = over_parts(term, divided, -1);
    if (keeps_position(a.accumulator) && out.extents != a.extents)
      add_argument(std::move(out), a, divided.absolute);
    else
      add_sum(std::move(out), reduced, in_parts);
  }

  // Gives `out` the iterators that one device has. The order of its sums is chosen as if all devices were one, and each
  // part of a sum had a device.
  Divided divide_iterators(Accumulation& out, const Accumulation& a, const Places& split,
                           const std::vector<int>& in_parts) const {
    Divided divided;
    out.iterators.clear(), out.extents.clear();
    for (const int axis : in_parts) {
      out.iterators.push_back("part." + mesh_.axes[size_t(axis)].name);
      out.extents.push_back(own_parts(axis));
      out.chosen_by.push_back(1);
    }
    for (size_t k = 0; k < split.size(); ++k) {
      const Term own = Term::iterator(int(out.extents.size()));
      int64_t extent = a.extents[k], chosen_by = extent;
      divided.within.push_back(own), divided.absolute.push_back(own);
      if (const int axis = split[k]; axis >= 0) {
        extent /= devices(axis);
        const Term first = rank(axis) * extent;
        if (!is_written(a, int(k), axis)) chosen_by /= mesh_.axes[size_t(axis)].summed_parts();
        Term& within = divided.within.back();
        if (const auto part = std::find(in_parts.begin(), in_parts.end(), axis); part != in_parts.end()) {
          extent /= own_parts(axis);
          within = Term::iterator(int(part - in_parts.begin())) * extent + own;
        }
        divided.absolute.back() = within + first;
      }
      out.iterators.push_back(a.iterators[k]);
      out.extents.push_back(extent), out.chosen_by.push_back(chosen_by);
    }
    return divided;
  }
  // Does the divided iterator divide an axis of the result?
  bool is_written(const Accumulation& a, int iterator, int axis) const {
    const Places& made = places_[size_t(a.target)];
    const std::vector<int64_t> sizes = whole_.buffers[size_t(a.target)].shape.sizes();
    for (size_t x = 0; x < made.size(); ++x)
      if (made[x] == axis && leading_iterator(whole_, a, a.write[x], sizes[x]) == iterator) return true;
    return false;
  }

  // A sum over divided iterators: over each part, over the parts of a device, and over the devices of each axis. If the
  // target is divided over such an axis, each device gets its slice of the sum.
  //
  // The parts of all devices are added as one balanced tree. If a device has 4 of 12 parts, these are a subtree, and
  // the devices exchange its sum. If it has 6 of 12, its largest subtrees have 2 parts each, because some of those with
  // 4 have parts of both devices: all devices get the sums of all such subtrees, and add them.
  void add_sum(Accumulation out, const std::vector<int>& reduced, const std::vector<int>& in_parts) {
    const BufferId target = out.target;
    const Accumulation because = out;
    struct Step {
      enum class Kind : uint8_t { add, gather, exchange } kind{};
      int axis = 0;
      int64_t rows = 1;      // how many partial sums along this axis of the mesh there are afterwards
      int64_t together = 1;  // how many of them `add` makes one
      int slice = -1;        // the axis of the target of which each device gets a slice by this step
    };
    std::vector<Step> steps;
    for (const int axis : reduced) {
      const int64_t own = own_parts(axis);
      const int64_t subtree = devices(axis) == 1 ? own : own & -own, subtrees = own / subtree;
      const Places& made = places_[size_t(target)];
      const auto at = std::find(made.begin(), made.end(), axis);
      const int slice = at == made.end() ? -1 : int(at - made.begin());
      if (subtree > 1) steps.push_back({Step::Kind::add, axis, subtrees, subtree});
      if (subtrees > 1) {
        steps.push_back({Step::Kind::gather, axis, subtrees * devices(axis)});
        steps.push_back({Step::Kind::add, axis, 1, subtrees * devices(axis), slice});
      } else if (mesh_.exchanges()) {
        steps.push_back({Step::Kind::exchange, axis, 1, 1, slice});
      }
    }
    // How many partial sums there are after so many steps, by axis of the mesh; not of those that have one.
    auto rows_after = [&](size_t done) {
      std::vector<int64_t> rows;
      for (const int axis : reduced) {
        int64_t now = own_parts(axis);
        for (size_t s = 0; s < done; ++s)
          if (steps[s].axis == axis) now = steps[s].rows;
        if (now > 1) rows.push_back(now);
      }
      return rows;
    };
    auto next = [&](size_t done) {  // the buffer after so many steps
      if (done == steps.size()) return target;
      ir::Buffer part = out_.buffers[size_t(target)];
      part.name = unique(part.name, ".part");
      Places places = places_[size_t(target)];
      for (size_t s = done; s < steps.size(); ++s)
        if (const int x = steps[s].slice; x >= 0) {
          part.shape =
              with_size(std::move(part.shape), size_t(x), part.shape.sizes()[size_t(x)] * devices(steps[s].axis));
          places[size_t(x)] = -1;
        }
      Row rows;
      for (const int64_t size : rows_after(done)) rows.push_back({size}), places.insert(places.begin(), -1);
      part.shape.batch.insert(part.shape.batch.begin(), rows.begin(), rows.end());
      return add_buffer(std::move(part), std::move(places));
    };
    BufferId from = next(0);
    std::vector<Term> at;
    for (size_t p = 0; p < in_parts.size(); ++p) at.push_back(Term::iterator(int(p)));
    out.target = from;
    out.write.insert(out.write.begin(), at.begin(), at.end());
    out_.accumulations.push_back(std::move(out));
    for (size_t s = 0; s < steps.size(); ++s) {
      const BufferId to = next(s + 1);
      const auto& [kind, axis, rows, together, slice] = steps[s];
      const int x = slice < 0 ? -1 : slice + int(rows_after(s + 1).size());  // the axis of `to`
      switch (kind) {
        case Step::Kind::add:
          out_.accumulations.push_back(rows_added(from, to, rows, together, because));
          if (x >= 0)
            for (ir::Operand& o : out_.accumulations.back().operands)
              to_own_part(o.map[size_t(x) + 1], to, size_t(x), axis);
          break;
        case Step::Kind::gather: out_.accumulations.push_back(gather(from, to, 0, axis, because)); break;
        case Step::Kind::exchange:
          out_.accumulations.push_back(x < 0 ? collective(from, to, ir::Collective::Kind::all_reduce, axis, because)
                                             : scatter(from, to, size_t(x), axis, because));
      }
      from = to;
    }
  }

  // to[i] = from[0, i] + from[1, i] + ..., or what else combines them, in the order of backend::combine: as a balanced
  // tree. With several rows, each of them is the sum of as many: to[r, i] = from[r * together, i] + .... Narrow floats
  // are combined in f32 and rounded once.
  Accumulation rows_added(BufferId from, BufferId to, int64_t rows, int64_t together,
                          const Accumulation& because) const {
    Accumulation out = copy(to, to, because);
    const DType dtype = out_.buffers[size_t(to)].dtype;
    Op op = *row(because.accumulator).op;
    if (dtype == DType::boolean && op == Op::add) op = Op::or_;
    if (dtype == DType::boolean && op == Op::mul) op = Op::and_;
    out.operands.clear();
    ir::Body body;
    std::vector<int> values;
    const bool is_narrow = dtype == DType::f16 || dtype == DType::bf16;
    for (int64_t p = 0; p < together; ++p) {
      std::vector<Term> map = out.write;
      if (rows > 1)
        map[0] = map[0] * together + Term::number(p);
      else
        map.insert(map.begin(), Term::number(p));
      out.operands.push_back({from, std::move(map)});
      const int value = body.load(int(p));
      values.push_back(is_narrow ? body.cast(DType::f32, value) : value);
    }
    for (size_t stride = 1; stride < values.size(); stride *= 2)
      for (size_t k = 0; k + stride < values.size(); k += 2 * stride) {
        const int both[2] = {values[k], values[k + stride]};
        values[k] = body.apply(op, both);
      }
    body.finish(is_narrow ? body.cast(dtype, values[0]) : values[0]);
    out.body = ir::typed(body, std::vector<DType>(size_t(together), dtype), Accumulator::add, dtype);
    return out;
  }

  BufferId add_iota(const std::string& name, int64_t size, Source where) {
    Shape shape;
    shape.output.push_back({size});
    return add_buffer({unique("positions of " + name, "."), std::move(shape), DType::i64, ir::IotaLeaf{}, where}, {-1});
  }

  // The position in the box of the whole program, read from an iota.
  void read_position(Accumulation& out, const Accumulation& a, const std::vector<Term>& absolute) {
    Term at;
    int64_t points = 1;
    for (size_t k = a.extents.size(); k-- > 0; points *= a.extents[k]) at = at + absolute[k] * points;
    const BufferId iota = add_iota(whole_.buffers[size_t(a.target)].name, points, a.source);
    out.body = out.body.with_position(int(out.operands.size()));
    out.operands.push_back({iota, {std::move(at)}});
  }

  // An argmax or argmin counts the positions of the part that a device has. What is missing to the position in the
  // whole is added afterwards: it is a sum over written iterators (Propagation::can_be_divided).
  void add_argument(Accumulation out, const Accumulation& a, const std::vector<Term>& absolute) {
    int64_t points = 1, part_points = 1;
    std::vector<Term> added(a.extents.size());
    for (size_t k = a.extents.size(); k-- > 0;) {
      if (!a.counted[k]) continue;
      added[k] = absolute[k] * points - Term::iterator(int(k)) * part_points;
      points *= a.extents[k], part_points *= out.extents[k];
    }
    if (points == part_points) {  // no divided iterator is counted
      out_.accumulations.push_back(std::move(out));
      return;
    }
    const BufferId target = out.target;
    ir::Buffer part = out_.buffers[size_t(target)];
    part.name = unique(part.name, ".part");
    out.target = add_buffer(std::move(part), places_[size_t(target)]);
    Accumulation shift = copy(out.target, target, a);
    std::vector<Term> axes(a.extents.size());  // iterators of the copy, by iterator of the accumulation
    for (size_t x = 0; x < a.write.size(); ++x)
      if (a.write[x].parts.size() == 1 && a.write[x] == Term::iterator(a.write[x].parts[0].which))
        axes[size_t(a.write[x].parts[0].which)] = Term::iterator(int(x));
    Term at;
    for (const Term& term : added) at = at + ir::substitute(term, axes);
    shift.operands.push_back({add_iota(whole_.buffers[size_t(target)].name, points, a.source), {std::move(at)}});
    ir::Body body;
    const int position = body.load(0), zero = body.constant(0);
    const int sum_of[2] = {position, body.load(1)}, less_than[2] = {position, zero};
    const int choice[3] = {body.apply(Op::lt, less_than), position, body.apply(Op::add, sum_of)};
    body.finish(body.apply(Op::where, choice));
    const DType kept = out_.buffers[size_t(target)].dtype;
    const DType operands[2] = {kept, DType::i64};
    shift.body = ir::typed(body, operands, Accumulator::add, kept);
    shift.body.finish(shift.body.cast(kept, shift.body.result()));
    out_.accumulations.push_back(std::move(out));
    out_.accumulations.push_back(std::move(shift));
  }

  // --- collectives ---

  // to[i] = from[i]
  Accumulation copy(BufferId from, BufferId to, const Accumulation& because) const {
    Accumulation out;
    out.target = to;
    out.accumulator = Accumulator::add;
    out.extents = out_.buffers[size_t(from)].shape.sizes();
    for (size_t k = 0; k < out.extents.size(); ++k) {
      out.iterators.push_back("i" + std::to_string(k));
      out.write.push_back(Term::iterator(int(k)));
    }
    out.operands = {{from, out.write}};
    out.body = ir::Body::identity();
    out.label = because.label, out.source = because.source;
    return out;
  }
  Accumulation collective(BufferId from, BufferId to, ir::Collective::Kind kind, int axis,
                          const Accumulation& because) const {
    Accumulation out = copy(from, to, because);
    out.collective = {kind, axis};
    if (kind == ir::Collective::Kind::all_reduce) out.accumulator = because.accumulator;
    return out;
  }

  // to[i] = the sum of from[i + rank * size] over devices: axis x of `to` is divided.
  Accumulation scatter(BufferId from, BufferId to, size_t x, int axis, const Accumulation& because) const {
    Accumulation out = copy(to, to, because);
    out.operands[0].buffer = from;
    to_own_part(out.operands[0].map[x], to, x, axis);
    out.collective = {ir::Collective::Kind::reduce_scatter, axis};
    out.accumulator = because.accumulator;
    return out;
  }
  // Moves an index along axis x of `to`, which is divided over an axis of the mesh, to where the device's part begins.
  void to_own_part(Term& index, BufferId to, size_t x, int axis) const {
    index = index + rank(axis) * out_.buffers[size_t(to)].shape.sizes()[x];
  }

  // `to` has the parts of all devices one after the other along axis x.
  Accumulation gather(BufferId from, BufferId to, size_t x, int axis, const Accumulation& because) const {
    Accumulation out = collective(from, to, ir::Collective::Kind::all_gather, axis, because);
    out.write[x] = out.write[x] + rank(axis) * out.extents[x];
    return out;
  }

  // The buffer with these axes divided, of those that are; all others are gathered.
  BufferId gathered(BufferId id, const Places& needed) {
    for (size_t x = 0; x < needed.size(); ++x)
      if (places_[size_t(id)][x] >= 0 && needed[x] < 0 && mesh_.exchanges()) id = gathered_axis(id, x);
    return id;
  }
  BufferId whole(BufferId id) { return gathered(id, Places(places_[size_t(id)].size(), -1)); }

  BufferId gathered_axis(BufferId id, size_t x) {
    const auto [at, fresh] = gathered_.try_emplace({id, x}, -1);
    if (!fresh) return at->second;
    const int axis = places_[size_t(id)][x];
    ir::Buffer made = out_.buffers[size_t(id)];
    Places places = places_[size_t(id)];
    places[x] = -1;
    Accumulation because;
    because.label = made.name, because.source = made.where;
    BufferId from = id;
    if (!std::holds_alternative<ir::Computed>(made.kind)) {  // a state is overwritten at some time
      made.kind = ir::Computed{};
      ir::Buffer sent = made;
      sent.name = unique(sent.name, ".sent");
      from = add_buffer(std::move(sent), places_[size_t(id)]);
      out_.accumulations.push_back(copy(id, from, because));
    }
    const int64_t size = made.shape.sizes()[x];
    made.shape = with_size(std::move(made.shape), x, size * devices(axis));
    made.name = unique(made.name, ".whole");
    const BufferId to = add_buffer(std::move(made), std::move(places));
    out_.accumulations.push_back(gather(from, to, x, axis, because));
    return gathered_[{id, x}] = to;
  }

  // The value divided as the state that it is assigned to.
  BufferId placed_as(BufferId id, const Places places) {
    Places common = places;
    for (size_t x = 0; x < places.size(); ++x)
      if (places_[size_t(id)][x] != places[x]) common[x] = -1;
    id = gathered(id, common);
    if (common == places) return id;
    ir::Buffer made = out_.buffers[size_t(id)];
    Accumulation because;
    because.label = made.name, because.source = made.where;
    Accumulation cut = copy(id, -1, because);
    made.kind = ir::Computed{};
    made.name = unique(made.name, ".part");
    for (size_t x = 0; x < places.size(); ++x) {
      if (common[x] == places[x]) continue;
      cut.extents[x] /= devices(places[x]);
      made.shape = with_size(std::move(made.shape), x, cut.extents[x]);
      cut.operands[0].map[x] = cut.operands[0].map[x] + rank(places[x]) * cut.extents[x];
    }
    cut.target = add_buffer(std::move(made), places);
    out_.accumulations.push_back(std::move(cut));
    return BufferId(out_.buffers.size()) - 1;
  }

  const Program& whole_;
  const Mesh& mesh_;
  const Placements placed_;
  Program out_;
  std::vector<Places> places_;                                // by buffer of out_
  int first_symbol_ = 0;                                      // of the positions of a device in the mesh
  std::map<std::pair<BufferId, size_t>, BufferId> gathered_;  // by buffer and axis
  std::set<std::string> names_;
};

}  // namespace

Program shard(const Program& program, const Mesh& mesh, const StatePlaces& known) {
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (mesh.divides(int(axis))) return Sharder(program, mesh, known).run();
  return program;
}

StatePlaces state_places(const Program& sharded, const Mesh& mesh) {
  StatePlaces out;
  for (const ir::Buffer& b : sharded.buffers)
    if (std::holds_alternative<ir::StateLeaf>(b.kind)) out[b.name] = Places(size_t(b.shape.rank()), -1);
  for (const ir::Placement& p : sharded.placements)
    if (const auto at = out.find(sharded.buffers[size_t(p.buffer)].name); at != out.end())
      at->second[p.axis] = mesh.find(p.mesh_axis);
  return out;
}

Shape with_size(Shape shape, size_t axis, int64_t size) {
  for (RowKind kind : kMemoryOrder) {
    Row& row = shape[kind];
    if (axis < row.size()) {
      row[axis].size = size;
      row[axis].broadcastable = row[axis].broadcastable && size == 1;
      return shape;
    }
    axis -= row.size();
  }
  return shape;
}

Shape local_shape(Shape shape, const Places& places, const Mesh& mesh) {
  const std::vector<int64_t> sizes = shape.sizes();
  for (size_t x = 0; x < places.size(); ++x)
    if (places[x] >= 0) shape = with_size(std::move(shape), x, sizes[x] / mesh.axes[size_t(places[x])].size);
  return shape;
}

}  // namespace caravan::mesh
