#include "caravan/tensor/infer.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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

std::string describe(const Tensor& tensor) {
  const AccumulateNode* n = tensor.node().accumulate();
  if (!n || tensor.node().named) return tensor.node().label;
  const shape::Relation& relation = *n->link->relation;
  auto operand = [&](int slot) -> std::string {
    for (const auto& o : n->operands)
      if (o.slot == slot)
        return o.tensor.node().accumulate() && !o.tensor.node().named ? o.tensor.node().label + "(..)"
                                                                      : o.tensor.node().label;
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
                       " is captured by no spec of this program; name it in one, {\"name\", dim}.");
  try {
    solution_ = shape::solve(system_);
  } catch (const shape::MisfitError& error) {
    const std::string better = explain ? in_words_of_the_call(error, known) : "";
    if (better.empty()) throw;
    throw ShapeError(better);
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
    for (const CallArgument& argument : call.arguments) {
      out.emplace_back();
      try {
        out.back() = Inference(observe(argument.value.tensor), known, false).shape(argument.value.tensor);
      } catch (const UserError&) {  // what it is follows from the rest of the program, which does not fit
      }
    }
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

namespace {

// Turns nodes into buffers and accumulations, operands first.
class Emitter {
 public:
  Emitter(const Program& program, const Inference& inference) : program_(program), inference_(inference) {}

  ir::Program run(std::vector<Tensor>* tensors) {
    std::vector<Tensor> roots = program_.observed();
    for (const auto& a : program_.assignments()) roots.push_back(a.value), roots.push_back(a.state);
    std::vector<Tensor> order = topological(roots, true);
    for (const Tensor& t : order)  // states keep their names
      if (const StateNode* s = t.node().state()) names_.insert(s->name);
    out_.name = program_.observed().empty() ? "update" : program_.observed()[0].node().label;
    for (const Tensor& t : roots) kept_.insert(&t.node());
    for (const Tensor& t : order) note_number(t.node());
    std::erase_if(order, [&](const Tensor& t) { return numbers_.count(&t.node()) && !kept_.count(&t.node()); });
    for (const Tensor& t : order) emit(t);
    for (const auto& a : program_.assignments()) out_.assignments.push_back({buffer(a.state), buffer(a.value)});
    for (const Tensor& t : program_.observed()) out_.observed.push_back(buffer(t));
    if (tensors) *tensors = std::move(tensors_);
    return std::move(out_);
  }

 private:
  ir::BufferId buffer(const Tensor& t) const { return buffers_.at(&t.node()); }

  struct Number {
    double value = 0;
    bool tunable = false;
  };
  // C++ numbers, captured sizes and what is computed from them alone become constants of the bodies that read them;
  // where a tunable number is among them, leaves that are data.
  void note_number(const Node& node) {
    if (auto* random = std::get_if<RandomNode>(&node.kind)) kept_.insert(&random->step.node());
    if (!node.weak) return;
    if (auto* n = std::get_if<NumberNode>(&node.kind)) numbers_[&node] = {n->value, n->tunable};
    if (auto* n = std::get_if<SizeNode>(&node.kind)) numbers_[&node] = {double(inference_.size(n->dim)), false};
    if (const AccumulateNode* n = node.accumulate()) {
      std::vector<double> values;
      bool tunable = false;
      for (const auto& o : n->operands) {
        const Number& number = numbers_.at(&o.tensor.node());
        values.push_back(number.value), tunable = tunable || number.tunable;
      }
      numbers_[&node] = {ir::evaluate(*n->body, values, 0), tunable};
    }
  }

  // The precision to which an accumulation rounds the numbers that it reads; none where they meet integers.
  static std::optional<DType> precision_of_numbers(const Node& node, const AccumulateNode& n) {
    std::optional<DType> met;
    for (const auto& o : n.operands)
      if (!o.tensor.node().weak) met = met ? promote(*met, o.tensor.dtype()) : o.tensor.dtype();
    if (!met || !is_float(*met)) met = node.dtype;
    if (!is_float(*met)) return std::nullopt;
    const bool narrow = *met == DType::f16 || *met == DType::bf16;  // computed in f32, but compared as they are
    return narrow && node.dtype != DType::boolean ? DType::f32 : *met;
  }
  // The leaf that holds a tunable number in a precision; one for all that read it. Numbers that are compared are
  // rounded in every engine (dtype.h, rule 2).
  ir::BufferId number_leaf(const Tensor& number, double value, DType dtype, bool compared) {
    const auto [at, added] =
        number_leaves_.try_emplace({&number.node(), dtype, compared}, ir::BufferId(out_.buffers.size()));
    if (added) {
      ir::DataLeaf leaf{Array({}, {value}, dtype), compared ? std::nullopt : std::optional(value)};
      out_.buffers.push_back({unique(number.node().label), {}, dtype, std::move(leaf), number.node().where});
      tensors_.push_back(number);
    }
    return at->second;
  }

  std::string unique(std::string base) {
    if (names_.insert(base).second) return base;
    for (int& n = next_[base];;)
      if (std::string name = base + "." + std::to_string(++n); names_.insert(name).second) return name;
  }

  int symbol(const shape::SymbolRef& s) {
    auto [at, added] = symbols_.try_emplace(s.get(), int(out_.symbols.size()));
    if (added) {
      for (const ir::Symbol& other : out_.symbols)
        if (other.name == s->name)
          throw StateError("two different Index objects have the name `" + s->name + "`" + where_text(s->where) + ".");
      out_.symbols.push_back({s->name, s->range});
    }
    return at->second;
  }

  void emit(const Tensor& tensor) {
    const Node& node = tensor.node();
    ir::Buffer b;
    b.shape = inference_.shape(tensor);
    int64_t elements = 1;
    for (int64_t size : b.shape.sizes())
      if (__builtin_mul_overflow(elements, size, &elements) || elements > shape::kMaxSize)
        throw ShapeError("`" + describe(tensor) + "`" + where_text(node.where) + " would have the shape " +
                         to_string(b.shape) + ", which is more than 2^40 elements.");
    b.dtype = node.dtype;
    b.where = node.where;
    b.name = node.state() ? node.state()->name : unique(node.label.empty() ? "t" : node.label);
    b.kind = match(
        node.kind, [&](const StateNode&) -> ir::BufferKind { return ir::StateLeaf{}; },
        [&](const DataNode& n) -> ir::BufferKind { return ir::DataLeaf{n.array}; },
        [&](const NumberNode& n) -> ir::BufferKind {
          if (n.tunable) return ir::DataLeaf{Array({}, {n.value}, node.dtype), n.value};
          return ir::NumberLeaf{n.value};
        },
        [&](const IndexNode& n) -> ir::BufferKind { return ir::SymbolLeaf{symbol(n.symbol)}; },
        [&](const SizeNode& n) -> ir::BufferKind { return ir::NumberLeaf{double(inference_.size(n.dim))}; },
        [&](const IotaNode&) -> ir::BufferKind { return ir::IotaLeaf{}; },
        [&](const RandomNode& n) -> ir::BufferKind {
          return ir::RandomLeaf{n.stream, n.lane, n.width, buffer(n.step)};
        },
        [&](const AccumulateNode&) -> ir::BufferKind { return ir::Computed{}; });
    buffers_[&node] = ir::BufferId(out_.buffers.size());
    out_.buffers.push_back(std::move(b)), tensors_.push_back(tensor);
    if (const AccumulateNode* n = node.accumulate()) emit_accumulation(tensor, *n);
  }

  void bound(int symbol, int64_t size) {  // the symbol is an index of an axis of this size
    int64_t& range = out_.symbols[size_t(symbol)].range;
    range = range == 0 ? size : std::min(range, size);
  }
  // A slice bounds its index even if only its shape is used.
  void bound_symbols(const AccumulateNode& slice) {
    const shape::Projection projection = inference_.projection(slice);
    for (const AccumulateNode::Attached& operand : slice.operands) {
      const std::vector<int64_t> sizes = inference_.shape(operand.tensor).sizes();
      const std::vector<ir::Term>& terms = projection.slots[size_t(operand.slot)];
      for (size_t a = 0; a < terms.size(); ++a)
        for (const ir::Term::Part& part : terms[a].parts)
          if (part.kind == ir::Term::Part::Kind::symbol)
            bound(symbol(projection.symbols[size_t(part.which)]), sizes[a]);
    }
  }

  void emit_accumulation(const Tensor& tensor, const AccumulateNode& n) {
    shape::Projection projection = inference_.projection(n);
    ir::Accumulation out;
    out.target = buffer(tensor);
    out.accumulator = n.accumulator;
    out.iterators = projection.iterators;
    out.extents = projection.extents;
    out.where = projection.where;
    out.label = describe(tensor);
    out.source = tensor.node().where;

    std::vector<bool> needed = values_needed(n);
    std::vector<int> renamed(n.operands.size(), -1);  // operand of the node -> operand of the accumulation
    std::vector<int> slot_operand(n.link->relation->slots.size(), -1);
    std::vector<std::optional<ir::Body::Number>> constants(n.operands.size());
    const std::optional<DType> precision = precision_of_numbers(tensor.node(), n);
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const Tensor& operand = n.operands[i].tensor;
      if (!needed[i]) {
        if (const AccumulateNode* slice = operand.node().accumulate()) bound_symbols(*slice);
        continue;
      }
      const auto number = numbers_.find(&operand.node());
      const bool is_data = number != numbers_.end() && number->second.tunable && precision;
      if (number != numbers_.end() && !is_data) {
        constants[i] = {number->second.value, operand.dtype()};
        continue;
      }
      renamed[i] = int(out.operands.size());
      slot_operand[size_t(n.operands[i].slot)] = renamed[i];
      out.operands.push_back(
          {is_data ? number_leaf(operand, number->second.value, *precision, tensor.dtype() == DType::boolean)
                   : buffer(operand),
           {}});
    }
    auto localise = [&](const std::vector<ir::Term>& terms, const Shape& shape) {
      std::vector<ir::Term> result;
      std::vector<int64_t> sizes = shape.sizes();
      for (size_t a = 0; a < terms.size(); ++a) {
        ir::Term term = ir::Term::number(terms[a].constant);
        for (const ir::Term::Part& part : terms[a].parts) {
          int which = part.which;
          if (part.kind == ir::Term::Part::Kind::load) which = slot_operand[size_t(which)];
          if (part.kind == ir::Term::Part::Kind::symbol) {
            which = symbol(projection.symbols[size_t(which)]);
            bound(which, sizes[a]);
          }
          term.add(part.kind, which, part.coefficient);
        }
        result.push_back(std::move(term));
      }
      return result;
    };
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (renamed[i] >= 0)
        out.operands[size_t(renamed[i])].map =
            localise(projection.slots[size_t(n.operands[i].slot)], inference_.shape(n.operands[i].tensor));
    out.write = localise(projection.slots[size_t(n.written)], inference_.shape(tensor));
    std::vector<DType> dtypes;
    for (const ir::Operand& o : out.operands) dtypes.push_back(out_.buffers[size_t(o.buffer)].dtype);
    out.body =
        ir::typed(n.body->with_constants(constants).with_operands(renamed), dtypes, n.accumulator, tensor.node().dtype);
    if (keeps_position(n.accumulator))
      out.counted = n.counts_reduced ? projection.reduced : std::vector<bool>(projection.iterators.size(), true);
    out_.accumulations.push_back(std::move(out));
  }

  const Program& program_;
  const Inference& inference_;
  ir::Program out_;
  std::unordered_map<const Node*, ir::BufferId> buffers_;
  std::unordered_map<const shape::Symbol*, int> symbols_;
  std::vector<Tensor> tensors_;  // of the buffers
  std::unordered_map<const Node*, Number> numbers_;
  std::map<std::tuple<const Node*, DType, bool>, ir::BufferId> number_leaves_;
  std::set<const Node*> kept_;  // numbers that need a buffer all the same: roots and random steps
  std::set<std::string> names_;
  std::map<std::string, int> next_;
};

}  // namespace

ir::Program to_ir(const Program& program, const Inference& inference, std::vector<Tensor>* tensors) {
  return Emitter(program, inference).run(tensors);
}

}  // namespace caravan
