#include "caravan/backend/interp/accumulate.h"

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/ops/op.h"

namespace caravan::interp {

namespace {

using ir::Accumulation;
using ir::Buffer;
using ir::BufferId;
using ir::Program;
using ir::Scalar;
using ir::Term;

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

  Array run(const std::optional<Array>& others) {
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

}  // namespace

Array accumulate(const Program& program, const Accumulation& accumulation, Buffers& buffers,
                 const std::vector<int64_t>& symbols, const std::optional<Array>& others) {
  return Execution(program, accumulation, buffers, symbols).run(others);
}

}  // namespace caravan::interp
