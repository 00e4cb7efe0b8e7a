// caravan einsum: a spec on operands of given shapes, inferred but not run.
#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "caravan/base/error.h"
#include "caravan/base/trimmed.h"
#include "caravan/tensor/infer.h"

namespace caravan::app {

namespace {

std::string shape_text(const Shape& shape) { return shape.rank() == 0 ? "scalar" : to_string(shape); }

BindingArgument size_binding(const std::string& text) {
  const size_t equals = text.find('=');
  int64_t size = 0;
  const char* end = text.data() + text.size();
  if (equals != std::string::npos && equals > 0)
    if (auto [stop, error] = std::from_chars(text.data() + equals + 1, end, size); error == std::errc() && stop == end)
      return {text.substr(0, equals), size};
  throw ConfigError(fmt::format("--size {}: write NAME=N with a whole number N.", text));
}

Bindings bindings_of(const EinsumOptions& options) {
  Bindings out;
  for (const std::string& size : options.sizes) out.list.push_back(size_binding(size));
  for (const std::string& condition : options.conditions) out.list.push_back(condition.c_str());
  return out;
}

// The operands are states A, B, C ... of the given shapes.
std::vector<Tensor> operands_of(const EinsumOptions& options) {
  auto given = [](const Row& row) {
    Extents out;
    for (const Axis& axis : row) out.push_back(Extent(axis.size, axis.basis));
    return GivenRow(out);
  };
  std::vector<Tensor> out;
  for (size_t k = 0; k < options.shapes.size(); ++k) {
    const Shape shape = parse_shape(std::string(trimmed(options.shapes[k])));
    const std::string name = k < 26 ? std::string(1, char('A' + k)) : "A" + std::to_string(k);
    out.push_back(input(name, {.batch = given(shape.batch), .input = given(shape.input), .output = given(shape.output)},
                        Source{}));
  }
  return out;
}

Tensor result_of(const EinsumOptions& options, const std::vector<Tensor>& operands) {
  if (options.op != "add" && options.op != "max" && options.op != "min" && options.op != "concat")
    throw ConfigError(fmt::format("there is no --op `{}`; there are: add, max, min, concat.", options.op));
  const RuntimeSpec text = spec(std::string(trimmed(options.spec)), Source{});
  const Bindings bindings = bindings_of(options);
  check_operand_count({text.text, text.where}, int(operands.size()));
  if (options.op == "concat") return concat(text, operands, bindings);
  auto over = [&](auto call) {
    auto operand = [&](size_t k) { return Operand(operands[k], Source{}); };
    switch (operands.size()) {
      case 1: return call(text, operand(0), bindings);
      case 2: return call(text, operand(0), operand(1), bindings);
      case 3: return call(text, operand(0), operand(1), operand(2), bindings);
    }
    throw ConfigError(fmt::format("--op {} takes one to three operands, not {}; only concat takes more.", options.op,
                                  operands.size()));
  };
  if (options.op == "max") return over([](auto&&... arguments) { return einmax(arguments...); });
  if (options.op == "min") return over([](auto&&... arguments) { return einmin(arguments...); });
  return over([](auto&&... arguments) { return einsum(arguments...); });
}

struct Iterator {
  std::string name;
  int64_t extent = 0;
  bool reduced = false;
};
// Of all clauses, each once.
std::vector<Iterator> iterators_of(const Tensor& result, const Inference& inference) {
  std::vector<Iterator> out;
  for (const Tensor& t : topological({result}, true)) {
    const AccumulateNode* node = t.node().accumulate();
    if (!node || node->link->relation->text.empty()) continue;  // the sum of the clauses
    const shape::Projection projection = inference.projection(*node);
    for (size_t i = 0; i < projection.iterators.size(); ++i) {
      bool known = false;
      for (const Iterator& other : out) known = known || other.name == projection.iterators[i];
      if (!known) out.push_back({projection.iterators[i], projection.extents[i], projection.reduced[i]});
    }
  }
  return out;
}

}  // namespace

int einsum_command(const EinsumOptions& options) try {
  const std::vector<Tensor> operands = operands_of(options);
  const Tensor result = result_of(options, operands).named("result");
  const Program program = observe(result);
  const Inference inference(program);
  const std::vector<Iterator> iterators = iterators_of(result, inference);
  const Shape shape = inference.shape(result);

  if (options.json) {
    nlohmann::ordered_json out{{"spec", trimmed(options.spec)},
                               {"op", options.op},
                               {"operands", nlohmann::json::array()},
                               {"result", to_string(shape)},
                               {"iterators", nlohmann::json::array()}};
    for (const Tensor& t : operands) out["operands"].push_back(to_string(inference.shape(t)));
    for (const Iterator& i : iterators)
      out["iterators"].push_back(
          nlohmann::ordered_json{{"name", i.name}, {"extent", i.extent}, {"reduced", i.reduced}});
    std::cout << json_line(out);
    return kDone;
  }
  std::cout << fmt::format("spec     {}\n", trimmed(options.spec));
  for (const Tensor& t : operands)
    std::cout << fmt::format("{:<8} {}\n", t.node().label, shape_text(inference.shape(t)));
  std::cout << fmt::format("{:<8} {}\n\niterators\n", "result", shape_text(shape));
  for (const Iterator& i : iterators)
    std::cout << fmt::format("  {:<6} {:>6}{}\n", i.name, i.extent, i.reduced ? "  reduced" : "");
  std::cout << (iterators.empty() ? "  none\n" : "") << "\nloop\n";
  ir::Program loops = to_ir(program, inference);
  for (ir::Accumulation& loop : loops.accumulations) {
    loop.label.clear();  // it would repeat the spec
    std::cout << "  " << ir::to_string(loops, loop) << '\n';
  }
  return kDone;
} catch (const shape::UnsizedAxisError& error) {  // bindings are written otherwise in a command line
  throw ConfigError(
      fmt::format("{}; bind it with --size {}=N, or size an operand that has it.", error.problem(), error.axis()));
}

}  // namespace caravan::app
