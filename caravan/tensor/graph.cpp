#include "caravan/tensor/graph.h"

#include <set>
#include <unordered_set>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"

namespace caravan {

void refuse_undefined(Source where) {
  throw UserError(
      "an undefined Tensor was used" + where_text(where) + "; assign it before (Tensor x = param(\"x\"), ...).", where);
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
    const Node *x = open.back().first, *y = open.back().second;
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

}  // namespace caravan
