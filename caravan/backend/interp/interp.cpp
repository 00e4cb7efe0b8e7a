#include "caravan/backend/interp/interp.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "caravan/base/error.h"
#include "caravan/base/random.h"

namespace caravan::interp {

namespace {

using ir::Accumulation;
using ir::Buffer;
using ir::BufferId;
using ir::Program;
using ir::Scalar;
using ir::Term;

// The elements of a buffer: doubles, or an array read where it lies (a step that reads a slice of a data set must not
// cost as much as the data set).
struct Elements {
  const double* values = nullptr;
  const void* packed = nullptr;
  DType dtype = DType::f64;
  int64_t size = 0;

  double operator[](int64_t index) const { return values ? values[index] : load(dtype, packed, index); }
};

// What storing into a buffer makes of a number computed in double: floats stay, integers wrap, infinities saturate.
double stored(DType dtype, double value) {
  if (is_float(dtype)) return value;
  if (dtype == DType::i64 && value == 0x1p63) return value;  // a cast that saturated: 2^63 - 1 has no double of its own
  if (is_integer(dtype) && std::isfinite(value) && !can_hold(dtype, std::trunc(value))) {
    const double modulus = std::ldexp(1.0, 8 * bytes(dtype));
    value = std::fmod(std::trunc(value), modulus);
    if (value < 0) value += modulus;
    if (value > largest(dtype)) value -= modulus;
  }
  return convert(dtype, value);
}

// The buffers of one run: leaves are made when they are first read, computed ones are put here.
class Buffers {
 public:
  Buffers(const Program& program, const State& state, const std::vector<int64_t>& symbols, uint64_t seed)
      : program_(program), state_(state), symbols_(symbols), seed_(seed), values_(program.buffers.size()) {}

  Elements elements(BufferId id) {
    const Buffer& buffer = program_.buffers[size_t(id)];
    if (std::holds_alternative<ir::StateLeaf>(buffer.kind)) return whole(state_values(buffer));
    if (const auto* data = std::get_if<ir::DataLeaf>(&buffer.kind))
      return {nullptr, data->array.data(), data->array.dtype(), data->array.size()};
    auto& values = values_[size_t(id)];
    if (!values) values = leaf_values(buffer);
    return whole(*values);
  }

  void put(BufferId id, Values values) { values_[size_t(id)] = std::move(values); }
  void drop(BufferId id) { values_[size_t(id)].reset(); }

  Values copy(BufferId id) {
    const Elements from = elements(id);
    Values out(size_t(from.size));
    for (int64_t i = 0; i < from.size; ++i) out[size_t(i)] = from[i];
    return out;
  }

 private:
  static Elements whole(const Values& values) { return {values.data(), nullptr, DType::f64, int64_t(values.size())}; }

  const Values& state_values(const Buffer& buffer) const {
    const auto found = state_.find(buffer.name);
    if (found == state_.end())
      throw StateError("state `" + buffer.name +
                       "` was never initialised; set it, or run a program that assigns it, before `" + program_.name +
                       "`.");
    if (int64_t(found->second.size()) != buffer.shape.elements())
      throw StateError("state `" + buffer.name + "` holds " + std::to_string(found->second.size()) + " values, but `" +
                       program_.name + "` reads it with shape `" + to_string(buffer.shape) + "`, " +
                       std::to_string(buffer.shape.elements()) + " values.");
    return found->second;
  }

  Values leaf_values(const Buffer& buffer) {
    const size_t size = size_t(buffer.shape.elements());
    if (const auto* leaf = std::get_if<ir::NumberLeaf>(&buffer.kind)) return Values(size, leaf->value);
    if (const auto* leaf = std::get_if<ir::SymbolLeaf>(&buffer.kind))
      return Values(size, double(symbols_[size_t(leaf->symbol)]));
    Values values(size);
    if (std::holds_alternative<ir::IotaLeaf>(buffer.kind)) {
      for (size_t i = 0; i < size; ++i) values[i] = double(i);
      return values;
    }
    const auto* random = std::get_if<ir::RandomLeaf>(&buffer.kind);
    CARAVAN_CHECK(random, "`" + buffer.name + "` is read before it is computed");
    const uint64_t step = uint64_t(int64_t(elements(random->step)[0]));
    const uint64_t name = hash_name(random->stream);
    for (size_t i = 0; i < size; ++i)
      values[i] = double(random_words(seed_, name, step, i)[size_t(random->lane)] >> (32 - random->width));
    return values;
  }

  const Program& program_;
  const State& state_;
  const std::vector<int64_t>& symbols_;
  const uint64_t seed_;
  std::vector<std::optional<Values>> values_;
};

// The affine functions of the iterators that one accumulation needs (offsets, conditions, positions), all advanced
// together as an odometer turns: moving an iterator by one adds its column.
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
  std::vector<std::vector<int64_t>> columns_;  // by iterator, then form
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

  Values run() {
    const Buffer& target = program_.buffers[size_t(accumulation_.target)];
    const AccumulatorRow& facts = row(accumulation_.accumulator);
    Values totals(size_t(target.shape.elements()), facts.neutral);
    write_.elements.size = int64_t(totals.size());
    const bool keeps = keeps_position(accumulation_.accumulator);
    Values best(keeps ? totals.size() : 0);
    std::vector<bool> touched(best.size(), false);

    bool more = std::ranges::find(accumulation_.extents, 0) == accumulation_.extents.end();
    for (; more; more = odometer_.next()) {
      if (!inside()) continue;
      const int64_t target_at = offset(write_);
      if (target_at == kOutside) continue;
      const size_t to = size_t(target_at);
      const double value = body();
      if (!keeps) {
        totals[to] = facts.combine(totals[to], value);
      } else if (!touched[to] || beats(accumulation_.accumulator, value, best[to])) {
        touched[to] = true;
        best[to] = value;
        totals[to] = double(odometer_[kept_]);
      }
    }
    if (!is_float(target.dtype))
      for (double& total : totals) total = stored(target.dtype, total);
    return totals;
  }

 private:
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

  // A term: an affine form, and the index tensors whose values are added to it.
  struct Index {
    int form = 0;
    std::vector<std::pair<size_t, int64_t>> loads;  // operand, coefficient
  };
  // An access: the offset is an affine form, plus stride * index for each axis that index tensors take part in.
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

  // The coefficients of the position among the iterators that count.
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

  // The body, compiled: constants are put into their places once, the rest is computed at every point.
  struct Step {
    Scalar::Kind kind;
    size_t to, operand;
    DType dtype;
    double (*eval)(double, double, double);
    size_t args[3];
  };

  void prepare_body() {
    const auto& entries = accumulation_.body.entries();
    CARAVAN_CHECK(!entries.empty(), to_string(program_, accumulation_));
    scratch_.assign(entries.size(), 0);
    for (size_t i = 0; i < entries.size(); ++i) {
      const Scalar& entry = entries[i];
      if (entry.kind == Scalar::Kind::constant) {
        scratch_[i] = entry.constant;
        continue;
      }
      const bool apply = entry.kind == Scalar::Kind::apply;
      steps_.push_back({entry.kind,
                        i,
                        size_t(entry.operand),
                        entry.dtype,
                        apply ? row(entry.op).eval : nullptr,
                        {size_t(entry.args[0]), size_t(entry.args[1]), size_t(entry.args[2])}});
    }
  }

  double body() {
    double* const at = scratch_.data();
    for (const Step& step : steps_) {
      switch (step.kind) {
        case Scalar::Kind::constant: break;
        case Scalar::Kind::load: at[step.to] = element(step.operand); break;
        case Scalar::Kind::position: at[step.to] = double(odometer_[position_]); break;
        case Scalar::Kind::cast: at[step.to] = convert(step.dtype, at[step.args[0]]); break;
        case Scalar::Kind::apply: at[step.to] = step.eval(at[step.args[0]], at[step.args[1]], at[step.args[2]]); break;
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

  double element(size_t operand) const {
    const Access& access = operands_[operand];
    return access.elements[offset(access)];
  }

  int64_t value(const Index& index) const {
    int64_t sum = odometer_[index.form];
    for (const auto& [operand, coefficient] : index.loads) {
      const int64_t at = offset(operands_[operand]);
      const double id = at == kOutside ? kNoId : std::clamp(operands_[operand].elements[at], -kNoId, kNoId);
      sum += coefficient * int64_t(std::isnan(id) ? -kNoId : id);
    }
    return sum;
  }

  // kOutside where an index tensor leads out of range.
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

  static constexpr double kNoId = 0x1p45;  // out of every range, and stays so in a sum
  static constexpr int64_t kOutside = -1;

  const Program& program_;
  const Accumulation& accumulation_;
  const std::vector<int64_t>& symbols_;
  Odometer odometer_;
  std::vector<Access> operands_;
  Access write_;
  std::vector<size_t> guarded_;  // operands whose value the point needs and that an index tensor may lead out of range
  std::vector<Index> where_;
  int position_ = 0, kept_ = 0;  // forms
  std::vector<Step> steps_;
  std::vector<double> scratch_;
};

void check_symbols(const Program& program, const std::vector<int64_t>& symbols) {
  if (symbols.size() != program.symbols.size())
    throw StateError("program `" + program.name + "` has " + std::to_string(program.symbols.size()) + " symbols, but " +
                     std::to_string(symbols.size()) + " values were given.");
  for (size_t k = 0; k < symbols.size(); ++k) {
    const ir::Symbol& symbol = program.symbols[k];
    if (symbols[k] < 0 || (symbol.range > 0 && symbols[k] >= symbol.range))
      throw StateError("the index `" + symbol.name + "` is " + std::to_string(symbols[k]) + ", but must be " +
                       (symbol.range > 0 ? "in 0.." + std::to_string(symbol.range - 1) : std::string("at least 0")) +
                       ".");
  }
}

// The last accumulation that reads (or writes) each buffer; the number of accumulations where it is a result.
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

std::vector<Values> run(const Program& program, State& state, const std::vector<int64_t>& symbols, uint64_t seed) {
  check_symbols(program, symbols);
  Buffers buffers(program, state, symbols, seed);
  const std::vector<size_t> last = last_readers(program);
  for (size_t k = 0; k < program.accumulations.size(); ++k) {
    const Accumulation& accumulation = program.accumulations[k];
    buffers.put(accumulation.target, Execution(program, accumulation, buffers, symbols).run());
    if (last[size_t(accumulation.target)] == k) buffers.drop(accumulation.target);
    for (const ir::Operand& operand : accumulation.operands)
      if (last[size_t(operand.buffer)] == k) buffers.drop(operand.buffer);
  }

  std::vector<Values> observed;
  for (BufferId id : program.observed) observed.push_back(buffers.copy(id));

  // Everything that can fail comes before the first change.
  State assigned;
  for (const ir::Assignment& assignment : program.assignments) {
    const Buffer& to = program.buffers[size_t(assignment.state)];
    Values values = buffers.copy(assignment.value);
    if (!is_float(to.dtype) && to.dtype != program.buffers[size_t(assignment.value)].dtype)
      for (double& value : values) value = convert(to.dtype, value);
    assigned.insert_or_assign(to.name, std::move(values));
  }
  while (!assigned.empty()) {
    auto outcome = state.insert(assigned.extract(assigned.begin()));
    if (!outcome.inserted) outcome.position->second.swap(outcome.node.mapped());
  }
  return observed;
}

}  // namespace caravan::interp
