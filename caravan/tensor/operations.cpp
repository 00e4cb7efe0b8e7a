// Operations on elements and on whole tensors. Those that have a spec are in einsum.cpp.
#include <array>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"
#include "caravan/tensor/operands.h"

namespace caravan {

std::shared_ptr<const Link> link_to(shape::RelationRef relation, Source where) {
  return std::make_shared<const Link>(Link{std::move(relation), where, Call::current()});
}

std::shared_ptr<const ir::Body> shared(ir::Body body) { return std::make_shared<const ir::Body>(std::move(body)); }

std::vector<AccumulateNode::Attached> attach(const std::vector<Operand>& operands) {
  std::vector<AccumulateNode::Attached> out;
  for (size_t i = 0; i < operands.size(); ++i) out.push_back({operands[i].tensor, int(i)});
  return out;
}

ir::Body fold_body(Op op, int operands) {
  ir::Body body;
  int total = body.load(0);
  for (int i = 1; i < operands; ++i) {
    int args[2] = {total, body.load(i)};
    total = body.apply(op, args);
  }
  body.finish(total);
  return body;
}

void check_numbers(std::span<const Operand> operands, std::optional<Accumulator> accumulator) {
  std::optional<DType> met;
  for (const Operand& o : operands)
    if (!o.tensor.node().weak) met = met ? promote(*met, o.tensor.dtype()) : o.tensor.dtype();
  if (!met || *met == DType::boolean) return;
  if (accumulator == Accumulator::add || accumulator == Accumulator::mul) met = result_type(*accumulator, *met);
  for (const Operand& o : operands) {
    auto* n = std::get_if<NumberNode>(&o.tensor.node().kind);
    if (!n || !o.tensor.node().weak || can_hold(*met, n->value)) continue;
    if (is_integer(*met) && !is_integer(o.tensor.dtype())) continue;  // a fraction against integers: the result is f32
    throw DTypeError("the number " + o.tensor.node().label + where_text(o.where) + " does not fit into " +
                         std::string(name(*met)) + ", the precision of the tensor it meets; cast the tensor first.",
                     o.where);
  }
}

namespace {

// Pointwise relations and the bodies of single ops are patterns that all graphs share.
const shape::RelationRef& shared_pointwise(size_t operands) {
  static const std::array<shape::RelationRef, 4> kRelations = {
      nullptr, shape::pointwise_relation(1), shape::pointwise_relation(2), shape::pointwise_relation(3)};
  return kRelations.at(operands);
}
const std::shared_ptr<const ir::Body>& body_of(Op op) {
  static const std::vector<std::shared_ptr<const ir::Body>> kBodies = [] {
    std::vector<std::shared_ptr<const ir::Body>> out;
    for (const OpRow& row : op_rows()) out.push_back(std::make_shared<const ir::Body>(ir::Body::op(row.op)));
    return out;
  }();
  return kBodies.at(size_t(op));
}

// Two C++ numbers give a C++ number.
bool all_weak(const std::vector<Operand>& operands) {
  for (const Operand& o : operands)
    if (!o.tensor.node().weak) return false;
  return true;
}

}  // namespace

Tensor pointwise(Op op, const std::vector<Operand>& operands) {
  check_numbers(std::span(operands).subspan(op == Op::where ? 1 : 0));  // a condition is met by no number
  Tensor out = make_store(link_to(shared_pointwise(operands.size()), operands[0].where), 0, body_of(op),
                          attach(operands), int(operands.size()), std::string(row(op).name), operands[0].where);
  if (!all_weak(operands)) return out;
  auto node = std::make_shared<Node>(out.node());
  node->weak = true;
  return Tensor(std::move(node));
}

// A longer body would make later passes slow: they search it from end to end.
constexpr size_t kMostFolded = 64;  // tensors in one node

Tensor fold_same(Op op, const std::vector<Tensor>& parts, std::string label, Source where) {
  if (parts.size() == 1) return parts[0];
  if (parts.size() > kMostFolded) {  // from left to right, as one node would: in f32 and f64 with the same bits
    std::vector<Tensor> some;
    for (const Tensor& part : parts) {
      if (some.size() == kMostFolded) some = {fold_same(op, some, label, where)};
      some.push_back(part);
    }
    return fold_same(op, some, std::move(label), where);
  }
  std::vector<AccumulateNode::Attached> operands;
  DType dtype = parts[0].dtype();
  for (size_t i = 0; i < parts.size(); ++i)
    operands.push_back({parts[i], int(i)}), dtype = promote(dtype, parts[i].dtype());
  return make_accumulate(link_to(shape::same_relation(int(parts.size())), where), 0, Accumulator::add,
                         shared(fold_body(op, int(parts.size()))), std::move(operands), int(parts.size()),
                         std::move(label), where, dtype);
}

Tensor add_same(const std::vector<Tensor>& parts, std::string label, Source where) {
  return fold_same(Op::add, parts, std::move(label), where);
}

Tensor constant_like(const Tensor& shape, double value, DType dtype, std::string label, Source where) {
  static const shape::RelationRef kSame = shape::same_relation(1);
  return make_accumulate(link_to(kSame, where), 0, Accumulator::add, shared(ir::Body::number(value)), {{shape, 0}}, 1,
                         std::move(label), where, dtype);
}

Tensor with_check(const Tensor& tensor, MustBeNumber check) {
  auto node = std::make_shared<Node>(tensor.node());
  node->number = std::make_shared<const MustBeNumber>(std::move(check));
  return Tensor(std::move(node));
}

Tensor place(Operand a, std::string mesh_axis, RowKind row, int axis) {
  if (axis < 0)
    throw ShapeError("`place`" + where_text(a.where) + " names " + std::string(name(row)) + " axis " +
                         std::to_string(axis) + "; axes are numbered from 0.",
                     a.where);
  // A state keeps its only node, and so does other data: what is placed is a copy, and the state with it.
  Tensor copied = a.tensor;
  if (!a.tensor.node().accumulate())
    copied = make_store(link_to(shared_pointwise(1), a.where), 0, shared(ir::Body::identity()), attach({a}), 1,
                        a.tensor.node().label, a.where);
  auto node = std::make_shared<Node>(copied.node());
  node->placed.push_back({std::move(mesh_axis), row, size_t(axis), a.where});
  return Tensor(std::move(node));
}

Tensor with_gradient(Operand value, CustomGradient gradient, std::string label) {
  Tensor out = make_store(link_to(shared_pointwise(1), value.where), 0, shared(ir::Body::identity()), attach({value}),
                          1, std::move(label), value.where);
  auto node = std::make_shared<Node>(out.node());
  node->custom = std::make_shared<const CustomGradient>(std::move(gradient));
  return Tensor(std::move(node));
}

// --- operators ---
Tensor operator+(Operand a, Operand b) { return pointwise(Op::add, {a, b}); }
Tensor operator-(Operand a, Operand b) { return pointwise(Op::sub, {a, b}); }
Tensor operator*(Operand a, Operand b) { return pointwise(Op::mul, {a, b}); }
Tensor operator/(Operand a, Operand b) { return pointwise(Op::div, {a, b}); }
Tensor operator-(Operand a) { return pointwise(Op::neg, {a}); }
Tensor operator<(Operand a, Operand b) { return pointwise(Op::lt, {a, b}); }
Tensor operator<=(Operand a, Operand b) { return pointwise(Op::le, {a, b}); }
Tensor operator>(Operand a, Operand b) { return pointwise(Op::gt, {a, b}); }
Tensor operator>=(Operand a, Operand b) { return pointwise(Op::ge, {a, b}); }
Tensor operator==(Operand a, Operand b) { return pointwise(Op::eq, {a, b}); }
Tensor operator!=(Operand a, Operand b) { return pointwise(Op::ne, {a, b}); }
Tensor operator&&(Operand a, Operand b) { return pointwise(Op::and_, {a, b}); }
Tensor operator||(Operand a, Operand b) { return pointwise(Op::or_, {a, b}); }
Tensor operator!(Operand a) { return pointwise(Op::not_, {a}); }

Tensor cast(Operand a, DType dtype) {
  ir::Body body;
  body.finish(body.cast(dtype, body.load(0)));
  return make_store(link_to(shared_pointwise(1), a.where), 0, shared(std::move(body)), attach({a}), 1,
                    "cast " + std::string(name(dtype)), a.where);
}

Tensor Tensor::operator()(Operand x) const {
  static const shape::RelationRef kApply = shape::apply_relation();
  return make_accumulate(link_to(kApply, x.where), 0, Accumulator::add, body_of(Op::mul), attach({Operand(*this), x}),
                         2, node().state() ? "apply " + name() : "apply", x.where);
}

Tensor Tensor::operator[](const IndexHere& at) const {
  node();
  return make_store(link_to(shape::slice_relation(at.index.symbol()), at.where), 0, shared(ir::Body::identity()),
                    {{*this, 0}}, 1, "slice " + at.index.name(), at.where);
}
// The index's own line: operator[] of an array cannot know another.
Tensor slice(const Array& array, const Index& index) {
  Source where = index.symbol()->where;
  return tensor(array, "data", where)[{index, where.file, where.line}];
}

Tensor Tensor::batches(int64_t size, Source where) const {
  if (auto* leaf = std::get_if<DataNode>(&node().kind)) return tensor(leaf->array.batches(size), node().label, where);
  const Call call = Call::function("batches(" + std::to_string(size) + ")", {{"the tensor", Operand(*this, where)}});
  return einsum(spec("n&size, ... | ... -> ... => n, size, ... | ... -> ...", where), Operand(*this, where),
                {{"size", size}});
}

Tensor Tensor::named(std::string label) const {
  if (node().state())  // a state is the only leaf of its name: the new name is that of a copy of its value
    return make_store(link_to(shared_pointwise(1), node().where), 0, shared(ir::Body::identity()), {{*this, 0}}, 1,
                      std::move(label), node().where);
  auto copy = std::make_shared<Node>(node());
  copy->label = std::move(label);
  copy->named = true;
  return Tensor(std::move(copy));
}

Tensor stop_gradient(Operand a) { return with_gradient(a, {}, "stop_gradient"); }

Tensor stack(const std::vector<Tensor>& parts, RowKind kind, Source where) {
  if (parts.empty()) throw SpecError("stack" + where_text(where) + " needs at least one tensor.", where);
  auto link = link_to(shape::stack_relation(int(parts.size()), kind), where);
  std::vector<AccumulateNode::Attached> operands;
  for (size_t i = 0; i < parts.size(); ++i) operands.push_back({parts[i], int(i)});
  std::vector<Tensor> written;
  for (size_t i = 0; i < parts.size(); ++i) {
    ir::Body body;
    body.finish(body.load(int(i)));
    written.push_back(make_store(link, int(i), shared(std::move(body)), operands, int(parts.size()), "stack", where));
  }
  return fold_same(Op::add, written, "stack", where);
}

namespace {
void check_ids(const char* call, const Operand& ids) {
  if (ids.tensor.dtype() == DType::i32 || ids.tensor.dtype() == DType::i64 || ids.tensor.dtype() == DType::u8) return;
  const CallRef made = Call::current();
  throw DTypeError((made ? "`" + made->name + "`" : std::string(call)) + where_text(ids.where) + ": the ids are " +
                       std::string(name(ids.tensor.dtype())) + "; they must be integers (cast(ids, DType::i32)).",
                   ids.where);
}
}  // namespace

Tensor gather(Operand table, Operand ids, RowKind positions) {
  check_ids("gather", ids);
  return make_store(link_to(shape::gather_relation(0, positions), table.where), 0, shared(ir::Body::identity()),
                    attach({table, ids}), 2, "gather", table.where);
}
Tensor scatter_add(Operand values, Operand ids, int64_t size, RowKind positions) {
  check_ids("scatter_add", ids);
  return make_accumulate(link_to(shape::gather_relation(size, positions), values.where), 0, Accumulator::add,
                         shared(ir::Body::identity()), {{values.tensor, 2}, {ids.tensor, 1}}, 0, "scatter_add",
                         values.where);
}

}  // namespace caravan
