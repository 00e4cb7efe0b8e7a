// Solved programs as accumulations over buffers: from here on there are no tensors.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "caravan/base/error.h"
#include "caravan/tensor/infer.h"

namespace caravan {

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
          throw StateError("two different Index objects have the name `" + s->name + "`" + where_text(s->where) + ".",
                           s->where);
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
                             to_string(b.shape) + ", which is more than 2^40 elements.",
                         node.where);
    b.dtype = node.dtype;
    b.where = node.where;
    b.name = node.state() ? node.state()->name : unique(node.label.empty() ? "t" : node.label);
    b.kind = match(
        node.kind, [&](const StateNode& n) -> ir::BufferKind { return ir::StateLeaf{n.owner != nullptr}; },
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
    for (const PlacedAxis& p : node.placed)
      out_.placements.push_back({buffers_[&node], memory_axis(tensor, b.shape, p), p.mesh_axis});
    out_.buffers.push_back(std::move(b)), tensors_.push_back(tensor);
    if (const AccumulateNode* n = node.accumulate()) emit_accumulation(tensor, *n);
  }

  static size_t memory_axis(const Tensor& tensor, const Shape& shape, const PlacedAxis& placed) {
    if (placed.axis >= shape[placed.row].size())
      throw ShapeError("`place` on `" + placed.mesh_axis + "`" + where_text(placed.where) + ": `" + describe(tensor) +
                           "` has the shape " + to_string(shape) + ", which has no " + std::string(name(placed.row)) +
                           " axis " + std::to_string(placed.axis) + " (axes are numbered from 0).",
                       placed.where);
    size_t out = placed.axis;
    for (RowKind kind : kMemoryOrder) {
      if (kind == placed.row) break;
      out += shape[kind].size();
    }
    return out;
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
