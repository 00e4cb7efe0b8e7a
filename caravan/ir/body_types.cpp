// The precision of every entry of a body.
#include <algorithm>
#include <cmath>

#include "caravan/ir/body.h"
#include "caravan/ops/table.h"

namespace caravan::ir {

namespace {

EntryType type_of_entry(const Body& body, const Scalar& entry, const std::vector<EntryType>& types,
                        std::span<const DType> operands, std::span<const bool> weak) {
  switch (entry.kind) {
    case Scalar::Kind::constant: return {entry.dtype, true, DType::f64};
    case Scalar::Kind::load: {
      const size_t k = size_t(entry.operand);
      CARAVAN_CHECK(k < operands.size(),
                    "a body reads operand " + std::to_string(entry.operand) + " of " + std::to_string(operands.size()));
      return {operands[k], k < weak.size() && weak[k], operands[k]};
    }
    case Scalar::Kind::position: return {DType::i64, false, DType::i64};
    case Scalar::Kind::cast: return {entry.dtype, false, entry.dtype};
    case Scalar::Kind::apply: break;
  }
  const std::span<const int> args = args_of(entry);
  OperandType arguments[3];
  for (size_t k = 0; k < args.size(); ++k) {
    const EntryType& type = types[size_t(args[k])];
    const Scalar& arg = body.entries()[size_t(args[k])];
    arguments[k] = {type.dtype, type.weak,
                    arg.kind == Scalar::Kind::constant ? std::optional(arg.constant) : std::nullopt};
  }
  const OpType type = caravan::type_of(entry.op, {arguments, args.size()});
  return {type.result, type.weak, type.compute};
}

bool is_comparison(Op op) {
  return op == Op::eq || op == Op::ne || op == Op::lt || op == Op::le || op == Op::gt || op == Op::ge;
}

// The precision of a register: f16 and bf16 are computed in f32.
DType register_type(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

class Typing {
 public:
  Typing(const Body& body, std::span<const DType> operands)
      : old_(body.entries()), types_(types_of(body, operands, {})), operands_(operands) {}

  Body run(Accumulator accumulator, DType target) {
    const DType own = types_.back().weak ? DType::f32 : types_.back().dtype;
    if (const DType at_least = body_type(accumulator, own, target); !types_.back().weak) widen(at_least);
    std::vector<int> at;
    for (size_t e = 0; e < old_.size(); ++e) {
      Scalar entry = old_[e];
      for (size_t k = 0; k < args_of(entry).size(); ++k) entry.args[k] = at[size_t(entry.args[k])];
      at.push_back(add(entry, e));
    }
    int result = at.back();
    if (types_.back().weak && !is_float(target)) {  // the body is a number; out of the integer's range it saturates
      const Scalar& number = body_.entries()[size_t(result)];
      if (number.kind != Scalar::Kind::constant || !can_hold(target, number.constant))
        result = body_.cast(target, result);
    }
    body_.finish(result);
    return std::move(body_);
  }

 private:
  // Widens the entries from which the result is computed to at least this precision, but stops at casts and
  // comparisons.
  void widen(DType at_least) {
    std::vector<bool> reached(old_.size(), false);
    reached.back() = true;
    for (size_t e = old_.size(); e-- > 0;) {
      const Scalar& entry = old_[e];
      if (!reached[e] || entry.kind != Scalar::Kind::apply || row(entry.op).result == ResultType::logic) continue;
      const bool selects = row(entry.op).result == ResultType::select;
      for (size_t k = selects ? 1 : 0; k < args_of(entry).size(); ++k) reached[size_t(entry.args[k])] = true;
      if (types_[e].weak || is_float(types_[e].dtype) || promote(types_[e].dtype, at_least) == types_[e].dtype)
        continue;
      types_[e].dtype = types_[e].compute = register_type(at_least);
    }
  }

  int add(const Scalar& entry, size_t e) {
    switch (entry.kind) {
      case Scalar::Kind::constant: return made(body_.constant(entry.constant));
      case Scalar::Kind::load: return made(body_.load(entry.operand));
      case Scalar::Kind::position: return made(body_.position());
      case Scalar::Kind::cast: return made(body_.cast(entry.dtype, entry.args[0]));
      case Scalar::Kind::apply: break;
    }
    const size_t arity = args_of(entry).size();
    int args[3] = {};
    std::copy_n(entry.args, arity, args);
    const EntryType& type = types_[e];
    if (is_comparison(entry.op) && is_float(type.compute)) {
      for (size_t k = 0; k < arity; ++k) {
        const Scalar& arg = body_.entries()[size_t(args[k])];
        const bool rounds = arg.kind == Scalar::Kind::constant && convert(type.compute, arg.constant) != arg.constant;
        if (rounds && !std::isnan(arg.constant)) args[k] = made(body_.cast(type.compute, args[k]));
      }
    } else if (!type.weak && row(entry.op).result != ResultType::logic) {
      // The operands are integers, but the op must be computed in a wider integer or in a float.
      const DType met = type_of_entry(body_, applied(entry.op, {args, arity}), made_, operands_, {}).dtype;
      if (!is_float(met) && met != type.dtype)
        for (size_t k = row(entry.op).result == ResultType::select ? 1 : 0; k < arity; ++k)
          if (const EntryType& arg = made_[size_t(args[k])]; !arg.weak && arg.dtype != type.compute)
            args[k] = made(body_.cast(type.compute, args[k]));
    }
    return made(body_.apply(entry.op, {args, arity}));
  }

  static Scalar applied(Op op, std::span<const int> args) {
    Scalar out;
    out.kind = Scalar::Kind::apply;
    out.op = op;
    std::copy(args.begin(), args.end(), out.args);
    return out;
  }

  // Records the type of an entry of the new body.
  int made(int e) {
    if (size_t(e) == made_.size())
      made_.push_back(type_of_entry(body_, body_.entries()[size_t(e)], made_, operands_, {}));
    return e;
  }

  const std::vector<Scalar> old_;
  std::vector<EntryType> types_;  // of the old entries, after widening
  const std::span<const DType> operands_;
  Body body_;
  std::vector<EntryType> made_;  // of the new ones
};

}  // namespace

std::vector<EntryType> types_of(const Body& body, std::span<const DType> operands, std::span<const bool> weak) {
  std::vector<EntryType> types;
  types.reserve(body.entries().size());
  for (const Scalar& entry : body.entries()) types.push_back(type_of_entry(body, entry, types, operands, weak));
  return types;
}

Body typed(const Body& body, std::span<const DType> operands, Accumulator accumulator, DType target) {
  return Typing(body, operands).run(accumulator, target);
}

DType type_of(const Body& body, std::span<const DType> operands, std::span<const bool> weak) {
  const std::vector<EntryType> types = types_of(body, operands, weak);
  CARAVAN_CHECK(!types.empty(), "an empty body has no precision");
  return types.back().weak ? DType::f32 : types.back().dtype;
}

}  // namespace caravan::ir
