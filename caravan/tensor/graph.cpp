#include "caravan/tensor/graph.h"

#include <set>
#include <unordered_set>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"

namespace caravan {

void refuse_undefined(Source where) {
  throw UserError("an undefined Tensor was used" + where_text(where) +
                  "; assign it before (Tensor x = param(\"x\"), ...).");
}

const Node& Tensor::node() const {
  if (!node_) refuse_undefined(Source::call());
  return *node_;
}
DType Tensor::dtype() const { return node().dtype; }
const std::string& Tensor::name() const { return node().label; }

// Children are handed to a list that the outermost destructor empties, so that the depth of the graph is not the depth
// of the stack.
Node::~Node() {
  using Pending = std::vector<std::shared_ptr<const void>>;  // nodes, custom gradients and links
  thread_local Pending* pending = nullptr;
  auto give = [](Pending& list, Tensor& tensor) {
    if (tensor.defined()) list.push_back(tensor.handle()), tensor = Tensor();
  };
  auto give_all = [&](Pending& list) {
    for (Tensor& t : shape_operands) give(list, t);
    if (custom) list.push_back(std::move(custom));
    match(
        kind,
        [&](AccumulateNode& n) {
          for (auto& o : n.operands) give(list, o.tensor);
          list.push_back(std::move(n.link));  // its call has tensors too
        },
        [&](StateNode& n) { give(list, n.like); }, [&](RandomNode& n) { give(list, n.like), give(list, n.step); },
        [](auto&) {});
  };
  if (pending) {
    give_all(*pending);
    return;
  }
  Pending list;
  pending = &list;
  give_all(list);
  while (!list.empty()) {
    std::shared_ptr<const void> next = std::move(list.back());
    list.pop_back();
    next.reset();
  }
  pending = nullptr;
}

void for_each_child(const Node& node, const std::function<void(const Tensor&)>& visit) {
  for (const Tensor& t : node.shape_operands) visit(t);
  if (node.custom)
    for (const Tensor& t : node.custom->inputs) visit(t);
  match(
      node.kind,
      [&](const AccumulateNode& n) {
        for (const auto& o : n.operands) visit(o.tensor);
      },
      [&](const StateNode& n) {
        if (n.like.defined()) visit(n.like);
      },
      [&](const RandomNode& n) {
        if (n.like.defined()) visit(n.like);
        visit(n.step);
      },
      [](const auto&) {});
}

std::vector<bool> values_needed(const AccumulateNode& node) {
  std::vector<bool> out;
  std::vector<bool> slot_used(node.link->relation->slots.size(), false);
  slot_used[size_t(node.written)] = true;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    out.push_back(node.body->reads(int(i)));
    if (out.back()) slot_used[size_t(node.operands[i].slot)] = true;
  }
  for (size_t s = 0; s < slot_used.size(); ++s) {  // index tensors of the slots in use
    if (!slot_used[s]) continue;
    for (const shape::RowPattern& row : node.link->relation->slots[s].rows)
      for (auto* axes : {&row.before, &row.after})
        for (const shape::AxisPattern& axis : *axes)
          if (axis.kind == shape::AxisPattern::Kind::gathered)
            for (size_t i = 0; i < node.operands.size(); ++i)
              if (node.operands[i].slot == axis.slot) out[i] = true;
  }
  return out;
}

void for_each_read(const Node& node, const std::function<void(const Tensor&)>& visit) {
  if (const AccumulateNode* n = node.accumulate()) {
    std::vector<bool> needed = values_needed(*n);
    for (size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) visit(n->operands[i].tensor);
  } else if (auto* random = std::get_if<RandomNode>(&node.kind); random) {
    visit(random->step);
  }
}

bool same_value(const Tensor& a, const Tensor& b) {
  std::vector<std::pair<const Node*, const Node*>> open = {{&a.node(), &b.node()}};
  std::set<std::pair<const Node*, const Node*>> met;
  while (!open.empty()) {
    const auto [x, y] = open.back();
    open.pop_back();
    if (x == y || !met.insert({x, y}).second) continue;
    if (x->kind.index() != y->kind.index() || x->dtype != y->dtype) return false;
    if (const AccumulateNode* n = x->accumulate()) {
      const AccumulateNode* m = y->accumulate();
      if (n->link->relation != m->link->relation || n->clause != m->clause || n->written != m->written ||
          n->accumulator != m->accumulator || *n->body != *m->body || n->operands.size() != m->operands.size())
        return false;
      for (size_t i = 0; i < n->operands.size(); ++i)
        open.push_back({&n->operands[i].tensor.node(), &m->operands[i].tensor.node()});
      continue;
    }
    const bool same = match(
        x->kind, [&](const StateNode& n) { return n.name == y->state()->name; },
        [&](const NumberNode& n) {
          const auto& m = std::get<NumberNode>(y->kind);
          return n.value == m.value && n.tunable == m.tunable;
        },
        [&](const IndexNode& n) { return n.symbol->name == std::get<IndexNode>(y->kind).symbol->name; },
        [](const auto&) { return false; });
    if (!same) return false;
  }
  return true;
}

std::vector<Tensor> topological(const std::vector<Tensor>& roots, bool values_only) {
  std::vector<Tensor> order;
  std::unordered_set<const Node*> entered;
  std::vector<std::pair<Tensor, bool>> stack;  // the tensor; have its children been pushed? True once for each node
  for (auto root = roots.rbegin(); root != roots.rend(); ++root) root->node(), stack.push_back({*root, false});
  std::vector<Tensor> children;
  while (!stack.empty()) {
    auto [tensor, expanded] = std::move(stack.back());
    stack.pop_back();
    if (expanded) {
      order.push_back(std::move(tensor));
      continue;
    }
    if (!entered.insert(&tensor.node()).second) continue;
    stack.push_back({tensor, true});
    children.clear();
    (values_only ? for_each_read : for_each_child)(tensor.node(),
                                                   [&](const Tensor& child) { children.push_back(child); });
    for (auto child = children.rbegin(); child != children.rend(); ++child)
      if (!entered.count(&child->node())) stack.push_back({*child, false});
  }
  return order;
}

Tensor make(NodeKind kind, DType dtype, std::string label, Source where) {
  auto node = std::make_shared<Node>();
  node->kind = std::move(kind);
  node->dtype = dtype;
  node->label = std::move(label);
  node->where = where;
  return Tensor(std::move(node));
}

DType type_of(const ir::Body& body, const std::vector<AccumulateNode::Attached>& operands) {
  std::vector<DType> dtypes;
  auto weak = std::make_unique<bool[]>(operands.size());
  for (size_t i = 0; i < operands.size(); ++i)
    dtypes.push_back(operands[i].tensor.dtype()), weak[i] = operands[i].tensor.node().weak;
  return ir::type_of(body, dtypes, {weak.get(), operands.size()});
}

Tensor make_accumulate(std::shared_ptr<const Link> link, int clause, Accumulator accumulator,
                       std::shared_ptr<const ir::Body> body, std::vector<AccumulateNode::Attached> operands,
                       int written, std::string label, Source where, std::optional<DType> dtype) {
  if (!dtype) dtype = result_type(accumulator, type_of(*body, operands));
  AccumulateNode node{std::move(link), clause, written, accumulator, false, std::move(body), std::move(operands)};
  return make(std::move(node), *dtype, std::move(label), where);
}

Tensor make_store(std::shared_ptr<const Link> link, int clause, std::shared_ptr<const ir::Body> body,
                  std::vector<AccumulateNode::Attached> operands, int written, std::string label, Source where) {
  DType dtype = type_of(*body, operands);
  return make_accumulate(std::move(link), clause, Accumulator::add, std::move(body), std::move(operands), written,
                         std::move(label), where, dtype);
}

namespace {

std::shared_ptr<const Link> link_to(shape::RelationRef relation, Source where) {
  return std::make_shared<const Link>(Link{std::move(relation), where, Call::current()});
}

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
std::shared_ptr<const ir::Body> shared(ir::Body body) { return std::make_shared<const ir::Body>(std::move(body)); }

std::vector<AccumulateNode::Attached> attach(const std::vector<Operand>& operands) {
  std::vector<AccumulateNode::Attached> out;
  for (size_t i = 0; i < operands.size(); ++i) out.push_back({operands[i].tensor, int(i)});
  return out;
}

// Two C++ numbers give a C++ number.
bool all_weak(const std::vector<Operand>& operands) {
  for (const Operand& o : operands)
    if (!o.tensor.node().weak) return false;
  return true;
}

// A C++ number takes the precision of the tensors it meets, which must be able to hold it (dtype.h, rule 6).
// Sums and products compute in at least the precision of their result.
void check_numbers(std::span<const Operand> operands, std::optional<Accumulator> accumulator = std::nullopt) {
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
                     std::string(name(*met)) + ", the precision of the tensor it meets; cast the tensor first.");
  }
}

shape::DimRef dim_variable(const Dim& dim, const std::string& name, Source where) {
  Dim::State& state = *dim.state();
  if (state.variable->name.empty()) state.variable->name = name, state.variable->where = where;
  return state.variable;
}

std::vector<shape::Binding> to_bindings(const Bindings& bindings, Source where) {
  using Kind = BindingArgument::Kind;
  std::vector<shape::Binding> out;
  for (const BindingArgument& b : bindings.list) {
    switch (b.kind) {
      case Kind::size: out.push_back({b.name, b.size}); break;
      case Kind::dim:
        if (b.dim.state()->size >= 0)
          out.push_back({b.name, b.dim.state()->size});
        else
          out.push_back({b.name, dim_variable(b.dim, b.name, where)});
        break;
      case Kind::same: out.push_back({b.name, shape::SameAs{b.other}}); break;
      case Kind::multiple: out.push_back({b.name, shape::Multiple{b.size, b.other}}); break;
      case Kind::multiple_dim:
        if (b.dim.state()->size >= 0)
          out.push_back({b.name, b.size * b.dim.state()->size});
        else
          out.push_back({b.name, shape::Multiple{b.size, dim_variable(b.dim, b.name, where)}});
        break;
      case Kind::condition: out.push_back({b.name, std::monostate{}}); break;
    }
  }
  return out;
}

// One node per clause, joined by the accumulator's op; captured sizes remember the node that knows them.
Tensor over_spec(Accumulator accumulator, ir::Body body, SpecRef spec, const std::vector<Operand>& operands,
                 const Bindings& bindings, shape::SpecUse use, std::string label, bool counts_reduced = false,
                 bool writes_once = false) {
  Source where = spec.where.known() ? spec.where : operands[0].where;
  if (use == shape::SpecUse::product) check_numbers(operands, accumulator);
  shape::SpecSyntax syntax = shape::parse_spec(spec.text);
  shape::RelationRef relation = shape::relation_of(syntax, to_bindings(bindings, where), use, where);
  auto link = link_to(relation, where);
  std::vector<Tensor> sources;  // of sizes captured elsewhere and used here
  for (const BindingArgument& b : bindings.list)
    if (b.dim.state()->source.defined()) sources.push_back(b.dim.state()->source);

  auto shared_body = shared(std::move(body));
  std::vector<Tensor> parts;
  for (size_t c = 0; c < relation->clauses.size(); ++c) {
    auto clause_body = use == shape::SpecUse::product ? shared_body : [&] {  // concatenation: clause c is operand c
      ir::Body load;
      load.finish(load.load(int(c)));
      return shared(std::move(load));
    }();
    Tensor part =
        use == shape::SpecUse::product && !writes_once
            ? make_accumulate(link, int(c), accumulator, clause_body, attach(operands), relation->result, label, where)
            : make_store(link, int(c), clause_body, attach(operands), relation->result, label, where);
    if (!sources.empty() || counts_reduced) {
      auto node = std::make_shared<Node>(part.node());
      node->shape_operands = sources;
      std::get<AccumulateNode>(node->kind).counts_reduced = counts_reduced;
      part = Tensor(std::move(node));
    }
    parts.push_back(part);
  }
  for (const BindingArgument& b : bindings.list)
    if (b.dim.state()->size < 0 && !b.dim.state()->source.defined()) b.dim.state()->source = parts[0];
  if (parts.size() == 1) return parts[0];
  if (!row(accumulator).op)
    throw SpecError("spec \"" + relation->text + "\"" + where_text(where) + ": " + std::string(row(accumulator).name) +
                    " cannot run over the parts of a concatenation.");
  return fold_same(*row(accumulator).op, parts, label, where);
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
ir::Body nonzero_body() {
  ir::Body body;
  int args[2] = {body.load(0), body.constant(0)};
  body.finish(body.apply(Op::ne, args));
  return body;
}

}  // namespace

void check_operand_count(SpecRef spec, int operands) {
  const WrittenAt at(spec.where);
  int given = shape::parse_spec(spec.text).operands();
  if (operands < 0 || given == operands) return;
  throw SpecError("spec \"" + std::string(spec.text) + "\"" + where_text(spec.where) + " has " + std::to_string(given) +
                  " shapes before `=>`, but the call has " + std::to_string(operands) +
                  (operands == 1 ? " operand." : " operands."));
}

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

Tensor with_gradient(Operand value, CustomGradient gradient, std::string label) {
  Tensor out = make_store(link_to(shared_pointwise(1), value.where), 0, shared(ir::Body::identity()), attach({value}),
                          1, std::move(label), value.where);
  auto node = std::make_shared<Node>(out.node());
  node->custom = std::make_shared<const CustomGradient>(std::move(gradient));
  return Tensor(std::move(node));
}

Tensor accumulate(Op op, SpecRef spec, const std::vector<Operand>& operands, const Bindings& bindings) {
  return over_spec(Accumulator::add, ir::Body::op(op), spec, operands, bindings, shape::SpecUse::product,
                   std::string(row(op).name));
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
                         2, "apply", x.where);
}

Tensor Tensor::operator[](const IndexHere& at) const {
  node();
  return make_store(link_to(shape::slice_relation(at.index.symbol()), at.where), 0, shared(ir::Body::identity()),
                    {{*this, 0}}, 1, "slice " + at.index.name(), at.where);
}
Tensor with_slice(const Tensor& whole, const Index& at, Operand slice, const std::string& axis,
                  const std::string& slice_axes, const std::string& whole_axes, const Tensor& bound) {
  const Source where = slice.where;
  const Operand all(whole, where);
  Dim size;
  einsum(spec(whole_axes + " => " + axis, where), all, {{axis, size}});
  ir::Body body;  // where(position == at, slice, whole)
  const int here[] = {body.load(0), body.load(1)};
  const int chosen[] = {body.apply(Op::eq, here), body.load(2), body.load(3)};
  body.finish(body.apply(Op::where, chosen));
  std::vector<Operand> operands = {Operand(iota(size, where), where), Operand(at, where), slice, all};
  std::string written = axis + ";; " + slice_axes + "; " + whole_axes;
  if (bound.defined()) operands.emplace_back(bound, where), written += "; " + slice_axes;  // the body does not read it
  written += " => " + whole_axes;
  return over_spec(Accumulator::add, std::move(body), {written, where}, operands, {}, shape::SpecUse::product, "update",
                   false, true);
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

// --- the einsum family ---
namespace {
Tensor products(Accumulator accumulator, SpecRef spec, const std::vector<Operand>& operands, const Bindings& bindings,
                const char* label) {
  return over_spec(accumulator, fold_body(Op::mul, int(operands.size())), spec, operands, bindings,
                   shape::SpecUse::product, label);
}

// Does every element of the result come from at most one of the operand, so that nothing is added up? So it is where
// the result has every name of the operand, and each place of the result is written by one combination of them.
bool only_moves(const shape::SpecSyntax& syntax) {
  auto variable = [](RowKind kind, const shape::RowSyntax& row) {
    return row.variable.empty() ? shape::unnamed_row(kind) : std::string(row.variable);
  };
  std::set<std::string> in_result;
  for (RowKind kind : kRowKinds) {
    const shape::RowSyntax& row = syntax.result().rows[int(kind)];
    if (row.open) in_result.insert(variable(kind, row));
    for (auto axes : {syntax.before(row), syntax.after(row)})
      for (const shape::AxisSyntax& axis : axes) {
        int named = 0;
        for (int i = 0; i < axis.count; ++i)
          if (!axis.names[size_t(i)].empty()) in_result.emplace(axis.names[size_t(i)]), ++named;
        using Kind = shape::AxisSyntax::Kind;
        if (axis.kind == Kind::window) return false;              // positions of the kernel may write to one place
        if (axis.kind == Kind::parts && named > 1) return false;  // each part sums over the other's name
      }
  }
  for (RowKind kind : kRowKinds) {
    const shape::RowSyntax& row = syntax.shapes[0].rows[int(kind)];
    if (row.open && !in_result.count(variable(kind, row))) return false;
    for (auto axes : {syntax.before(row), syntax.after(row)})
      for (const shape::AxisSyntax& axis : axes) {
        if (axis.kind == shape::AxisSyntax::Kind::anonymous) return false;
        for (int i = 0; i < axis.count; ++i)
          if (!axis.names[size_t(i)].empty() && !in_result.count(std::string(axis.names[size_t(i)]))) return false;
      }
  }
  return true;
}
}  // namespace

Tensor einsum(Spec<1> spec, Operand a, const Bindings& bindings) {
  const SpecRef ref = spec.syntax_ref();
  return over_spec(Accumulator::add, ir::Body::identity(), ref, {a}, bindings, shape::SpecUse::product, "einsum", false,
                   only_moves(shape::parse_spec(ref.text)));
}
Tensor einsum(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return products(Accumulator::add, spec.syntax_ref(), {a, b}, bindings, "einsum");
}
Tensor einsum(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return products(Accumulator::add, spec.syntax_ref(), {a, b, c}, bindings, "einsum");
}
Tensor einmax(Spec<1> spec, Operand a, const Bindings& bindings) {
  return products(Accumulator::max, spec.syntax_ref(), {a}, bindings, "einmax");
}
Tensor einmax(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return products(Accumulator::max, spec.syntax_ref(), {a, b}, bindings, "einmax");
}
Tensor einmax(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return products(Accumulator::max, spec.syntax_ref(), {a, b, c}, bindings, "einmax");
}
Tensor einmin(Spec<1> spec, Operand a, const Bindings& bindings) {
  return products(Accumulator::min, spec.syntax_ref(), {a}, bindings, "einmin");
}
Tensor einmin(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return products(Accumulator::min, spec.syntax_ref(), {a, b}, bindings, "einmin");
}
Tensor einmin(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return products(Accumulator::min, spec.syntax_ref(), {a, b, c}, bindings, "einmin");
}
Tensor einprod(Spec<1> spec, Operand a, const Bindings& bindings) {
  return products(Accumulator::mul, spec.syntax_ref(), {a}, bindings, "einprod");
}
Tensor einany(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::or_, nonzero_body(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "einany");
}
Tensor einall(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::and_, nonzero_body(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "einall");
}
Tensor tropical(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return over_spec(Accumulator::max, ir::Body::op(Op::add), spec.syntax_ref(), {a, b}, bindings,
                   shape::SpecUse::product, "tropical");
}
Tensor outer_sum(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return accumulate(Op::add, spec.syntax_ref(), {a, b}, bindings);
}
Tensor argmax(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::argmax, ir::Body::identity(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "argmax", true);
}
Tensor argmin(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::argmin, ir::Body::identity(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "argmin", true);
}

namespace {
Tensor concatenate(SpecRef spec, const std::vector<Operand>& parts, const Bindings& bindings) {
  return over_spec(Accumulator::add, {}, spec, parts, bindings, shape::SpecUse::concatenate, "concat");
}
}  // namespace
Tensor concat(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return concatenate(spec.syntax_ref(), {a, b}, bindings);
}
Tensor concat(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return concatenate(spec.syntax_ref(), {a, b, c}, bindings);
}
Tensor concat(Spec<-1> spec, const std::vector<Tensor>& parts, const Bindings& bindings) {
  SpecRef ref = spec.syntax_ref();
  check_operand_count(ref, int(parts.size()));
  std::vector<Operand> operands;
  for (const Tensor& t : parts) operands.push_back(Operand(t, ref.where));
  return concatenate(ref, operands, bindings);
}

Tensor stack(const std::vector<Tensor>& parts, RowKind kind, Source where) {
  if (parts.empty()) throw SpecError("stack" + where_text(where) + " needs at least one tensor.");
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
                   std::string(name(ids.tensor.dtype())) + "; they must be integers (cast(ids, DType::i32)).");
}
}  // namespace

Tensor gather(Operand table, Operand ids) {
  check_ids("gather", ids);
  return make_store(link_to(shape::gather_relation(0), table.where), 0, shared(ir::Body::identity()),
                    attach({table, ids}), 2, "gather", table.where);
}
Tensor scatter_add(Operand values, Operand ids, int64_t size) {
  check_ids("scatter_add", ids);
  return make_accumulate(link_to(shape::gather_relation(size), values.where), 0, Accumulator::add,
                         shared(ir::Body::identity()), {{values.tensor, 2}, {ids.tensor, 1}}, 0, "scatter_add",
                         values.where);
}

namespace {
// The names of one shape of a spec; a row variable without a name has the one that bindings know it by.
std::set<std::string> names_in(const shape::SpecSyntax& syntax, const shape::ShapeSyntax& in, SpecRef spec) {
  std::set<std::string> out;
  for (RowKind kind : kRowKinds) {
    const shape::RowSyntax& row = in.rows[int(kind)];
    if (row.open) out.insert(row.variable.empty() ? shape::unnamed_row(kind) : std::string(row.variable));
    for (auto axes : {syntax.before(row), syntax.after(row)})
      for (const shape::AxisSyntax& axis : axes) {
        if (axis.kind == shape::AxisSyntax::Kind::anonymous)
          throw SpecError("spec \"" + std::string(spec.text) + "\"" + where_text(spec.where) +
                          ": a mean needs the sizes of the axes it reduces; give `_` a name.");
        for (int i = 0; i < axis.count; ++i)
          if (!axis.names[size_t(i)].empty()) out.insert(std::string(axis.names[size_t(i)]));
      }
  }
  return out;
}
}  // namespace

namespace {
// What a mean adds up: the sum of many integers need not be one of i32.
Operand in_floats(Operand a) {
  return is_float(a.tensor.dtype()) || a.tensor.node().weak ? a : Operand(cast(a, DType::f32), a.where);
}
struct Summed {
  Tensor total, count;
};
Summed summed(Spec<1> spec, Operand a, Bindings bindings) {
  const SpecRef ref = spec.syntax_ref();
  const shape::SpecSyntax syntax = shape::parse_spec(ref.text);
  std::set<std::string> reduced = names_in(syntax, syntax.shapes[0], ref);
  for (const std::string& kept : names_in(syntax, syntax.result(), ref)) reduced.erase(kept);
  std::vector<Dim> sizes(reduced.size());
  size_t i = 0;
  for (const std::string& name : reduced) bindings.list.push_back({name, sizes[i++]});
  Summed out{einsum(spec, a, bindings).named("sum"), Operand(1, a.where).tensor};
  for (const Dim& size : sizes) out.count = Operand(out.count, a.where) * Operand(size, a.where);
  return out;
}
}  // namespace

Tensor mean(Spec<1> spec, Operand a, const Bindings& bindings) {
  const Summed s = summed(spec, in_floats(a), bindings);
  return (Operand(s.total, a.where) / s.count).named("mean");
}
Tensor count(Spec<1> spec, Operand a, const Bindings& bindings) { return summed(spec, a, bindings).count; }

// --- reductions ---
namespace {
constexpr const char* kAll = "...|...->... => ";
}
Tensor sum(Operand a) { return einsum(spec(kAll, a.where), a).named("sum"); }
Tensor mean(Operand a) {
  a = in_floats(a);
  Dim batch, input, output;
  Tensor total =
      einsum(spec("..b..|..i..->..o.. => ", a.where), a, {{"b", batch}, {"i", input}, {"o", output}}).named("sum");
  return (Operand(total, a.where) / (Operand(batch, a.where) * Operand(input, a.where) * Operand(output, a.where)))
      .named("mean");
}
Tensor sum(Spec<1> spec, Operand a, const Bindings& bindings) { return einsum(spec, a, bindings).named("sum"); }
Tensor product(Spec<1> spec, Operand a, const Bindings& bindings) {
  return einprod(spec, a, bindings).named("product");
}
Tensor largest(Spec<1> spec, Operand a, const Bindings& bindings) { return einmax(spec, a, bindings).named("largest"); }
Tensor smallest(Spec<1> spec, Operand a, const Bindings& bindings) {
  return einmin(spec, a, bindings).named("smallest");
}
Tensor product(Operand a) { return einprod(spec(kAll, a.where), a).named("product"); }
Tensor largest(Operand a) { return einmax(spec(kAll, a.where), a).named("largest"); }
Tensor smallest(Operand a) { return einmin(spec(kAll, a.where), a).named("smallest"); }
Tensor dot(Operand a, Operand b) {
  const Call call = Call::function("dot", {{"a", a}, {"b", b}});
  return einsum(spec("...|...->...; ...|...->... => ", a.where), a, b).named("dot");
}

}  // namespace caravan
