#include "caravan/base/error.h"
#include "caravan/ops/op.h"
#include "caravan/tensor/functions.h"
#include "caravan/tensor/graph.h"

namespace caravan {

Index::Index(std::string name, int64_t range, Source where) : symbol_("an Index", nullptr) {
  if (range < 0)
    throw StateError("Index `" + name + "`" + where_text(where) + " has the range " + std::to_string(range) +
                         "; give a positive range, or none.",
                     where);
  symbol_ = {"an Index", std::make_shared<const shape::Symbol>(shape::Symbol{std::move(name), range, where})};
}
const std::string& Index::name() const { return symbol_->name; }
int64_t Index::range() const { return symbol_->range; }

Dim::Dim() : state_("a Dim", std::make_shared<State>()) { state_->variable = std::make_shared<shape::DimVariable>(); }
Dim::Dim(int64_t size) : Dim() { state_->size = size; }

Times times(int64_t factor, std::string name) { return {factor, std::move(name), Dim(int64_t(0)), true}; }
Times times(int64_t factor, const Dim& dim) { return {factor, "", dim, false}; }

namespace {

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

Tensor weak_number(double value, DType dtype, Source where) {
  auto node = std::make_shared<Node>();
  node->kind = NumberNode{value};
  node->dtype = dtype;
  node->weak = true;
  node->label = short_text(value);
  node->where = where;
  return Tensor(std::move(node));
}

void add_sources(Node& node, const GivenRow& row) {
  for (const Extent& extent : row.extents) {
    if (!extent.captured) continue;
    const Dim::State& dim = *extent.dim.state();
    if (dim.size < 0 && !dim.source.defined())
      throw ShapeError("the size of an axis of `" + node.label + "`" + where_text(node.where) +
                           " is a Dim that no spec has captured yet; use it in a spec first, {\"name\", dim}.",
                       node.where);
    if (dim.source.defined()) node.shape_operands.push_back(dim.source);
  }
}
void check_sizes(const std::string& name, const GivenRow& row, Source where) {
  for (const Extent& extent : row.extents)
    if (!extent.captured && extent.size < 1)
      throw ShapeError("`" + name + "`" + where_text(where) + " has an axis of size " + std::to_string(extent.size) +
                           "; a size is at least 1.",
                       where);
}

Tensor make_state(StateNode state, DType dtype, Source where) {
  if (state.name.empty()) throw StateError("a parameter or state" + where_text(where) + " needs a name.", where);
  if (state.init.kind == Init::Kind::constant && !can_hold(dtype, state.init.a))
    throw DTypeError("`" + state.name + "`" + where_text(where) + " is " + std::string(name(dtype)) +
                         ", which cannot hold its initial value " + short_text(state.init.a) + ".",
                     where);
  auto node = std::make_shared<Node>();
  node->dtype = dtype;
  node->label = state.name;
  node->where = where;
  for (const GivenRow* row : {&state.batch, &state.input, &state.output})
    check_sizes(state.name, *row, where), add_sources(*node, *row);
  node->kind = std::move(state);
  return Tensor(std::move(node));
}

GivenRow given(const Row& row) {
  GivenRow out;
  out.given = true;
  for (const Axis& axis : row) out.extents.push_back(Extent(axis.size, axis.basis));
  return out;
}

// One draw: all leaves that a call of the user's needs share `call`.
struct Draw {
  const char* function;
  std::string stream;
  const RandomOptions& options;
  std::shared_ptr<const Source> call;

  Draw(const char* function, std::string stream, const RandomOptions& options, Source where)
      : function(function), stream(std::move(stream)), options(options), call(std::make_shared<const Source>(where)) {
    if (!options.step)
      throw StateError(
          std::string(function) + "(\"" + this->stream + "\")" + where_text(where) +
              " would draw the same numbers in every run; give it a .step, such as an Index or a state that "
              "counts, or .step = 0 if they are to stay the same.",
          where);
  }
};
Tensor random_leaf(const Draw& draw, int lane, int width) {
  const RandomOptions& options = draw.options;
  const Source where = *draw.call;
  RandomNode random{draw.stream,          lane,     width, options.batch, options.input, options.output, options.like,
                    options.step->tensor, draw.call};
  auto node = std::make_shared<Node>();
  node->label = "random " + random.stream;
  node->where = where;
  node->dtype = width == 32 ? DType::i64 : DType::i32;
  for (const GivenRow* row : {&random.batch, &random.input, &random.output})
    check_sizes(random.stream, *row, where), add_sources(*node, *row);
  node->kind = std::move(random);
  return Tensor(std::move(node));
}

}  // namespace

void Operand::set_number(double value, bool integral) {
  tensor = weak_number(value, integral ? DType::i32 : DType::f32, where);
}
void Operand::set(const Tensor& value) {
  if (!value.defined()) refuse_undefined(where);
  tensor = value;
  if (!where.known()) where = value.node().where;  // the nearest line of the user's that is known
}
void Operand::set(const Index& index) { tensor = make(IndexNode{index.symbol()}, DType::i64, index.name(), where); }
void Operand::set(const Array& array) { tensor = caravan::tensor(array, "data", where); }
void Operand::set(const Dim& dim) {
  const Dim::State& state = *dim.state();
  if (state.size >= 0) return set_number(double(state.size), true);
  auto node = std::make_shared<Node>();
  node->kind = SizeNode{state.variable};
  node->dtype = DType::i32;
  node->weak = true;
  node->label = state.variable->name.empty() ? "size" : "size " + state.variable->name;
  node->where = where;
  // einsum(spec, x, {{"d", d}}) / sqrt(d): C++ may evaluate the size before the spec that captures it. Then the program
  // that uses it must contain that spec, which inference checks.
  if (state.source.defined()) node->shape_operands = {state.source};
  tensor = Tensor(std::move(node));
}

Init zeros() noexcept { return constant(0); }
Init ones() noexcept { return constant(1); }
Init constant(double value) noexcept { return {Init::Kind::constant, value, 0, nullptr}; }
Init uniform_init(double low, double high) { return {Init::Kind::uniform, low, high, nullptr}; }
Init normal_init(double mean, double deviation) { return {Init::Kind::normal, mean, deviation, nullptr}; }
Init kaiming_normal(double gain) { return {Init::Kind::kaiming_normal, gain, 0, nullptr}; }
Init kaiming_uniform(double gain) { return {Init::Kind::kaiming_uniform, gain, 0, nullptr}; }
Init xavier_normal(double gain) { return {Init::Kind::xavier_normal, gain, 0, nullptr}; }
Init xavier_uniform(double gain) { return {Init::Kind::xavier_uniform, gain, 0, nullptr}; }
Init from(Array array) { return {Init::Kind::values, 0, 0, std::make_shared<const Array>(std::move(array))}; }

Tensor param(std::string name, const ParamOptions& options, Source where) {
  StateNode state{std::move(name), true, options.batch, options.input, options.output, {}, options.init};
  state.batch.given = true;
  return make_state(std::move(state), options.dtype, where);
}
Tensor param(std::string name, double value, Source where) {
  return param(std::move(name), Array::scalar(value), where);
}
Tensor param(std::string name, const Array& value, Source where) {
  StateNode state{
      std::move(name), true, given(value.shape().batch), given(value.shape().input), given(value.shape().output), {},
      from(value)};
  return make_state(std::move(state), value.dtype(), where);
}

Tensor state(std::string name, const StateOptions& options, Source where) {
  return make_state({std::move(name), false, options.batch, options.input, options.output, {}, options.init},
                    options.dtype, where);
}
Tensor state(std::string name, double value, DType dtype, Source where) {
  const GivenRow none{Extents{}};
  return make_state({std::move(name), false, none, none, none, {}, constant(value)}, dtype, where);
}
Tensor state(std::string name, const Array& value, Source where) {
  return make_state({std::move(name),
                     false,
                     given(value.shape().batch),
                     given(value.shape().input),
                     given(value.shape().output),
                     {},
                     from(value)},
                    value.dtype(), where);
}
Tensor state_like(const Tensor& shape, std::string name, Init init, Source where) {
  return make_state({std::move(name), false, {}, {}, {}, shape, std::move(init)}, shape.dtype(), where);
}
Tensor input(std::string name, const StateOptions& options, Source where) {
  return state(std::move(name), options, where);
}

Tensor::Tensor(const Array& array, const char* file, int line)
    : Tensor(tensor(array, "data", Source::here(file, line))) {}
Tensor tensor(const Array& array, std::string label, Source where) {
  return make(DataNode{array}, array.dtype(), std::move(label), where);
}
Tensor number(double value, DType dtype, Source where) {
  if (!can_hold(dtype, value)) {
    char text[160];
    std::snprintf(text, sizeof text, "the number %.17g (%s) does not fit into %s, whose largest value is %.6g.", value,
                  to_string(where).c_str(), std::string(name(dtype)).c_str(), largest(dtype));
    throw DTypeError(text, where);
  }
  Tensor weak = weak_number(value, dtype, where);
  auto node = std::make_shared<Node>(weak.node());
  node->weak = false;
  return Tensor(std::move(node));
}
Tensor tunable(double value, std::string label, Source where) {
  auto node = std::make_shared<Node>(weak_number(value, DType::f32, where).node());
  std::get<NumberNode>(node->kind).tunable = true;
  node->label = std::move(label);
  return Tensor(std::move(node));
}
Tensor iota(Extent size, Source where) {
  auto node = std::make_shared<Node>();
  node->label = "iota";
  node->where = where;
  node->dtype = DType::i32;
  IotaNode leaf{GivenRow({size})};
  check_sizes("iota", leaf.output, where), add_sources(*node, leaf.output);
  node->kind = std::move(leaf);
  return Tensor(std::move(node));
}
Tensor full_like(const Tensor& shape, double value, Source where) {
  return constant_like(shape, value, shape.dtype(), "full_like", where);
}
Tensor ones_like(const Tensor& shape, Source where) {
  return constant_like(shape, 1, shape.dtype(), "ones_like", where);
}
Tensor zeros_like(const Tensor& shape, Source where) {
  return constant_like(shape, 0, shape.dtype(), "zeros_like", where);
}

Tensor random_bits(std::string stream, const RandomOptions& options, Source where) {
  return random_leaf({"random_bits", std::move(stream), options, where}, 0, 32);
}

namespace {
// The top 24 bits of a word times 2^-24: exact in float32, so the same on every backend.
Tensor uniform_of(const Draw& draw) {
  Operand bits(random_leaf(draw, 0, 24), *draw.call);
  return (Operand(cast(bits, DType::f32), *draw.call) * 0x1p-24).named("uniform");
}
}  // namespace
Tensor uniform(std::string stream, const RandomOptions& options, Source where) {
  return uniform_of({"uniform", std::move(stream), options, where});
}
// Box-Muller on two words of the same element.
Tensor normal(std::string stream, const RandomOptions& options, Source where) {
  const WrittenAt at(where);
  const Draw draw("normal", std::move(stream), options, where);
  auto unit = [&](int lane) { return cast(Operand(random_leaf(draw, lane, 24), where), DType::f32); };
  Tensor radius = sqrt(-2.0 * log((unit(0) + 1) * 0x1p-24));  // the logarithm's argument is in (0, 1]
  return (radius * cos(unit(1) * (6.283185307179586 * 0x1p-24))).named("normal");
}
Tensor bernoulli(std::string stream, Operand probability, const RandomOptions& options, Source where) {
  const WrittenAt at(where);
  return (uniform_of({"bernoulli", std::move(stream), options, where}) < probability).named("bernoulli");
}

}  // namespace caravan
