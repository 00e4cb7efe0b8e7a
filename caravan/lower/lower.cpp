#include "caravan/lower/lower.h"

#include <algorithm>
#include <functional>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"

namespace caravan::lower {

using namespace loop;
using ir::Accumulation;
using ir::BufferId;
using Part = Term::Part;

WriteForm write_form(const ir::Program& program, const Accumulation& a) {
  WriteForm form;
  form.outer.assign(a.iterators.size(), false);
  form.injective = form.covers = true;
  std::vector<int64_t> sizes = program.buffers[size_t(a.target)].shape.sizes();
  for (size_t axis = 0; axis < a.write.size(); ++axis) {
    const Term& term = a.write[axis];
    if (term.parts.empty() && term.constant == 0 && sizes[axis] == 1) continue;
    bool whole = false;
    for (const Part& part : term.parts) {
      bool own = part.kind == Part::Kind::iterator && term.parts.size() == 1 && !form.outer[size_t(part.which)];
      if (part.kind != Part::Kind::symbol) form.injective = form.injective && own;
      if (part.kind == Part::Kind::iterator) form.outer[size_t(part.which)] = true;
      whole = own && part.coefficient == 1 && term.constant == 0 && a.extents[size_t(part.which)] == sizes[axis];
    }
    form.covers = form.covers && whole;
  }
  form.covers = form.covers && form.injective;
  return form;
}

namespace {

bool in_memory(const ir::Buffer& buffer) {
  return std::holds_alternative<ir::StateLeaf>(buffer.kind) || std::holds_alternative<ir::DataLeaf>(buffer.kind) ||
         std::holds_alternative<ir::Computed>(buffer.kind);
}
// Narrow floats are computed with in f32.
DType wide(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

class KernelLowering {
 public:
  KernelLowering(ir::Program& program, const Accumulation& a) : program_(program), a_(a), form_(write_form(program, a)) {
    kernel_.name = program.buffers[size_t(a.target)].name;
    kernel_.comments.push_back(ir::to_string(program, a));
    kernel_.variables = a.iterators;
  }

  Kernel run() {
    if (!form_.covers) fill();
    if (form_.injective)
      lower_injective();
    else
      lower_scattered();
    return std::move(kernel_);
  }

 private:
  const ir::Buffer& buffer(BufferId id) const { return program_.buffers[size_t(id)]; }
  double neutral() const { return row(a_.accumulator).neutral; }
  bool keeps() const { return keeps_position(a_.accumulator); }

  Register make(DType dtype) {
    kernel_.registers.push_back(dtype);
    return Register(kernel_.registers.size()) - 1;
  }
  Register define(Block& block, DType dtype, Value value) {
    Register to = make(dtype);
    block.push_back(Define{to, std::move(value)});
    return to;
  }

  // Wraps `inner` in loops over the iterators, outermost first.
  Block nest(const std::vector<size_t>& iterators, Block inner) const {
    for (size_t k = iterators.size(); k-- > 0;) {
      Block outer;
      outer.push_back(For{Variable(iterators[k]), a_.extents[iterators[k]], LoopKind::serial, std::move(inner)});
      inner = std::move(outer);
    }
    return inner;
  }
  static Block guarded(std::vector<Term> where, Block inner) {
    if (where.empty()) return inner;
    Block out;
    out.push_back(If{std::move(where), std::move(inner)});
    return out;
  }
  static void append(Block& to, Block from) { to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end())); }

  // sum of stride * term, with loads as registers
  Term offset(BufferId id, const std::vector<Term>& map, const std::vector<Register>& ids) const {
    std::vector<int64_t> sizes = buffer(id).shape.sizes();
    Term out;
    int64_t stride = 1;
    for (size_t axis = map.size(); axis-- > 0; stride *= sizes[axis]) out = out + with_registers(map[axis], ids) * stride;
    return out;
  }
  static Term with_registers(const Term& term, const std::vector<Register>& ids) {
    Term out = Term::number(term.constant);
    for (const Part& part : term.parts) out.add(part.kind, part.kind == Part::Kind::load ? ids[size_t(part.which)] : part.which, part.coefficient);
    return out;
  }

  // The registers of the index tensors that terms mention, and the guards that keep their accesses inside.
  std::vector<Register> read_ids(Block& block, std::vector<Term>& guards) {
    std::vector<Register> ids(a_.operands.size(), -1);
    auto visit = [&](BufferId id, const std::vector<Term>& map) {
      std::vector<int64_t> sizes = buffer(id).shape.sizes();
      for (size_t axis = 0; axis < map.size(); ++axis) {
        if (!map[axis].has_load()) continue;
        for (const Part& part : map[axis].parts) {
          if (part.kind != Part::Kind::load || ids[size_t(part.which)] >= 0) continue;
          const ir::Operand& operand = a_.operands[size_t(part.which)];
          Register value = read(block, operand, ids);
          ids[size_t(part.which)] = kernel_.registers[size_t(value)] == DType::i64 ? value : define(block, DType::i64, Cast{value});
        }
        Term index = with_registers(map[axis], ids);
        guards.push_back(index);
        guards.push_back(Term::number(sizes[axis] - 1) - index);
      }
    };
    for (const ir::Operand& operand : a_.operands) visit(operand.buffer, operand.map);
    visit(a_.target, a_.write);
    return ids;
  }

  Register read(Block& block, const ir::Operand& operand, const std::vector<Register>& ids) {
    const ir::Buffer& from = buffer(operand.buffer);
    DType dtype = wide(from.dtype);
    if (in_memory(from)) return define(block, dtype, Load{operand.buffer, offset(operand.buffer, operand.map, ids)});
    if (auto* n = std::get_if<ir::NumberLeaf>(&from.kind)) return define(block, dtype, Constant{n->value});
    if (auto* s = std::get_if<ir::SymbolLeaf>(&from.kind)) return define(block, dtype, IndexValue{Term::symbol(s->symbol)});
    if (std::holds_alternative<ir::IotaLeaf>(from.kind)) return define(block, dtype, IndexValue{offset(operand.buffer, operand.map, ids)});
    const auto& random = std::get<ir::RandomLeaf>(from.kind);
    Register step = read(block, {random.step, {}}, ids);
    if (kernel_.registers[size_t(step)] != DType::i64) step = define(block, DType::i64, Cast{step});
    return define(block, dtype, RandomValue{operand.buffer, offset(operand.buffer, operand.map, ids), step});
  }

  // The position of this point among the iterators that count.
  Term position(const std::vector<bool>& counted) const {
    Term out;
    int64_t stride = 1;
    for (size_t k = a_.extents.size(); k-- > 0;)
      if (counted[k]) out.add(Part::Kind::iterator, int(k), stride), stride *= a_.extents[k];
    return out;
  }

  Register lower_body(Block& block, const std::vector<Register>& ids) {
    std::vector<DType> dtypes;
    for (const ir::Operand& o : a_.operands) dtypes.push_back(wide(buffer(o.buffer).dtype));
    std::vector<ir::EntryType> types = ir::types_of(a_.body, dtypes, {});
    std::vector<Register> at;
    for (size_t e = 0; e < types.size(); ++e) {
      const ir::Scalar& entry = a_.body.entries()[e];
      DType dtype = types[e].weak ? DType::f64 : wide(types[e].dtype);  // a weak number keeps all its digits until it meets a precision
      switch (entry.kind) {
        case ir::Scalar::Kind::constant: at.push_back(define(block, DType::f64, Constant{entry.constant})); break;
        case ir::Scalar::Kind::load: at.push_back(read(block, a_.operands[size_t(entry.operand)], ids)); break;
        case ir::Scalar::Kind::position: at.push_back(define(block, DType::i64, IndexValue{position(std::vector<bool>(a_.extents.size(), true))})); break;
        case ir::Scalar::Kind::cast: at.push_back(define(block, wide(entry.dtype), Cast{at[size_t(entry.args[0])]})); break;
        case ir::Scalar::Kind::apply: at.push_back(lower_apply(block, entry, types, at, dtype)); break;
      }
    }
    return at.back();
  }
  Register lower_apply(Block& block, const ir::Scalar& entry, const std::vector<ir::EntryType>& types, const std::vector<Register>& at, DType dtype) {
    const OpRow& facts = row(entry.op);
    DType compute = dtype;
    if (facts.result == ResultType::logic) {  // compared in what the operands promote to
      std::optional<DType> met;
      bool fraction = false;
      for (int k = 0; k < facts.arity; ++k) {
        const ir::EntryType& type = types[size_t(entry.args[k])];
        if (type.weak) fraction = fraction || is_float(type.dtype);
        else met = met ? promote(*met, type.dtype) : type.dtype;
      }
      compute = wide(met.value_or(DType::f64));
      if (fraction && !is_float(compute)) compute = DType::f64;
    }
    Apply apply{entry.op, compute, {}};
    for (int k = 0; k < facts.arity; ++k) apply.args[k] = at[size_t(entry.args[k])];
    return define(block, dtype, apply);
  }

  void fill() {
    std::vector<int64_t> sizes = buffer(a_.target).shape.sizes();
    Variable variable = Variable(kernel_.variables.size());
    kernel_.variables.push_back("e");
    auto loop_over = [&](BufferId id, double value) {
      Block body;
      Register r = define(body, wide(buffer(id).dtype), Constant{value});
      body.push_back(Store{id, Term::iterator(variable), r});
      kernel_.body.push_back(For{variable, buffer(id).shape.elements(), LoopKind::serial, std::move(body)});
    };
    loop_over(a_.target, neutral());
    (void)sizes;
  }

  void split_iterators(std::vector<size_t>& outer, std::vector<size_t>& inner) const {
    for (const Term& term : a_.write)  // in the order of memory
      for (const Part& part : term.parts)
        if (part.kind == Part::Kind::iterator) outer.push_back(size_t(part.which));
    for (size_t k = 0; k < a_.iterators.size(); ++k)
      if (!form_.outer[k]) inner.push_back(k);
  }
  bool only_outer(const Term& term) const {
    return std::all_of(term.parts.begin(), term.parts.end(), [&](const Part& p) { return p.kind == Part::Kind::symbol || (p.kind == Part::Kind::iterator && form_.outer[size_t(p.which)]); });
  }

  void lower_injective() {
    std::vector<size_t> outer, inner;
    split_iterators(outer, inner);
    std::vector<Term> outer_where, inner_where;
    for (const Term& term : a_.where) (only_outer(term) ? outer_where : inner_where).push_back(term);

    DType dtype = wide(buffer(a_.target).dtype);
    Block point, inside;  // one point of the inner box
    std::vector<Register> ids = read_ids(point, inner_where);
    Term to = offset(a_.target, a_.write, ids);
    Register value = lower_body(inside, ids);
    Block row_block;
    if (keeps()) {
      Register best = make(kernel_.registers[size_t(value)]), kept = make(dtype);
      inside.push_back(CombineFirst{best, kept, a_.accumulator, value, position(a_.counted)});
      append(point, guarded(inner_where, std::move(inside)));
      row_block.push_back(Reset{best, 0});
      row_block.push_back(Reset{kept, neutral()});
      append(row_block, guarded(form_.covers ? outer_where : std::vector<Term>{}, nest(inner, std::move(point))));
      row_block.push_back(Store{a_.target, to, kept});
    } else if (inner.empty() && inner_where.empty() && (!form_.covers || outer_where.empty())) {
      row_block = std::move(inside);
      row_block.push_back(Store{a_.target, to, value});
    } else {
      Register total = make(dtype);
      inside.push_back(Combine{total, a_.accumulator, value});
      append(point, guarded(inner_where, std::move(inside)));
      row_block.push_back(Reset{total, neutral()});
      append(row_block, guarded(form_.covers ? outer_where : std::vector<Term>{}, nest(inner, std::move(point))));
      row_block.push_back(Store{a_.target, to, total});
    }
    if (!form_.covers) row_block = guarded(outer_where, std::move(row_block));
    append(kernel_.body, nest(outer, std::move(row_block)));
  }

  void lower_scattered() {
    std::vector<size_t> all;
    for (size_t k = 0; k < a_.iterators.size(); ++k) all.push_back(k);
    std::vector<Term> where = a_.where;
    Block point, inside;
    std::vector<Register> ids = read_ids(point, where);
    Register value = lower_body(inside, ids);
    Term to = offset(a_.target, a_.write, ids);
    if (keeps()) {
      ir::Buffer best{buffer(a_.target).name + ".best", buffer(a_.target).shape, kernel_.registers[size_t(value)], ir::Computed{}, a_.source};
      program_.buffers.push_back(best);
      inside.push_back(StoreFirst{a_.target, BufferId(program_.buffers.size()) - 1, to, a_.accumulator, value, position(a_.counted)});
    } else {
      inside.push_back(StoreCombine{a_.target, to, a_.accumulator, value});
    }
    append(point, guarded(where, std::move(inside)));
    append(kernel_.body, nest(all, std::move(point)));
  }

  ir::Program& program_;
  const Accumulation& a_;
  WriteForm form_;
  Kernel kernel_;
};

}  // namespace

Module lower(const ir::Program& program) {
  Module module;
  module.program = program;
  for (const Accumulation& a : program.accumulations) module.kernels.push_back(KernelLowering(module.program, a).run());
  return module;
}

}  // namespace caravan::lower
