#include "caravan/optimize/sums_of_products.h"

#include <algorithm>
#include <optional>

#include "caravan/ir/print.h"
#include "caravan/ir/write_form.h"
#include "caravan/ops/table.h"

namespace caravan::optimize {

namespace {

using ir::Accumulation;
using ir::Scalar;

using Iterators = std::vector<bool>;  // by iterator: does a value depend on it?

bool both(const Iterators& a, const Iterators& b, const Iterators& among) {
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k] && b[k] && among[k]) return true;
  return false;
}

// By entry of the body.
std::vector<Iterators> dependences(const Accumulation& a) {
  std::vector<Iterators> out;
  for (const Scalar& s : a.body.entries()) {
    Iterators depends(a.iterators.size(), s.kind == Scalar::Kind::position);
    auto add = [&](auto mentions) {
      for (size_t k = 0; k < depends.size(); ++k) depends[k] = depends[k] || mentions(int(k));
    };
    if (s.kind == Scalar::Kind::load)
      for (const ir::Term& term : a.operands[size_t(s.operand)].map) add([&](int k) { return term.mentions(k); });
    for (const int arg : ir::args_of(s)) add([&](int k) { return bool(out[size_t(arg)][size_t(k)]); });
    out.push_back(std::move(depends));
  }
  return out;
}

// The iterators that tell elements of the target apart; the others are summed. Of two that the target has at their sum,
// as in a convolution's gradient y[h + k] += .., the longer one.
Iterators written(const ir::Program& program, const Accumulation& a) {
  const ir::WriteForm form = ir::write_form(program, a);
  if (form.injective) return form.outer;
  Iterators out(a.iterators.size(), false);
  for (const ir::Term& term : a.write) {
    int longest = -1;
    for (int k = 0; k < int(a.iterators.size()); ++k)
      if (term.mentions(k) && (longest < 0 || a.extents[size_t(k)] > a.extents[size_t(longest)])) longest = k;
    if (longest >= 0) out[size_t(longest)] = true;
  }
  return out;
}

// A product is a multiplication of two values that depend on the same summed iterator, and of which one or both have
// written iterators that the other has not. The body may do more with the product, such as multiply it by a number. Of
// several multiplications, that with the most rows.
std::optional<SumOfProducts> sum_of_products(const ir::Program& program, const Accumulation& a) {
  if (a.accumulator != Accumulator::add || a.collective || !is_float(program.buffers[size_t(a.target)].dtype))
    return {};
  const Iterators outer = written(program, a);
  Iterators summed = outer;
  summed.flip();
  const std::vector<Iterators> depends = dependences(a);
  std::optional<SumOfProducts> best;
  for (const Scalar& s : a.body.entries()) {
    if (s.kind != Scalar::Kind::apply || s.op != Op::mul) continue;
    const Iterators &left = depends[size_t(s.args[0])], &right = depends[size_t(s.args[1])];
    if (!both(left, right, summed)) continue;
    SumOfProducts out{.target = a.target};
    int64_t only_left = 1, only_right = 1;
    for (size_t k = 0; k < a.extents.size(); ++k)
      (!outer[k] ? out.terms : left[k] == right[k] ? out.batch : left[k] ? only_left : only_right) *= a.extents[k];
    out.rows = std::min(only_left, only_right), out.columns = std::max(only_left, only_right);
    if (out.terms > 1 && out.columns > 1 && (!best || out.rows > best->rows)) best = out;
  }
  return best;
}

}  // namespace

std::vector<SumOfProducts> sums_of_products(const ir::Program& program) {
  std::vector<SumOfProducts> out;
  for (const Accumulation& a : program.accumulations)
    if (std::optional<SumOfProducts> found = sum_of_products(program, a)) {
      found->text = ir::readable(program, a);
      out.push_back(std::move(*found));
    }
  return out;
}

}  // namespace caravan::optimize
