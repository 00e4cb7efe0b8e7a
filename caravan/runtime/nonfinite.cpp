#include "caravan/runtime/nonfinite.h"

#include <cmath>
#include <ostream>
#include <sstream>
#include <unordered_map>

#include "caravan/base/list_text.h"
#include "caravan/tensor/infer.h"

namespace caravan {

namespace {

// What is known of a node's value.
struct Seen {
  bool nan = false, infinite = false;  // holds one
  bool backward = false;
  double low = INFINITY, high = -INFINITY;
};

// autodiff/ calls what it makes "d x"; a name that the user gave says nothing.
bool is_gradient(const Node& node) { return !node.named && node.label.starts_with("d "); }

Seen summary(const Array& value) {
  Seen out;
  for (double v : value.values()) {
    out.nan = out.nan || std::isnan(v), out.infinite = out.infinite || std::isinf(v);
    out.low = std::min(out.low, v), out.high = std::max(out.high, v);
  }
  return out;
}

std::vector<int64_t> position(int64_t element, const Shape& shape) {
  std::vector<int64_t> out = shape.sizes();
  for (size_t axis = out.size(); axis-- > 0;) {
    const int64_t size = out[axis];
    out[axis] = element % size, element /= size;
  }
  return out;
}

std::string formula(const Node& node) {
  const AccumulateNode* n = node.accumulate();
  if (!n) return "";
  std::vector<std::string> operands;
  for (const auto& o : n->operands) operands.push_back(o.tensor.node().label);
  return std::string(row(n->accumulator).symbol) + " " + ir::to_string(*n->body, operands);
}

}  // namespace

std::optional<Nonfinite> find_nonfinite(const Program& program, Context& ctx, const IndexValues& values) {
  std::vector<Tensor> roots = program.observed(), floats;
  for (const auto& a : program.assignments()) roots.push_back(a.value);
  const std::vector<Tensor> order = topological(roots, true);
  auto is_looked_at = [](const Node& node) {
    return is_float(node.dtype) && !node.weak && !std::holds_alternative<NumberNode>(node.kind);
  };
  for (const Tensor& t : order)
    if (is_looked_at(t.node())) floats.push_back(t);
  const Routine run = [&] {
    Routine out = ctx.compile(observe(floats));
    out.run(values);
    return out;
  }();

  std::unordered_map<const Node*, Seen> seen;
  const Tensor* found = nullptr;
  const Tensor* infinite_leaf = nullptr;  // the culprit only if there is no other
  for (const Tensor& t : order) {
    const Node& node = t.node();
    Seen operands;
    for_each_read(node, [&](const Tensor& o) {
      const Seen& s = seen[&o.node()];
      operands.nan = operands.nan || s.nan, operands.infinite = operands.infinite || s.infinite;
      operands.backward = operands.backward || s.backward;
    });
    Seen& now = seen[&node];
    now = is_looked_at(node) ? summary(run.read(t)) : operands;
    if (auto* number = std::get_if<NumberNode>(&node.kind)) now = summary(Array::scalar(number->value, DType::f64));
    now.backward = operands.backward || is_gradient(node);
    if (!is_looked_at(node)) continue;
    const bool nan = now.nan && !operands.nan;
    const bool infinity = now.infinite && !operands.infinite && !operands.nan;
    if (nan || (infinity && node.accumulate())) {
      found = &t;
      break;
    }
    if (infinity && !infinite_leaf) infinite_leaf = &t;
  }
  if (!found) found = infinite_leaf;
  if (!found) return std::nullopt;

  const Node& node = found->node();
  const Array value = run.read(*found);
  Nonfinite out{
      describe(*found), formula(node), node.where, seen.at(&node).backward, value.shape(), node.dtype, 0, 0, {}, 0, {}};
  for (int64_t i = 0; i < value.size(); ++i) {
    if (std::isfinite(value.at(i))) continue;
    if (out.count++ == 0) out.first = position(i, value.shape()), out.value = value.at(i);
    out.nans += std::isnan(value.at(i));
  }
  for_each_read(node, [&](const Tensor& o) {
    const Seen& s = seen.at(&o.node());
    if (s.low <= s.high) out.reads.push_back({describe(o), s.low, s.high});
  });
  return out;
}

std::ostream& operator<<(std::ostream& stream, const Nonfinite& found) {
  std::ostringstream out;  // leaves the stream's flags alone
  const std::string at = joined(found.first, ", ", [](int64_t i) { return std::to_string(i); });
  const std::string shape = to_string(found.shape);
  out << "the first value that is not finite: " << found.label << " ("
      << (found.backward          ? "backward"
          : found.formula.empty() ? "a leaf"
                                  : "forward")
      << "), " << to_string(found.where) << '\n';
  if (!found.formula.empty()) out << "  computes  " << found.formula << '\n';
  out << "  holds     " << found.value << " at [" << at << "]; " << found.count << " of " << found.shape.elements()
      << " elements are not finite, " << found.nans << " of them NaN\n"
      << "  shape     " << (shape.empty() ? "()" : shape) << ", " << name(found.dtype) << '\n';
  for (const Nonfinite::Range& r : found.reads)
    out << "  reads     " << r.label << " in " << r.low << " .. " << r.high << '\n';
  return stream << out.str();
}

}  // namespace caravan
