#include "caravan/autodiff/grad.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/ops/op.h"
#include "caravan/tensor/graph.h"
#include "caravan/tensor/program.h"

namespace caravan {

namespace {

using Attached = AccumulateNode::Attached;

class Backward {
 public:
  Backward(const Tensor& y, const std::vector<Tensor>& xs) : order_(topological({y}, false)), steps_(order_.size()) {
    at_.reserve(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) at_[&order_[i].node()] = i;
    for (const Tensor& x : xs)
      if (Step* s = step(x)) s->leads = true;
    for (size_t i = 0; i < order_.size(); ++i)
      each_differentiable(order_[i].node(),
                          [&](const Tensor& child) { steps_[i].leads = steps_[i].leads || step(child)->leads; });
  }

  // Everything that y depends on through float operands that are read and are not cut off.
  static std::unordered_set<const Node*> reached(const Tensor& y) {
    std::unordered_set<const Node*> out = {&y.node()};
    std::vector<const Node*> open = {&y.node()};
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      each_differentiable(*node, [&](const Tensor& child) {
        if (out.insert(&child.node()).second) open.push_back(&child.node());
      });
    }
    return out;
  }

  void run(const Tensor& y, const Tensor& seed) {
    give(*step(y), seed);
    for (size_t i = order_.size(); i-- > 0;) {
      if (steps_[i].cotangents.empty() || !steps_[i].leads) continue;
      const Tensor& t = order_[i];
      Tensor g = add_same(steps_[i].cotangents, "d " + t.node().label, t.node().where);
      steps_[i].cotangents = {g};
      if (t.node().custom)
        apply_custom(t, g);
      else if (const AccumulateNode* n = t.node().accumulate())
        apply_accumulation(t, *n, g);
    }
  }

  // Was x met on the way from y? Then its cotangent, zeros if nothing flowed.
  bool met(const Tensor& x) const {
    const Step* s = step(x);
    return s && s->met;
  }
  Tensor cotangent(const Tensor& x) const {
    const Step* s = step(x);
    return !s || s->cotangents.empty() ? zeros_like(x, x.node().where)
                                       : add_same(s->cotangents, "d " + x.node().label, x.node().where);
  }

 private:
  static void each_differentiable(const Node& node, const std::function<void(const Tensor&)>& visit) {
    if (node.custom) {
      for (const Tensor& input : node.custom->inputs) visit(input);
    } else if (const AccumulateNode* n = node.accumulate()) {
      for (size_t i = 0; i < n->operands.size(); ++i)
        if (n->body->reads(int(i)) && is_float(n->operands[i].tensor.dtype())) visit(n->operands[i].tensor);
    }
  }

  struct Step {          // what is known of a node of the graph
    bool leads = false;  // to one of the xs, in whose cotangents we are interested
    bool met = false;
    std::vector<Tensor> cotangents{};
  };
  const Step* step(const Tensor& t) const {  // null: not in the graph
    auto at = at_.find(&t.node());
    return at == at_.end() ? nullptr : &steps_[at->second];
  }
  Step* step(const Tensor& t) { return const_cast<Step*>(std::as_const(*this).step(t)); }

  static void give(Step& x, const Tensor& g) {
    x.met = true;
    x.cotangents.push_back(g);
  }

  void apply_custom(const Tensor& t, const Tensor& g) {
    const CustomGradient& custom = *t.node().custom;
    if (custom.inputs.empty()) return;
    std::vector<Tensor> given = custom.rule(g, custom.inputs);
    if (given.size() != custom.inputs.size())
      throw GradientError("the gradient rule of `" + t.node().label + "`" + where_text(t.node().where) + " gave " +
                              std::to_string(given.size()) + " tensors for " + std::to_string(custom.inputs.size()) +
                              " inputs.",
                          t.node().where);
    for (size_t i = 0; i < given.size(); ++i)
      if (Step& x = *step(custom.inputs[i]); x.leads) {
        x.met = true;
        if (given[i].defined()) give(x, given[i]);
      }
  }

  void apply_accumulation(const Tensor& t, const AccumulateNode& n, const Tensor& g) {
    std::vector<Tensor> auxiliaries;
    bool made = false;
    for (size_t k = 0; k < n.operands.size(); ++k) {
      const Tensor& tensor = n.operands[k].tensor;
      if (!n.body->reads(int(k)) || !is_float(tensor.dtype())) continue;
      Step& x = *step(tensor);
      if (!x.leads) continue;
      x.met = true;
      if (!made) auxiliaries = make_auxiliaries(t, n), made = true;
      Tensor dx = by_operand(t, n, int(k), g, auxiliaries);
      if (dx.defined()) give(x, dx);
    }
  }

  // The quantities that the accumulator's gradient needs, accumulated over the same relation: the position of the
  // winner, the product of the other factors.
  static std::vector<Tensor> make_auxiliaries(const Tensor& t, const AccumulateNode& n) {
    std::vector<Tensor> out;
    const AccumulatorRow& row_of = row(n.accumulator);
    for (size_t a = 0; a < row_of.auxiliaries.size(); ++a) {
      if (row_of.auxiliaries[a].accumulator.empty()) continue;
      ir::Body body = *n.body;
      int value = n.body->result();
      body.finish(body.instantiate(auxiliary_body(n.accumulator, int(a)), std::span(&value, 1)));
      Tensor auxiliary = make_accumulate(n.link, n.clause, *find_accumulator(row_of.auxiliaries[a].accumulator),
                                         std::make_shared<const ir::Body>(std::move(body)), n.operands, n.written,
                                         std::string(row_of.auxiliaries[a].accumulator), t.node().where);
      if (!row_of.refuse_second.empty()) {
        CustomGradient refusal;
        for (size_t i = 0; i < n.operands.size(); ++i)
          if (n.body->reads(int(i))) refusal.inputs.push_back(n.operands[i].tensor);
        std::string message = "the second derivative of `" + t.node().label + "`" + where_text(t.node().where) +
                              " is refused: " + std::string(row_of.refuse_second);
        refusal.rule = [message, where = t.node().where](const Tensor&,
                                                         const std::vector<Tensor>&) -> std::vector<Tensor> {
          throw GradientError(message, where);
        };
        auxiliary = with_gradient(Operand(auxiliary, t.node().where), std::move(refusal), auxiliary.node().label);
      }
      out.push_back(auxiliary);
    }
    return out;
  }

  static Tensor by_operand(const Tensor& t, const AccumulateNode& n, int k, const Tensor& g,
                           const std::vector<Tensor>& auxiliaries) {
    std::vector<Attached> operands = n.operands;
    std::vector<DType> dtypes;
    for (const Attached& o : n.operands) dtypes.push_back(o.tensor.dtype());
    auto attach = [&](const Tensor& tensor) {  // to the old result slot
      operands.push_back({tensor, n.written});
      return int(operands.size()) - 1;
    };
    ir::Body body = *n.body;
    int chain = ir::pull_back(body, *n.body, k, body.load(attach(g)), dtypes);
    if (chain < 0) return {};
    std::vector<int> variables = {chain, n.body->result()};
    if (!auxiliaries.empty()) variables.push_back(body.position());
    for (const Tensor& auxiliary : auxiliaries) variables.push_back(body.load(attach(auxiliary)));
    variables.resize(5, variables.back());
    body.finish(body.instantiate(gradient(n.accumulator), variables));
    if (body.is_constant(0)) return {};
    const Tensor& x = n.operands[size_t(k)].tensor;
    return make_accumulate(n.link, n.clause, Accumulator::add, std::make_shared<const ir::Body>(std::move(body)),
                           std::move(operands), n.operands[size_t(k)].slot, "d " + x.node().label, t.node().where,
                           x.dtype());
  }

  std::vector<Tensor> order_;  // operands first
  std::vector<Step> steps_;    // of the same nodes
  std::unordered_map<const Node*, size_t> at_;
};

std::string called(const Tensor& t) { return "`" + t.node().label + "`" + where_text(t.node().where); }

}  // namespace

std::vector<Tensor> grad(const Tensor& y, const std::vector<Tensor>& xs, const GradOptions& options, Source where) {
  for (const Tensor& x : xs)
    if (!is_float(x.dtype()))
      throw GradientError("the gradient by " + called(x) + " asked for at " + to_string(where) +
                              " does not exist: it is " + std::string(name(x.dtype())) + ", not a float.",
                          where);
  if (!is_float(y.dtype()))
    throw GradientError("the gradient of " + called(y) + " asked for at " + to_string(where) +
                            " does not exist: it is " + std::string(name(y.dtype())) + ", not a float.",
                        where);
  Backward backward(y, xs);
  const Tensor cotangent =
      options.cotangent.defined()
          ? options.cotangent
          : with_check(ones_like(y, where),
                       {-1, "grad", "y", "sum(y) or mean(y); or give .cotangent, of the shape of y", where});
  backward.run(y, cotangent);
  std::vector<Tensor> out;
  for (const Tensor& x : xs) {
    if (!backward.met(x) && !options.allow_unused)
      throw GradientError("the gradient of " + called(y) + " by " + called(x) + " was asked for at " +
                              to_string(where) +
                              ", but the former does not depend on the latter; check the graph, or give .allow_unused "
                              "= true for zeros.",
                          where);
    out.push_back(backward.cotangent(x));
  }
  return out;
}

Tensor grad(const Tensor& y, const Tensor& x, const GradOptions& options, Source where) {
  return grad(y, std::vector<Tensor>{x}, options, where)[0];
}

std::vector<Tensor> reached_parameters(const Tensor& y) {
  std::vector<Tensor> out;
  std::unordered_set<const Node*> reached = Backward::reached(y);
  for (const Tensor& p : parameters(y))
    if (reached.count(&p.node())) out.push_back(p);
  return out;
}

namespace {
template <size_t N>
std::array<Tensor, N> each(const Tensor& y, const std::array<Tensor, N>& xs, const GradOptions& options, Source where) {
  std::vector<Tensor> list = grad(y, std::vector<Tensor>(xs.begin(), xs.end()), options, where);
  std::array<Tensor, N> out;
  std::copy(list.begin(), list.end(), out.begin());
  return out;
}
}  // namespace
std::array<Tensor, 2> grad(const Tensor& y, const Tensor& x0, const Tensor& x1, const GradOptions& options,
                           Source where) {
  return each<2>(y, {x0, x1}, options, where);
}
std::array<Tensor, 3> grad(const Tensor& y, const Tensor& x0, const Tensor& x1, const Tensor& x2,
                           const GradOptions& options, Source where) {
  return each<3>(y, {x0, x1, x2}, options, where);
}
std::array<Tensor, 4> grad(const Tensor& y, const Tensor& x0, const Tensor& x1, const Tensor& x2, const Tensor& x3,
                           const GradOptions& options, Source where) {
  return each<4>(y, {x0, x1, x2, x3}, options, where);
}

Tensor vjp(const Tensor& y, const Tensor& x, const Tensor& u, Source where) {
  return grad(y, x, {.allow_unused = true, .cotangent = u}, where);
}

// vjp is linear in u, so its own transpose is the jvp; the value of u does not matter.
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& v, Source where) {
  Tensor u = zeros_like(y, where);
  return grad(dot(Operand(vjp(y, x, u, where), where), v), u, {.allow_unused = true}, where);
}

Tensor hvp(const Tensor& loss, const Tensor& x, const Tensor& v, Source where) {
  return grad(dot(Operand(grad(loss, x, {}, where), where), v), x, {.allow_unused = true}, where);
}

Tensor attach_gradient(Operand value, std::vector<Tensor> inputs, GradientRule rule) {
  return with_gradient(value, {std::move(inputs), std::move(rule)}, "custom_gradient");
}

}  // namespace caravan
