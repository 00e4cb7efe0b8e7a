#include "caravan/backend/interp/interp.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "caravan/backend/states.h"
#include "caravan/base/error.h"
#include "caravan/base/random.h"
#include "caravan/ops/op.h"

namespace caravan::interp {

namespace {

using ir::Accumulation;
using ir::Buffer;
using ir::BufferId;
using ir::Program;
using ir::Scalar;
using ir::Term;

// A value: `real` if its entry or buffer is a float, `integer` if it is an integer or bool.
union Number {
  double real;
  int64_t integer;
};
Number of_real(double value) {
  Number out;
  out.real = value;
  return out;
}
Number of_integer(int64_t value) {
  Number out;
  out.integer = value;
  return out;
}

// Implicit conversion from precision `from` to `to`: a float saturates in an integer, an integer wraps.
Number converted(Number value, DType from, DType to) {
  if (is_float(to)) return is_float(from) ? value : of_real(double(value.integer));
  return of_integer(is_float(from) ? to_integer(to, value.real) : wrapped(to, value.integer));
}
// Rule 5 of dtype.h.
Number cast(Number value, DType from, DType to) {
  if (!is_float(to)) return of_integer(is_float(from) ? to_integer(to, value.real) : saturated(to, value.integer));
  if (to == DType::f32 && !is_float(from)) return of_real(float(value.integer));  // rounded once
  return of_real(convert(to, is_float(from) ? value.real : double(value.integer)));
}
// A constant as an integer; one that is out of range wraps.
int64_t to_wrapped(DType dtype, double constant) {
  if (std::isfinite(constant) && !can_hold(dtype, std::trunc(constant)) && dtype != DType::boolean)
    return wrapped(dtype, to_integer(DType::i64, constant));
  return to_integer(dtype, constant);
}

// The elements of a buffer, read in place without a copy, so that a program which reads a slice of a large data set
// does not copy all of it.
struct Elements {
  const void* data = nullptr;
  DType dtype = DType::f64;
  int64_t size = 0;

  Number operator[](int64_t index) const {
    if (dtype == DType::f64) return of_real(static_cast<const double*>(data)[index]);
    return is_float(dtype) ? of_real(load(dtype, data, index)) : of_integer(load_integer(dtype, data, index));
  }
  int64_t integer(int64_t index) const { return converted((*this)[index], dtype, DType::i64).integer; }
};

void put_number(Array& into, int64_t index, Number value) {
  if (is_float(into.dtype()))
    store(into.dtype(), into.mutable_data(), index, value.real);
  else
    store_integer(into.dtype(), into.mutable_data(), index, value.integer);
}

// The buffers of one run. Leaves are made when they are first read; accumulations add the computed ones.
class Buffers {
 public:
  Buffers(const Program& program, const State& state, const std::vector<int64_t>& symbols, uint64_t seed)
      : program_(program), state_(state), symbols_(symbols), seed_(seed), values_(program.buffers.size()) {}

  Elements elements(BufferId id) {
    const Buffer& buffer = program_.buffers[size_t(id)];
    if (std::holds_alternative<ir::StateLeaf>(buffer.kind)) return whole(state_values(buffer));
    if (const auto* data = std::get_if<ir::DataLeaf>(&buffer.kind))
      return data->number ? Elements{&*data->number, DType::f64, 1} : whole(data->array);
    return whole(made(id));
  }

  void put(BufferId id, Array values) { values_[size_t(id)] = std::move(values); }
  void drop(BufferId id) { values_[size_t(id)].reset(); }
  std::optional<Array> take(BufferId id) { return std::exchange(values_[size_t(id)], std::nullopt); }

  // A copy of the buffer's values as an array of its shape in this precision.
  Array copy(BufferId id, DType dtype) {
    const Buffer& buffer = program_.buffers[size_t(id)];
    const auto* data = std::get_if<ir::DataLeaf>(&buffer.kind);
    if (data && data->number) return Array(buffer.shape, {*data->number}, dtype);
    const Array& from = std::holds_alternative<ir::StateLeaf>(buffer.kind) ? state_values(buffer)
                        : data                                             ? data->array
                                                                           : made(id);
    return from.cast(dtype).reshaped(buffer.shape);
  }

 private:
  static Elements whole(const Array& values) { return {values.data(), values.dtype(), values.size()}; }

  const Array& made(BufferId id) {
    auto& values = values_[size_t(id)];
    if (!values) values = leaf_values(program_.buffers[size_t(id)]);
    return *values;
  }

  const Array& state_values(const Buffer& buffer) const {
    const auto found = state_.find(buffer.name);
    if (found == state_.end())
      throw StateError("state `" + buffer.name +
                       "` was never initialised; set it, or run a program that assigns it, before `" + program_.name +
                       "`.");
    if (found->second.size() != buffer.shape.elements())
      throw StateError("state `" + buffer.name + "` holds " + std::to_string(found->second.size()) + " values, but `" +
                       program_.name + "` reads it with shape `" + to_string(buffer.shape) + "`, " +
                       std::to_string(buffer.shape.elements()) + " values.");
    return found->second;
  }

  Array leaf_values(const Buffer& buffer) {
    Array out(buffer.shape, kept_type(buffer.dtype));
    auto fill = [&](auto&& value) {
      for (int64_t i = 0; i < out.size(); ++i)
        put_number(out, i, converted(of_integer(value(i)), DType::i64, out.dtype()));
      return out;
    };
    if (const auto* leaf = std::get_if<ir::NumberLeaf>(&buffer.kind)) {
      for (int64_t i = 0; i < out.size(); ++i) store(out.dtype(), out.mutable_data(), i, leaf->value);
      return out;
    }
    if (const auto* leaf = std::get_if<ir::SymbolLeaf>(&buffer.kind))
      return fill([&](int64_t) { return symbols_[size_t(leaf->symbol)]; });
    if (std::holds_alternative<ir::IotaLeaf>(buffer.kind)) return fill([](int64_t i) { return i; });
    const auto* random = std::get_if<ir::RandomLeaf>(&buffer.kind);
    CARAVAN_CHECK(random, "`" + buffer.name + "` is read before it is computed");
    const uint64_t step = uint64_t(elements(random->step).integer(0)), name = hash_name(random->stream);
    return fill([&](int64_t i) {
      return int64_t(random_words(seed_, name, step, uint64_t(i))[size_t(random->lane)] >> (32 - random->width));
    });
  }

  const Program& program_;
  const State& state_;
  const std::vector<int64_t>& symbols_;
  const uint64_t seed_;
  std::vector<std::optional<Array>> values_;
};

// The values of all affine functions of the iterators that an accumulation needs (offsets, conditions, positions),
// updated incrementally: when an iterator is incremented, its column of coefficients is added to them.
class Odometer {
 public:
  explicit Odometer(const std::vector<int64_t>& extents) : extents_(extents), at_(extents.size(), 0) {
    columns_.resize(extents.size());
  }

  int add(int64_t constant, const std::vector<int64_t>& coefficients) {
    now_.push_back(constant);
    for (size_t k = 0; k < extents_.size(); ++k) columns_[k].push_back(coefficients[k]);
    return int(now_.size()) - 1;
  }

  int64_t operator[](int form) const { return now_[size_t(form)]; }

  bool next() {  // the last iterator runs fastest; false after the last point
    for (size_t k = extents_.size(); k-- > 0;) {
      const bool carry = ++at_[k] == extents_[k];
      if (carry) at_[k] = 0;
      const int64_t moved = carry ? 1 - extents_[k] : 1;
      for (size_t form = 0; form < now_.size(); ++form) now_[form] += moved * columns_[k][form];
      if (!carry) return true;
    }
    return false;
  }

 private:
  const std::vector<int64_t>& extents_;
  std::vector<int64_t> at_, now_;
  std::vector<std::vector<int64_t>> columns_;  // the change of each form, by iterator
};

class Execution {
 public:
  Execution(const Program& program, const Accumulation& accumulation, Buffers& buffers,
            const std::vector<int64_t>& symbols)
      : program_(program), accumulation_(accumulation), symbols_(symbols), odometer_(accumulation.extents) {
    for (const ir::Operand& operand : accumulation.operands) {
      operands_.push_back(access(operand.buffer, operand.map));
      operands_.back().elements = buffers.elements(operand.buffer);
    }
    write_ = access(accumulation.target, accumulation.write);
    for (const Term& term : accumulation.where) where_.push_back(index(term));
    for (size_t k = 0; k < operands_.size(); ++k)
      if (!operands_[k].axes.empty() && (accumulation.body.reads(int(k)) || is_index(k))) guarded_.push_back(k);
    position_ = odometer_.add(0, linear(std::vector<bool>(accumulation.extents.size(), true)));
    if (keeps_position(accumulation.accumulator)) kept_ = odometer_.add(0, linear(accumulation.counted));
    prepare_body();
  }

  Array run(const std::optional<Array>& others) {  // `others`: the target as other accumulations have written it so far
    const Buffer& target = program_.buffers[size_t(accumulation_.target)];
    const DType dtype = kept_type(target.dtype);
    const AccumulatorRow& facts = row(accumulation_.accumulator);
    std::vector<Number> totals(size_t(target.shape.elements()),
                               is_float(dtype) ? of_real(facts.neutral)
                                               : of_integer(integer_neutral(accumulation_.accumulator, target.dtype)));
    if (others) {
      const Elements held{others->data(), others->dtype(), others->size()};
      for (size_t i = 0; i < totals.size(); ++i) totals[i] = held[int64_t(i)];
    }
    write_.elements.size = int64_t(totals.size());
    const bool keeps = keeps_position(accumulation_.accumulator);
    std::vector<Number> best(keeps ? totals.size() : 0);
    std::vector<bool> touched(best.size(), false);

    bool more = std::ranges::find(accumulation_.extents, 0) == accumulation_.extents.end();
    for (; more; more = odometer_.next()) {
      if (!inside()) continue;
      const int64_t target_at = offset(write_);
      if (target_at == kOutside) continue;
      const size_t to = size_t(target_at);
      const Number value = body();
      if (!keeps) {
        totals[to] = combined(facts, dtype, totals[to], converted(value, result_, dtype));
      } else if (!touched[to] || wins(value, best[to])) {
        touched[to] = true;
        best[to] = value;
        totals[to] = of_integer(odometer_[kept_]);
      }
    }
    Array out(target.shape, dtype);
    if (!totals.empty()) out.mutable_data();
    for (size_t i = 0; i < totals.size(); ++i) put_number(out, int64_t(i), totals[i]);
    return out;
  }

 private:
  static Number combined(const AccumulatorRow& facts, DType dtype, Number total, Number value) {
    if (is_float(dtype)) return of_real(facts.combine(total.real, value.real));
    return of_integer(wrapped(dtype, row(*facts.op).integer(total.integer, value.integer, 0)));
  }
  bool wins(Number value, Number best) const {
    if (is_float(result_)) return beats(accumulation_.accumulator, value.real, best.real);
    return accumulation_.accumulator == Accumulator::argmax ? value.integer > best.integer
                                                            : value.integer < best.integer;
  }

  bool is_index(size_t operand) const {
    auto loads = [&](const Term& term) {
      return std::ranges::any_of(term.parts, [&](const Term::Part& part) {
        return part.kind == Term::Part::Kind::load && size_t(part.which) == operand;
      });
    };
    return std::ranges::any_of(accumulation_.where, loads) || std::ranges::any_of(accumulation_.write, loads) ||
           std::ranges::any_of(accumulation_.operands,
                               [&](const ir::Operand& o) { return std::ranges::any_of(o.map, loads); });
  }

  // A term: the number of an affine form, and the index tensors whose values are added to it.
  struct Index {
    int form = 0;
    std::vector<std::pair<size_t, int64_t>> loads;  // operand, coefficient
  };
  // An access. Its offset is an affine form, plus stride * index for each axis whose index has an index tensor.
  struct Access {
    struct Axis {
      Index index;
      int64_t size = 0, stride = 0;
    };
    int form = 0;
    std::vector<Axis> axes;
    Elements elements;
  };

  void accumulate(const Term& term, int64_t factor, int64_t& constant, std::vector<int64_t>& coefficients) const {
    constant += factor * term.constant;
    for (const Term::Part& part : term.parts) {
      if (part.kind == Term::Part::Kind::iterator) coefficients[size_t(part.which)] += factor * part.coefficient;
      if (part.kind == Term::Part::Kind::symbol) constant += factor * part.coefficient * symbols_[size_t(part.which)];
    }
  }

  Index index(const Term& term) {
    int64_t constant = 0;
    std::vector<int64_t> coefficients(accumulation_.extents.size(), 0);
    accumulate(term, 1, constant, coefficients);
    Index out;
    out.form = odometer_.add(constant, coefficients);
    for (const Term::Part& part : term.parts)
      if (part.kind == Term::Part::Kind::load) out.loads.emplace_back(size_t(part.which), part.coefficient);
    return out;
  }

  Access access(BufferId buffer, const std::vector<Term>& map) {
    Access out;
    const auto sizes = program_.buffers[size_t(buffer)].shape.sizes();
    CARAVAN_CHECK(map.size() == sizes.size(), to_string(program_, accumulation_));
    int64_t constant = 0, stride = 1;
    std::vector<int64_t> coefficients(accumulation_.extents.size(), 0);
    for (size_t axis = map.size(); axis-- > 0; stride *= sizes[axis]) {
      if (map[axis].has_load())
        out.axes.push_back({index(map[axis]), sizes[axis], stride});
      else
        accumulate(map[axis], stride, constant, coefficients);
    }
    out.form = odometer_.add(constant, coefficients);
    return out;
  }

  // The coefficients of the linear position in the box of the counted iterators.
  std::vector<int64_t> linear(const std::vector<bool>& counted) const {
    std::vector<int64_t> coefficients(counted.size(), 0);
    int64_t stride = 1;
    for (size_t k = counted.size(); k-- > 0;) {
      if (!counted[k]) continue;
      coefficients[k] = stride;
      stride *= accumulation_.extents[k];
    }
    return coefficients;
  }

  // An entry of the body, prepared for evaluation. Constants are written to `scratch_` once; the other entries are
  // computed at every point.
  struct Instruction {
    Scalar::Kind kind;
    size_t to, operand;
    DType dtype;    // of the value
    DType compute;  // apply: of its arguments
    Op op;
    bool selects;  // apply: the first argument is a condition
    int arity;
    size_t args[3];
    DType types[3];       // of the arguments
    bool is_constant[3];  // per argument: is it a constant that is converted to an integer
  };

  void prepare_body() {
    const auto& entries = accumulation_.body.entries();
    CARAVAN_CHECK(!entries.empty(), to_string(program_, accumulation_));
    std::vector<DType> operands;
    for (const ir::Operand& operand : accumulation_.operands)
      operands.push_back(program_.buffers[size_t(operand.buffer)].dtype);
    const std::vector<ir::EntryType> types = ir::types_of(accumulation_.body, operands, {});
    // Weak numbers are doubles.
    auto kept = [&](size_t e) { return types[e].weak ? DType::f64 : kept_type(types[e].dtype); };
    scratch_.assign(entries.size(), Number{});
    for (size_t i = 0; i < entries.size(); ++i) {
      const Scalar& entry = entries[i];
      if (entry.kind == Scalar::Kind::constant) {
        scratch_[i] = of_real(entry.constant);
        continue;
      }
      const bool apply = entry.kind == Scalar::Kind::apply;
      Instruction instruction{};
      instruction.kind = entry.kind, instruction.to = i, instruction.operand = size_t(entry.operand);
      instruction.dtype = entry.kind == Scalar::Kind::cast ? entry.dtype : kept(i);
      instruction.compute = kept_type(types[i].compute), instruction.op = entry.op;
      instruction.selects = apply && row(entry.op).result == ResultType::select;
      instruction.arity = apply ? row(entry.op).arity : entry.kind == Scalar::Kind::cast ? 1 : 0;
      for (int k = 0; k < instruction.arity; ++k) {
        instruction.args[k] = size_t(entry.args[k]);
        instruction.types[k] = kept(instruction.args[k]);
        instruction.is_constant[k] = entries[instruction.args[k]].kind == Scalar::Kind::constant;
      }
      instructions_.push_back(instruction);
    }
    result_ = kept(entries.size() - 1);
  }

  Number applied(const Instruction& instruction) const {
    const OpRow& facts = row(instruction.op);
    Number args[3]{};
    for (int k = 0; k < instruction.arity; ++k) {
      const Number arg = scratch_[instruction.args[k]];
      if (instruction.selects && k == 0) {
        const bool holds = is_float(instruction.types[0]) ? arg.real != 0 : arg.integer != 0;
        args[0] = is_float(instruction.compute) ? of_real(holds) : of_integer(holds);
      } else if (instruction.is_constant[k] && !is_float(instruction.compute)) {
        args[k] = of_integer(to_wrapped(instruction.compute, arg.real));
      } else {
        args[k] = converted(arg, instruction.types[k], instruction.compute);
      }
    }
    if (!is_float(instruction.compute)) {
      const int64_t value = facts.integer(args[0].integer, args[1].integer, args[2].integer);
      return of_integer(wrapped(instruction.dtype, value));
    }
    const double value = facts.eval(args[0].real, args[1].real, args[2].real);
    return is_float(instruction.dtype) ? of_real(value) : of_integer(value != 0);  // a comparison
  }

  Number body() {
    for (const Instruction& instruction : instructions_) {
      Number& to = scratch_[instruction.to];
      switch (instruction.kind) {
        case Scalar::Kind::constant: break;
        case Scalar::Kind::load: to = element(instruction.operand); break;
        case Scalar::Kind::position: to = of_integer(odometer_[position_]); break;
        case Scalar::Kind::cast:
          to = cast(scratch_[instruction.args[0]], instruction.types[0], instruction.dtype);
          break;
        case Scalar::Kind::apply: to = applied(instruction); break;
      }
    }
    return scratch_.back();
  }

  bool inside() const {
    for (const Index& term : where_)
      if (term.loads.empty() && value(term) < 0) return false;
    for (const size_t operand : guarded_)
      if (offset(operands_[operand]) == kOutside) return false;
    for (const Index& term : where_)
      if (!term.loads.empty() && value(term) < 0) return false;
    return true;
  }

  Number element(size_t operand) const {
    const Access& access = operands_[operand];
    return access.elements[offset(access)];
  }

  int64_t value(const Index& index) const {
    int64_t sum = odometer_[index.form];
    for (const auto& [operand, coefficient] : index.loads) {
      const int64_t at = offset(operands_[operand]);
      const int64_t id = at == kOutside ? kNoId : operands_[operand].elements.integer(at);
      sum += coefficient * std::clamp(id, -kNoId, kNoId);
    }
    return sum;
  }

  // The offset of an access; kOutside if an index tensor's value is out of range.
  int64_t offset(const Access& access) const {
    int64_t at = odometer_[access.form];
    for (const Access::Axis& axis : access.axes) {
      const int64_t position = value(axis.index);
      if (position < 0 || position >= axis.size) return kOutside;
      at += axis.stride * position;
    }
    CARAVAN_CHECK(at >= 0 && at < access.elements.size, "out of range in " + to_string(program_, accumulation_));
    return at;
  }

  static constexpr int64_t kNoId = int64_t(1) << 45;  // larger than every size, also after other terms are added
  static constexpr int64_t kOutside = -1;

  const Program& program_;
  const Accumulation& accumulation_;
  const std::vector<int64_t>& symbols_;
  Odometer odometer_;
  std::vector<Access> operands_;
  Access write_;
  // Operands that a point needs and that are read through an index tensor, so that they may be out of range.
  std::vector<size_t> guarded_;
  std::vector<Index> where_;
  int position_ = 0, kept_ = 0;  // numbers of their forms
  std::vector<Instruction> instructions_;
  std::vector<Number> scratch_;
  DType result_{};  // precision of the body
};

void check_symbols(const Program& program, const std::vector<int64_t>& symbols) {
  if (symbols.size() != program.symbols.size())
    throw StateError("program `" + program.name + "` has " + std::to_string(program.symbols.size()) + " symbols, but " +
                     std::to_string(symbols.size()) + " values were given.");
  backend::check_symbols(program.symbols, symbols);
}

// By buffer: the last accumulation that reads or writes it; for results of the program, the number of accumulations.
std::vector<size_t> last_readers(const Program& program) {
  std::vector<size_t> last(program.buffers.size(), 0);
  for (size_t k = 0; k < program.accumulations.size(); ++k) {
    last[size_t(program.accumulations[k].target)] = k;
    for (const ir::Operand& operand : program.accumulations[k].operands) {
      last[size_t(operand.buffer)] = k;
      if (const auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(operand.buffer)].kind))
        last[size_t(random->step)] = k;
    }
  }
  auto keep = [&](BufferId id) {
    last[size_t(id)] = program.accumulations.size();
    if (const auto* random = std::get_if<ir::RandomLeaf>(&program.buffers[size_t(id)].kind))
      last[size_t(random->step)] = program.accumulations.size();
  };
  for (const ir::Assignment& assignment : program.assignments) keep(assignment.value);
  for (BufferId id : program.observed) keep(id);
  return last;
}

}  // namespace

DType kept_type(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

namespace {

// What all devices along an axis of the mesh have of a buffer.
Array exchanged(const Program& program, const Accumulation& a, const Array& own, backend::Exchange& exchange) {
  const Buffer& target = program.buffers[size_t(a.target)];
  Array out(target.shape, own.dtype());
  backend::Communicator& communicator = exchange.communicator();
  const std::vector<int> group = exchange.mesh().along(a.collective->mesh_axis, communicator.rank());
  if (a.collective->kind == ir::Collective::Kind::all_reduce) {
    const backend::Reduced part{own.data(), out.mutable_data(), own.size(), own.dtype(), a.accumulator};
    communicator.all_reduce(group, {&part, 1});
    return out;
  }
  const std::vector<int64_t> sizes = own.shape().sizes(), whole = target.shape.sizes();
  int64_t pieces = 1;
  for (size_t axis = 0; sizes[axis] == whole[axis]; ++axis) pieces *= sizes[axis];
  const backend::Gathered part{own.data(), out.mutable_data(), pieces, own.size() / pieces * bytes(own.dtype())};
  communicator.all_gather(group, {&part, 1});
  return out;
}

}  // namespace

std::vector<Array> run(const Program& program, State& state, const std::vector<int64_t>& symbols, uint64_t seed,
                       backend::Exchange* exchange) {
  check_symbols(program, symbols);
  Buffers buffers(program, state, symbols, seed);
  const std::vector<size_t> last = last_readers(program);
  for (size_t k = 0; k < program.accumulations.size(); ++k) {
    const Accumulation& accumulation = program.accumulations[k];
    const std::optional<Array> others = accumulation.part ? buffers.take(accumulation.target) : std::nullopt;
    if (accumulation.collective) {
      CARAVAN_CHECK(exchange, "the device is not one of a mesh");
      const BufferId from = accumulation.operands[0].buffer;
      const Array own = buffers.copy(from, kept_type(program.buffers[size_t(from)].dtype));
      buffers.put(accumulation.target, exchanged(program, accumulation, own, *exchange));
    } else {
      buffers.put(accumulation.target, Execution(program, accumulation, buffers, symbols).run(others));
    }
    if (last[size_t(accumulation.target)] == k) buffers.drop(accumulation.target);
    for (const ir::Operand& operand : accumulation.operands)
      if (last[size_t(operand.buffer)] == k) buffers.drop(operand.buffer);
  }

  std::vector<Array> observed;
  for (BufferId id : program.observed)
    observed.push_back(buffers.copy(id, kept_type(program.buffers[size_t(id)].dtype)));

  // Everything that can fail comes before the first change of a state.
  State assigned;
  for (const ir::Assignment& assignment : program.assignments) {
    const Buffer& to = program.buffers[size_t(assignment.state)];
    assigned.insert_or_assign(to.name, buffers.copy(assignment.value, kept_type(to.dtype)).reshaped(to.shape));
  }
  while (!assigned.empty()) {
    auto outcome = state.insert(assigned.extract(assigned.begin()));
    if (!outcome.inserted) std::swap(outcome.position->second, outcome.node.mapped());
  }
  return observed;
}

}  // namespace caravan::interp
