// The derivative of a body.
#include <algorithm>
#include <array>

#include "caravan/ir/body.h"
#include "caravan/ops/table.h"

namespace caravan::ir {

int pull_back(Body& into, const Body& body, int operand, int cotangent, std::span<const DType> operands) {
  // A copy, because `body` may be `into` itself.
  const std::vector<Scalar> entries = body.entries();
  CARAVAN_CHECK(!entries.empty() && entries.size() <= into.entries().size() &&
                    std::equal(entries.begin(), entries.end(), into.entries().begin()),
                "pull_back writes into a body that starts with the entries of the body it differentiates");

  // Precisions are needed for casts only. Operands of unknown precision count as floats.
  std::vector<DType> dtypes(operands.begin(), operands.end());
  for (const Scalar& entry : entries)
    if (entry.kind == Scalar::Kind::load && size_t(entry.operand) >= dtypes.size())
      dtypes.resize(size_t(entry.operand) + 1, DType::f32);
  const std::vector<EntryType> types = types_of(body, dtypes, {});

  std::vector<bool> leads(entries.size(), false);  // by entry: does it depend on the operand
  for (size_t i = 0; i < entries.size(); ++i) {
    leads[i] = entries[i].kind == Scalar::Kind::load && entries[i].operand == operand;
    for (int arg : args_of(entries[i])) leads[i] = leads[i] || leads[size_t(arg)];
  }

  std::vector<int> adjoint(entries.size(), -1);
  auto receive = [&](int entry, int amount) {
    int& total = adjoint[size_t(entry)];
    total = total < 0 ? amount : into.apply(Op::add, std::array{total, amount});
  };
  adjoint.back() = cotangent;
  int received = -1;
  for (size_t i = entries.size(); i-- > 0;) {
    const int g = adjoint[i];
    if (g < 0 || !leads[i]) continue;
    const Scalar& entry = entries[i];
    switch (entry.kind) {
      // Equal entries are stored once, so this is the only load of the operand.
      case Scalar::Kind::load: received = g; break;
      case Scalar::Kind::cast: {
        const Scalar& of = entries[size_t(entry.args[0])];
        const DType from = types[size_t(entry.args[0])].dtype;
        const bool known = !operands.empty() || of.kind == Scalar::Kind::cast;
        if (is_float(entry.dtype) && is_float(from))
          receive(entry.args[0], known && from != entry.dtype ? into.cast(from, g) : g);
        break;
      }
      case Scalar::Kind::apply: {
        int variables[5] = {g, -1, -1, -1, int(i)};  // g, a, b, c, y
        const int arity = row(entry.op).arity;
        std::copy_n(entry.args, arity, variables + 1);
        for (int k = 0; k < arity; ++k)
          if (leads[size_t(entry.args[k])] && !pullback_is_zero(entry.op, k))
            receive(entry.args[k], into.instantiate(pullback(entry.op, k), variables));
        break;
      }
      case Scalar::Kind::constant:
      case Scalar::Kind::position: break;
    }
  }
  return received;
}

}  // namespace caravan::ir
