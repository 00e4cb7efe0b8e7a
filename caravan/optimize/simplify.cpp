#include "caravan/optimize/simplify.h"

#include <algorithm>

#include "caravan/ops/op.h"
#include "caravan/optimize/reads.h"
#include "caravan/optimize/remove_unused.h"

namespace caravan::optimize {

using ir::Body;
using ir::EntryType;
using ir::Scalar;

namespace {

bool same(const EntryType& a, const EntryType& b) { return a.dtype == b.dtype && a.weak == b.weak; }

// Every entry of the new body has the type of the entry of the old one that it stands for.
class Simplifier {
 public:
  Simplifier(const Body& body, std::span<const DType> operands)
      : old_(body.entries()), types_(ir::types_of(body, operands, {})) {}

  // Storing rounds to the precision `stored`.
  Body run(std::optional<DType> stored) {
    std::vector<int> at;
    for (size_t e = 0; e < old_.size(); ++e) {
      Scalar entry = old_[e];
      for (int& arg : entry.args) arg = arg < int(at.size()) ? at[size_t(arg)] : 0;
      at.push_back(add(entry, types_[e]));
      if (size_t(at[e]) >= made_.size()) made_.resize(size_t(at[e]) + 1, types_[e]);
    }
    const int before = stored ? before_widening(at.back(), {*stored, false, {}}) : -1;
    body_.finish(before >= 0 ? before : at.back());
    return std::move(body_);
  }

 private:
  int add(const Scalar& entry, const EntryType& type) {
    switch (entry.kind) {
      case Scalar::Kind::constant: return body_.constant(entry.constant, entry.dtype);
      case Scalar::Kind::load: return body_.load(entry.operand);
      case Scalar::Kind::position: return body_.position();
      case Scalar::Kind::cast:
        if (is_already(entry.args[0], type)) return entry.args[0];
        if (const int before = before_widening(entry.args[0], type); before >= 0) return before;
        return cast(type, entry.args[0]);
      case Scalar::Kind::apply: break;
    }
    const std::span<const int> args(entry.args, size_t(row(entry.op).arity));
    if (int equal = body_.equal_operand(entry.op, args); equal >= 0 && same(made_[size_t(equal)], type)) return equal;
    if (row(entry.op).result == ResultType::logic)
      if (auto truth = of_numbers(entry.op, args)) return cast(type, body_.constant(*truth));
    return body_.apply(entry.op, args);
  }

  // Does the entry have this precision, and is it rounded to it? A computed f16 or bf16 is not rounded yet, because it
  // is computed in f32.
  bool is_already(int e, const EntryType& type) const {
    const bool narrow = type.dtype == DType::f16 || type.dtype == DType::bf16;
    const Scalar::Kind kind = body_.entries()[size_t(e)].kind;
    return same(made_[size_t(e)], type) && (!narrow || kind == Scalar::Kind::load || kind == Scalar::Kind::cast);
  }
  // What the entry is a wider cast of, if that has this precision; otherwise -1.
  int before_widening(int e, const EntryType& type) const {
    const Scalar& entry = body_.entries()[size_t(e)];
    const bool widens = entry.kind == Scalar::Kind::cast && is_float(type.dtype) && holds_all(entry.dtype, type.dtype);
    return widens && is_already(entry.args[0], type) ? entry.args[0] : -1;
  }
  std::optional<double> of_numbers(Op op, std::span<const int> args) const {
    double values[3] = {};
    for (size_t k = 0; k < args.size(); ++k) {
      const Scalar& arg = body_.entries()[size_t(args[k])];
      if (arg.kind != Scalar::Kind::constant) return std::nullopt;
      values[k] = arg.constant;
    }
    return row(op).eval(values[0], values[1], values[2]);
  }
  int cast(const EntryType& type, int e) {
    if (size_t(e) >= made_.size())
      // The type of a folded comparison: the number 0 or 1.
      made_.resize(size_t(e) + 1, {DType::i32, true, DType::f64});
    return body_.cast(type.dtype, e);
  }

  const std::vector<Scalar> old_;
  std::vector<EntryType> types_;  // of the old entries
  Body body_;
  std::vector<EntryType> made_;  // of the new ones
};

}  // namespace

ir::Program simplify(const ir::Program& program) {
  ir::Program out = program;
  for (ir::Accumulation& a : out.accumulations) {
    std::vector<DType> operands;
    std::vector<int> first;  // for each operand, the first one that equals it
    for (const ir::Operand& o : a.operands) {
      operands.push_back(program.buffers[size_t(o.buffer)].dtype);
      first.push_back(int(std::find(a.operands.begin(), a.operands.end(), o) - a.operands.begin()));
    }
    const bool stores = is_elementwise(program, a);  // each element once, so that no sum is added in that precision
    Body body = Simplifier(a.body.with_operands(first), operands)
                    .run(stores ? std::optional(program.buffers[size_t(a.target)].dtype) : std::nullopt);
    if (body == a.body) continue;
    a.body = std::move(body);
    drop_unread(a);
  }
  return remove_unused(out);
}

}  // namespace caravan::optimize
