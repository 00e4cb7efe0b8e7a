#include "caravan/tensor/infer.h"

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/ops/op.h"
#include "caravan/tensor/check_program.h"

namespace caravan {

using shape::Role;

std::string short_name(const Tensor& tensor) {
  const Node& node = tensor.node();
  return node.label;
}

namespace {
// An operand within a description: a name, or only the kind of what computes it, as in `relu(..)` and `w1(..)`.
std::string describe_operand(const Tensor& tensor) {
  const AccumulateNode* n = tensor.node().accumulate();
  if (!n || tensor.node().named) return tensor.node().label;
  if (n->link->relation->apply)
    for (const auto& o : n->operands)
      if (o.slot == 0 && !o.tensor.node().accumulate()) return o.tensor.node().label + "(..)";
  return tensor.node().label + "(..)";
}
}  // namespace

std::string describe(const Tensor& tensor) {
  const AccumulateNode* n = tensor.node().accumulate();
  if (!n || tensor.node().named) return tensor.node().label;
  const shape::Relation& relation = *n->link->relation;
  auto operand = [&](int slot) -> std::string {
    for (const auto& o : n->operands)
      if (o.slot == slot) return describe_operand(o.tensor);
    return "..";
  };
  if (relation.apply) return operand(0) + "(" + operand(1) + ")";
  if (!relation.text.empty()) return relation.text;
  if (relation.pointwise) {
    if (auto op = find_op(tensor.node().label); op && row(*op).arity == relation.result) {
      const OpRow& r = row(*op);
      if (!r.infix.empty() && r.arity == 2) return operand(0) + " " + std::string(r.infix) + " " + operand(1);
      std::string arguments;
      for (int i = 0; i < r.arity; ++i) add_to_list(arguments, operand(i));
      return tensor.node().label + "(" + arguments + ")";
    }
  }
  return tensor.node().label;
}

Inference::Inference(const Program& program, const KnownShapes& known) : Inference(program, known, true) {}

Inference::Inference(const Program& program, const KnownShapes& known, bool explain) {
  results_ = program.observed();
  for (const auto& a : program.assignments()) results_.push_back(a.value);
  std::vector<Tensor> roots = program.observed();
  for (const auto& a : program.assignments()) roots.push_back(a.value), roots.push_back(a.state);
  order_ = topological(roots, false);

  check_program(program, order_);
  rows_.reserve(order_.size()), roles_.reserve(order_.size()), instances_.reserve(order_.size());
  for (const Tensor& t : order_) add(t, known);
  for (const auto& a : program.assignments()) {
    shape::OriginId origin = system_.add_origin(short_name(a.state) + " := " + describe(a.value), a.where);
    for (RowKind kind : kRowKinds)
      system_.equate(rows_of(a.state)[size_t(kind)], rows_of(a.value)[size_t(kind)], origin);
  }
  for (const Tensor& t : order_)
    if (auto* size = std::get_if<SizeNode>(&t.node().kind); size && !system_.dims.count(size->dim))
      throw ShapeError("the Dim used at " + to_string(t.node().where) +
                           " is captured by no spec of this program; name it in one, {\"name\", dim}.",
                       t.node().where);
  try {
    solution_ = shape::solve(system_);
  } catch (const shape::MisfitError& error) {
    if (explain) check_numbers([&](const Tensor& t) { return shape_alone(t, known); });
    const std::string better = explain ? in_words_of_the_call(error, known) : "";
    if (better.empty()) throw;
    throw ShapeError(better, error.where());
  }
  check_numbers([&](const Tensor& t) { return shape(t); });
}

void Inference::check_numbers(const std::function<std::optional<Shape>(const Tensor&)>& shape_of) const {
  for (const Tensor& t : order_) {
    if (!t.node().number) continue;
    const MustBeNumber& check = *t.node().number;
    const std::optional<Shape> shape =
        shape_of(check.operand < 0 ? t : t.node().accumulate()->operands[size_t(check.operand)].tensor);
    if (shape && shape->rank() > 0)
      throw ShapeError("`" + check.call + "`" + where_text(check.where) + ": " + check.what + " is `" +
                           to_string(*shape) + "`, but must be one number" +
                           (check.advice.empty() ? "." : ": " + check.advice + "."),
                       check.where);
  }
}

std::optional<Shape> Inference::shape_alone(const Tensor& tensor, const KnownShapes& known) {
  try {
    return Inference(observe(tensor), known, false).shape(tensor);
  } catch (const UserError&) {  // what it is follows from the rest of the program, which does not fit
    return std::nullopt;
  }
}

shape::OriginId Inference::add_origin(std::string text, const Link& link) {
  const shape::OriginId id = system_.add_origin(std::move(text), link.where, link.call ? link.call->name : "");
  if (link.call) calls_.emplace(id, link.call);
  return id;
}

std::string Inference::in_words_of_the_call(const shape::MisfitError& error, const KnownShapes& known) const {
  const auto at = calls_.find(error.at());
  if (at == calls_.end()) return "";
  auto shapes_of = [&](const CallRecord& call) {
    CallRecord::Shapes out;
    for (const CallArgument& argument : call.arguments) out.push_back(shape_alone(argument.value.tensor, known));
    return out;
  };
  for (const CallRecord* call = at->second.get(); call; call = call->inside.get()) {
    if (!call->advice) continue;
    const std::string advice = call->advice(shapes_of(*call));
    if (!advice.empty()) return "`" + call->name + "`" + where_text(call->where) + ": " + advice;
  }
  std::string given;
  const CallRecord::Shapes shapes = shapes_of(*at->second);
  for (size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i]) add_to_list(given, at->second->arguments[i].name + " `" + to_string(*shapes[i]) + "`", " and ");
  return given.empty() ? "" : std::string(error.what()) + " It was given " + given + ".";
}

Role Inference::role(const Node& node) const {
  return match(
      node.kind, [](const StateNode&) { return Role::leaf; }, [](const DataNode&) { return Role::other; },
      [](const NumberNode&) { return Role::number; }, [](const IndexNode&) { return Role::number; },
      [](const SizeNode&) { return Role::number; }, [](const IotaNode&) { return Role::other; },
      [](const RandomNode&) { return Role::other; },
      [&](const AccumulateNode& n) {
        const shape::Relation& relation = *n.link->relation;
        if (n.written != relation.result) return Role::other;
        if (relation.apply) return Role::image;
        if (!relation.pointwise) return Role::other;
        Role out = Role::number;
        for (const auto& o : n.operands) {
          Role r = roles_.at(&o.tensor.node());
          if (r == Role::other) return Role::other;
          if (r == Role::image || (r == Role::leaf && out == Role::number)) out = r;
        }
        return out;
      });
}

void Inference::add_given(const Rows& rows, RowKind kind, const GivenRow& given, shape::OriginId origin) {
  if (!given.given) return;
  shape::Equation equation{rows[size_t(kind)], {}, -1, -1, {}, origin};
  Row known;
  bool captured = false;
  for (const Extent& e : given.extents) {
    captured = captured || (e.captured && e.dim.state()->size < 0);
    known.push_back({e.captured ? e.dim.state()->size : e.size, e.basis});
  }
  if (!captured) return system_.know(rows[size_t(kind)], known, origin);
  for (size_t i = 0; i < known.size(); ++i) {
    const Extent& e = given.extents[i];
    if (e.captured && e.dim.state()->size < 0) {
      equation.before.push_back(system_.axis_of(e.dim.state()->variable));
      continue;
    }
    shape::AxisId axis = system_.add_axis("", origin);
    system_.size(axis, known[i].size, origin, e.basis);
    equation.before.push_back(axis);
  }
  system_.equations.push_back(equation);
}

void Inference::add(const Tensor& tensor, const KnownShapes& known) {
  const Node& node = tensor.node();
  auto new_rows = [&](shape::OriginId origin, shape::Owner owner) {
    Rows rows;
    for (RowKind kind : kRowKinds) rows[size_t(kind)] = system_.add_row(kind, origin, owner);
    return rows;
  };
  auto known_rows = [&](const Shape& shape) {
    shape::OriginId origin = system_.add_origin(node.label, node.where);
    Rows rows = new_rows(origin, shape::Owner::none);
    for (RowKind kind : kRowKinds) system_.know(rows[size_t(kind)], shape[kind], origin);
    return rows;
  };
  roles_[&node] = role(node);
  rows_[&node] = match(
      node.kind,
      [&](const StateNode& n) {
        shape::OriginId origin = system_.add_origin(n.name, node.where);
        Rows rows = n.like.defined() ? rows_of(n.like)
                                     : new_rows(origin, n.parameter ? shape::Owner::parameter : shape::Owner::state);
        add_given(rows, RowKind::batch, n.batch, origin);
        add_given(rows, RowKind::input, n.input, origin);
        add_given(rows, RowKind::output, n.output, origin);
        if (n.init.kind == Init::Kind::values && !n.parameter)
          for (RowKind kind : kRowKinds) system_.know(rows[size_t(kind)], n.init.array->shape()[kind], origin);
        if (auto at = known.find(n.name); at != known.end()) {
          shape::OriginId in_context = system_.add_origin(n.name + " in the Context", {});
          for (RowKind kind : kRowKinds) system_.know(rows[size_t(kind)], at->second[kind], in_context);
        }
        return rows;
      },
      [&](const DataNode& n) { return known_rows(n.array.shape()); }, [&](const NumberNode&) { return known_rows({}); },
      [&](const IndexNode&) { return known_rows({}); }, [&](const SizeNode&) { return known_rows({}); },
      [&](const IotaNode& n) {
        shape::OriginId origin = system_.add_origin(node.label, node.where);
        Rows rows = new_rows(origin, shape::Owner::none);
        system_.know(rows[size_t(RowKind::batch)], {}, origin), system_.know(rows[size_t(RowKind::input)], {}, origin);
        add_given(rows, RowKind::output, n.output, origin);
        return rows;
      },
      [&](const RandomNode& n) {
        if (n.like.defined()) return rows_of(n.like);
        shape::OriginId origin = system_.add_origin(node.label, node.where);
        Rows rows = new_rows(origin, shape::Owner::none);
        auto given = [](GivenRow row) { return row.given = true, row; };
        add_given(rows, RowKind::batch, given(n.batch), origin);
        add_given(rows, RowKind::input, given(n.input), origin);
        add_given(rows, RowKind::output, given(n.output), origin);
        return rows;
      },
      [&](const AccumulateNode& n) {
        const shape::Relation& relation = *n.link->relation;
        auto [at, added] = instances_.try_emplace(n.link.get());
        if (added) {
          std::vector<Role> roles(relation.slots.size(), Role::other);
          for (const auto& o : n.operands) roles[size_t(o.slot)] = roles_.at(&o.tensor.node());
          at->second = system_.instantiate(
              relation, roles, add_origin(relation.text.empty() ? describe(tensor) : relation.text, *n.link));
        }
        const shape::Instance& instance = at->second;
        shape::OriginId origin = shape::OriginId(system_.rows[size_t(instance.slots[0][0])].origin);
        for (const auto& o : n.operands) {
          Rows rows = rows_of(o.tensor);
          for (RowKind kind : kRowKinds) {
            shape::RowId slot_row = instance.slots[size_t(o.slot)][size_t(kind)];
            if (rows[size_t(kind)] != slot_row) system_.equate(rows[size_t(kind)], slot_row, origin);
          }
        }
        return Rows(instance.slots[size_t(n.written)]);
      });
}

Shape Inference::shape(const Tensor& tensor) const {
  Shape out;
  Rows rows = rows_of(tensor);
  for (RowKind kind : kRowKinds) out[kind] = solution_.row(rows[size_t(kind)]);
  return out;
}

shape::Projection Inference::projection(const AccumulateNode& node) const {
  return shape::project(*node.link->relation, node.clause, instances_.at(node.link.get()), solution_);
}

int64_t Inference::size(const shape::DimRef& dim) const { return solution_.size(system_.dims.at(dim)); }

}  // namespace caravan
