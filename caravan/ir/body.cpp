#include "caravan/ir/body.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/base/hash.h"
#include "caravan/ops/table.h"

namespace caravan::ir {

namespace {

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

double apply_to_constants(const std::vector<Scalar>& entries, Op op, std::span<const int> args) {
  double values[3] = {};
  for (size_t k = 0; k < args.size(); ++k) values[k] = entries[size_t(args[k])].constant;
  return row(op).eval(values[0], values[1], values[2]);
}

// Is x op number (number op x if not `right`) equal to x, to the bit, for every x? Not for x + 0, which turns -0 into
// 0.
bool is_neutral(const OpRow& row, double number, bool right) {
  if (number != *row.neutral || !is_arithmetic(row.op)) return false;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (double x : {0.0, -0.0, 1.0, -1.5, 0.1, 5e-324, -1e308, inf, -inf, nan}) {
    const double y = right ? row.eval(x, number, 0) : row.eval(number, x, 0);
    if (!same_bits(x, y) && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

}  // namespace

std::span<const int> args_of(const Scalar& entry) {
  switch (entry.kind) {
    case Scalar::Kind::apply: return {entry.args, size_t(row(entry.op).arity)};
    case Scalar::Kind::cast: return {entry.args, 1};
    default: return {};
  }
}

bool Scalar::operator==(const Scalar& other) const {
  if (kind != other.kind) return false;
  switch (kind) {
    case Kind::constant: return dtype == other.dtype && same_bits(constant, other.constant);
    case Kind::load: return operand == other.operand;
    case Kind::position: return true;
    case Kind::cast: return dtype == other.dtype && args[0] == other.args[0];
    case Kind::apply: return op == other.op && std::ranges::equal(args_of(*this), args_of(other));
  }
  return false;
}

int Body::intern(Scalar entry) {
  for (int arg : args_of(entry))
    CARAVAN_CHECK(arg >= 0 && size_t(arg) < entries_.size(),
                  "entry " + std::to_string(entries_.size()) + " of a body reads entry " + std::to_string(arg));
  auto found = std::find(entries_.begin(), entries_.end(), entry);
  if (found != entries_.end()) return int(found - entries_.begin());
  entries_.push_back(entry);
  return int(entries_.size()) - 1;
}

int Body::constant(double value) { return constant(value, written_type(value)); }

int Body::constant(double value, DType written) {
  Scalar entry;
  entry.constant = value;
  entry.dtype = is_float(written) ? DType::f32 : DType::i32;
  return intern(entry);
}

int Body::load(int operand) {
  CARAVAN_CHECK(operand >= 0, "a body reads operand " + std::to_string(operand));
  Scalar entry;
  entry.kind = Scalar::Kind::load;
  entry.operand = operand;
  return intern(entry);
}

int Body::position() {
  Scalar entry;
  entry.kind = Scalar::Kind::position;
  return intern(entry);
}

int Body::cast(DType dtype, int arg) {
  CARAVAN_CHECK(arg >= 0 && size_t(arg) < entries_.size(), "a cast reads entry " + std::to_string(arg));
  const Scalar& of = entries_[size_t(arg)];
  if (of.kind == Scalar::Kind::cast && of.dtype == dtype) return arg;
  Scalar entry;
  entry.kind = Scalar::Kind::cast;
  entry.dtype = dtype;
  entry.args[0] = arg;
  return intern(entry);
}

int Body::apply(Op op, std::span<const int> args) {
  const OpRow& facts = row(op);
  CARAVAN_CHECK(int(args.size()) == facts.arity, "`" + std::string(facts.name) + "` takes " +
                                                     std::to_string(facts.arity) + " operands, not " +
                                                     std::to_string(args.size()));
  Scalar entry;
  entry.kind = Scalar::Kind::apply;
  entry.op = op;
  bool constant_args = true, integers = facts.result != ResultType::real;
  for (size_t k = 0; k < args.size(); ++k) {
    CARAVAN_CHECK(args[k] >= 0 && size_t(args[k]) < entries_.size(),
                  "`" + std::string(facts.name) + "` reads entry " + std::to_string(args[k]) + " of a body that has " +
                      std::to_string(entries_.size()));
    entry.args[k] = args[k];
    const Scalar& arg = entries_[size_t(args[k])];
    constant_args = constant_args && arg.kind == Scalar::Kind::constant;
    if (k > 0 || facts.result != ResultType::select) integers = integers && arg.dtype == DType::i32;
  }
  // Folds constants if the resulting number implies the same precision as the op did: 1 + 2 and 1 / 3, but not 4 / 2,
  // which is a float where 2 would be an integer. Only arithmetic is folded, because compiled code computes the same
  // bits for it.
  if (constant_args && facts.result != ResultType::logic && is_arithmetic(op)) {
    const double value = apply_to_constants(entries_, op, args);
    if ((written_type(value) == DType::i32) == integers) return constant(value);
  }
  return intern(entry);
}

int Body::equal_operand(Op op, std::span<const int> args) const {
  const OpRow& facts = row(op);
  auto entry = [&](size_t k) -> const Scalar& { return entries_[size_t(args[k])]; };
  auto number = [&](size_t k) -> std::optional<double> {  // the value of an operand that is a constant or a cast of one
    if (entry(k).kind == Scalar::Kind::constant) return entry(k).constant;
    if (entry(k).kind != Scalar::Kind::cast) return std::nullopt;
    const Scalar& of = entries_[size_t(entry(k).args[0])];
    return of.kind == Scalar::Kind::constant ? std::optional(convert(entry(k).dtype, of.constant)) : std::nullopt;
  };
  const bool twice = entry(0).kind == Scalar::Kind::apply && entry(0).op == op;  // f(f(x))
  if (facts.arity == 1 && twice && facts.idempotent) return args[0];
  if ((op == Op::neg || op == Op::not_) && twice) return entry(0).args[0];
  if (facts.arity == 2 && facts.idempotent && args[0] == args[1]) return args[0];
  if (facts.arity == 2 && facts.neutral) {
    if (auto n = number(1); n && is_neutral(facts, *n, true)) return args[0];
    if (auto n = number(0); n && facts.commutative && is_neutral(facts, *n, false)) return args[1];
  }
  if (op == Op::where) {
    if (args[1] == args[2]) return args[1];
    if (auto condition = number(0)) return *condition != 0 ? args[1] : args[2];
  }
  return -1;
}

int Body::apply_to_floats(Op op, std::span<const int> args) {
  auto kind = [&](size_t k) { return entries_[size_t(args[k])].kind; };
  bool constants = true, casts = false;  // a cast may have another precision than the other operands
  for (size_t k = 0; k < args.size(); ++k) {
    constants = constants && kind(k) == Scalar::Kind::constant;
    casts = casts || kind(k) == Scalar::Kind::cast;
  }
  if (row(op).result != ResultType::logic) {
    if (constants) return constant(apply_to_constants(entries_, op, args));
    if (int equal = casts ? -1 : equal_operand(op, args); equal >= 0) return equal;
  }
  if (op == Op::mul)
    for (size_t k : {0, 1})
      if (kind(k) == Scalar::Kind::constant && entries_[size_t(args[k])].constant == -1)
        return apply_to_floats(Op::neg, std::array{args[1 - k]});
  return apply(op, args);
}

int Body::instantiate(const Formula& formula, std::span<const int> variables) {
  std::vector<int> at(formula.size, -1);
  for (size_t i = 0; i < formula.size; ++i) {
    const Formula::Entry& entry = formula.entries[i];
    switch (entry.leaf) {
      case Formula::Leaf::constant: at[i] = constant(entry.constant); break;
      case Formula::Leaf::variable:
        CARAVAN_CHECK(entry.variable < variables.size() && variables[entry.variable] >= 0,
                      "a formula names variable " + std::to_string(entry.variable) + ", which has no entry");
        at[i] = variables[entry.variable];
        break;
      case Formula::Leaf::none: {
        int args[3] = {};
        const size_t arity = size_t(row(entry.op).arity);
        for (size_t k = 0; k < arity; ++k) args[k] = at[entry.args[k]];
        at[i] = apply_to_floats(entry.op, {args, arity});
        break;
      }
    }
  }
  CARAVAN_CHECK(!at.empty(), "an empty formula");
  return at.back();
}

int Body::add(const Body& other, const std::function<int(int entry)>& instead) {
  std::vector<int> at;
  for (const Scalar& entry : other.entries_) {
    if (const int other_entry = instead(int(at.size())); other_entry >= 0) {
      at.push_back(other_entry);
      continue;
    }
    int args[3] = {};
    for (size_t k = 0; k < args_of(entry).size(); ++k) args[k] = at[size_t(entry.args[k])];
    switch (entry.kind) {
      case Scalar::Kind::cast: at.push_back(cast(entry.dtype, args[0])); break;
      case Scalar::Kind::apply: at.push_back(apply(entry.op, {args, args_of(entry).size()})); break;
      case Scalar::Kind::constant:
      case Scalar::Kind::load:
      case Scalar::Kind::position: at.push_back(intern(entry)); break;
    }
  }
  CARAVAN_CHECK(!at.empty(), "an empty body has no result");
  return at.back();
}

void Body::finish(int result) {
  CARAVAN_CHECK(result >= 0 && size_t(result) < entries_.size(), "a body ends in entry " + std::to_string(result));
  entries_.resize(size_t(result) + 1);  // the result reads only earlier entries
  std::vector<bool> live(entries_.size(), false);
  live.back() = true;
  for (size_t i = entries_.size(); i-- > 0;)
    if (live[i])
      for (int arg : args_of(entries_[i])) live[size_t(arg)] = true;

  std::vector<int> moved(entries_.size(), -1);
  size_t kept = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!live[i]) continue;
    Scalar entry = entries_[i];
    for (size_t k = 0; k < args_of(entry).size(); ++k) entry.args[k] = moved[size_t(entry.args[k])];
    moved[i] = int(kept);
    entries_[kept++] = entry;
  }
  entries_.resize(kept);
}

bool Body::is_constant(double value) const {
  return !entries_.empty() && entries_.back().kind == Scalar::Kind::constant &&
         same_bits(entries_.back().constant, value);
}

bool Body::reads(int operand) const {
  return std::ranges::any_of(
      entries_, [&](const Scalar& entry) { return entry.kind == Scalar::Kind::load && entry.operand == operand; });
}

bool Body::uses_position() const {
  return std::ranges::any_of(entries_, [](const Scalar& entry) { return entry.kind == Scalar::Kind::position; });
}

Body Body::with_operands(std::span<const int> renamed) const {
  Body out;
  std::vector<int> moved;
  moved.reserve(entries_.size());
  for (Scalar entry : entries_) {  // if two operands become one, entries computed from them may become equal
    if (entry.kind == Scalar::Kind::load) {
      CARAVAN_CHECK(size_t(entry.operand) < renamed.size(),
                    "operand " + std::to_string(entry.operand) + " has no new name");
      entry.operand = renamed[size_t(entry.operand)];
    }
    for (size_t k = 0; k < args_of(entry).size(); ++k) entry.args[k] = moved[size_t(entry.args[k])];
    moved.push_back(out.intern(entry));
  }
  if (!moved.empty()) out.finish(moved.back());
  return out;
}

Body Body::with_position(int operand) const {
  Body out = *this;
  for (Scalar& entry : out.entries_) {
    if (entry.kind != Scalar::Kind::position) continue;
    entry.kind = Scalar::Kind::load;
    entry.operand = operand;
  }
  return out;
}

Body Body::with_constants(std::span<const std::optional<Number>> values) const {
  Body out;
  std::vector<int> moved;
  for (Scalar entry : entries_) {
    if (entry.kind == Scalar::Kind::load && values[size_t(entry.operand)]) {
      const Number& number = *values[size_t(entry.operand)];
      moved.push_back(out.constant(number.value, number.written));
      continue;
    }
    for (size_t k = 0; k < args_of(entry).size(); ++k) entry.args[k] = moved[size_t(entry.args[k])];
    moved.push_back(out.intern(entry));
  }
  if (!moved.empty()) out.finish(moved.back());
  return out;
}

Body Body::op(Op op) {
  Body body;
  int args[3] = {};
  const size_t arity = size_t(row(op).arity);
  for (size_t k = 0; k < arity; ++k) args[k] = body.load(int(k));
  body.finish(body.apply(op, {args, arity}));
  return body;
}

Body Body::identity() {
  Body body;
  body.load(0);
  return body;
}

Body Body::number(double value) {
  Body body;
  body.constant(value);
  return body;
}

double evaluate(const Body& body, std::span<const double> operands, double position) {
  std::vector<double> values;
  values.reserve(body.entries().size());
  for (const Scalar& entry : body.entries()) {
    switch (entry.kind) {
      case Scalar::Kind::constant: values.push_back(entry.constant); break;
      case Scalar::Kind::load:
        CARAVAN_CHECK(size_t(entry.operand) < operands.size(), "a body reads operand " + std::to_string(entry.operand) +
                                                                   " of " + std::to_string(operands.size()));
        values.push_back(operands[size_t(entry.operand)]);
        break;
      case Scalar::Kind::position: values.push_back(position); break;
      case Scalar::Kind::cast: values.push_back(convert(entry.dtype, values[size_t(entry.args[0])])); break;
      case Scalar::Kind::apply: {
        double args[3] = {};
        for (size_t k = 0; k < args_of(entry).size(); ++k) args[k] = values[size_t(entry.args[k])];
        values.push_back(row(entry.op).eval(args[0], args[1], args[2]));
        break;
      }
    }
  }
  CARAVAN_CHECK(!values.empty(), "an empty body has no value");
  return values.back();
}

size_t hash(const Body& body) {
  WordHash hash;
  for (const Scalar& entry : body.entries()) {
    hash.add(uint64_t(entry.kind));
    switch (entry.kind) {
      case Scalar::Kind::constant:
        hash.add(std::bit_cast<uint64_t>(entry.constant)), hash.add(uint64_t(entry.dtype));
        break;
      case Scalar::Kind::load: hash.add(uint64_t(entry.operand)); break;
      case Scalar::Kind::position: break;
      case Scalar::Kind::cast: hash.add(uint64_t(entry.dtype)); break;
      case Scalar::Kind::apply: hash.add(uint64_t(entry.op)); break;
    }
    for (int arg : args_of(entry)) hash.add(uint64_t(arg));
  }
  return size_t(hash.value());
}

}  // namespace caravan::ir
