#include "caravan/nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <unordered_set>

#include "caravan/nn/advice.h"
#include "caravan/tensor/infer.h"

namespace caravan {

namespace {

// Layers name what they give "kind name".
bool is_layer_output(const Node& node) { return node.named && node.label.find(' ') != std::string::npos; }

// Is it data, or an input that the host writes?
bool is_given(const Node& node) {
  if (std::holds_alternative<DataNode>(node.kind)) return true;
  return node.state() && !node.state()->parameter && node.state()->init.kind == Init::Kind::none;
}

int64_t flops(const ir::Accumulation& a, const ir::Program& program) {
  if (!is_float(program.buffers[size_t(a.target)].dtype)) return 0;
  int64_t points = 1, each = 0;
  for (int64_t extent : a.extents) points *= extent;
  for (const ir::Scalar& entry : a.body.entries()) each += entry.kind == ir::Scalar::Kind::apply;
  const bool reduces = points > program.buffers[size_t(a.target)].shape.elements();
  return points * (each + reduces);
}

// "930", "7.2 M"
std::string short_number(int64_t n) {
  if (n < 10000) return std::to_string(n);
  double value = double(n);
  for (const char* unit : {"k", "M", "G"})
    if ((value /= 1000) < 1000) return fmt::format("{:.1f} {}", value, unit);
  return fmt::format("{:.1f} T", value / 1000);
}
std::string short_bytes(int64_t n) {
  if (n < 1024) return fmt::format("{} B", n);
  double value = double(n);
  for (const char* unit : {"KiB", "MiB"})
    if ((value /= 1024) < 1024) return fmt::format("{:.1f} {}", value, unit);
  return fmt::format("{:.1f} GiB", value / 1024);
}

}  // namespace

ModelSummary summary(const Tensor& output) {
  const Program program = observe(output);
  std::vector<Tensor> tensors;
  const ir::Program ir = to_ir(program, Inference(program), &tensors);
  ModelSummary out;
  std::unordered_set<int> counted;
  ModelSummary::Row row;
  auto close = [&](std::string layer, const ir::Buffer& buffer) {
    row.layer = std::move(layer);
    row.output = buffer.shape;
    row.output_bytes = buffer.shape.elements() * bytes(buffer.dtype);
    out.rows.push_back(row);
    row = {};
  };
  for (size_t b = 0; b < ir.buffers.size(); ++b)
    if (is_given(tensors[b].node())) out.inputs.push_back({ir.buffers[b].name, ir.buffers[b].shape});
  for (const ir::Accumulation& a : ir.accumulations) {
    row.flops += flops(a, ir);
    for (const ir::Operand& operand : a.operands) {
      const StateNode* state = tensors[size_t(operand.buffer)].node().state();
      if (!state || !state->parameter || !counted.insert(operand.buffer).second) continue;
      const ir::Buffer& buffer = ir.buffers[size_t(operand.buffer)];
      row.parameters += buffer.shape.elements();
      row.parameter_bytes += buffer.shape.elements() * bytes(buffer.dtype);
    }
    const Node& node = tensors[size_t(a.target)].node();
    if (is_layer_output(node))
      close(node.label, ir.buffers[size_t(a.target)]);
    else if (&node == &output.node())
      close("then " + node.label, ir.buffers[size_t(a.target)]);
  }
  for (const ModelSummary::Row& r : out.rows) {
    out.total.parameters += r.parameters, out.total.flops += r.flops;
    out.total.parameter_bytes += r.parameter_bytes, out.total.output_bytes += r.output_bytes;
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const ModelSummary& summary) {
  size_t layer = 5, shape = 6;
  for (const auto& row : summary.rows)
    layer = std::max(layer, row.layer.size()), shape = std::max(shape, to_string(row.output).size());
  auto line = [&](const std::string& name, const std::string& output, const std::string& parameters,
                  const std::string& flops) {
    out << fmt::format("{:<{}}  {:<{}}  {:>12}  {:>10}\n", name, layer, output, shape, parameters, flops);
  };
  for (const ModelSummary::Input& input : summary.inputs)
    out << input.name << " is " << to_string(input.shape) << ": " << nn::in_words(input.shape) << "\n";
  line("layer", "output", "parameters", "flops");
  for (const auto& row : summary.rows)
    line(row.layer, to_string(row.output), std::to_string(row.parameters), short_number(row.flops));
  line("total", "", std::to_string(summary.total.parameters), short_number(summary.total.flops));
  return out << "parameters take " << short_bytes(summary.total.parameter_bytes) << ", the outputs of layers "
             << short_bytes(summary.total.output_bytes) << "\n";
}

Tensor input_of(const std::string& shape, DType dtype, Source where) {
  const Shape rows = parse_shape(shape);
  auto given = [](const Row& row) {
    Extents out;
    for (const Axis& axis : row) out.push_back(Extent(axis.size, axis.basis));
    return GivenRow(std::move(out));
  };
  return input("input",
               {.batch = given(rows.batch), .input = given(rows.input), .output = given(rows.output), .dtype = dtype},
               where);
}

}  // namespace caravan
