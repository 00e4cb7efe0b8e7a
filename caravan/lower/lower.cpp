#include "caravan/lower/lower.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/ir/print.h"
#include "caravan/ir/write_form.h"
#include "caravan/ops/table.h"

namespace caravan::lower {

using namespace loop;
using ir::Accumulation;
using ir::BufferId;
using ir::WriteForm;
using Part = Term::Part;

namespace {

// Replaces iterators of extent 1 by 0. They need no loop.
Accumulation without_single(Accumulation a) {
  auto clear = [&](Term& term) {
    std::erase_if(term.parts, [&](const Part& part) {
      return part.kind == Part::Kind::iterator && a.extents[size_t(part.which)] == 1;
    });
  };
  std::for_each(a.where.begin(), a.where.end(), clear);
  std::for_each(a.write.begin(), a.write.end(), clear);
  for (ir::Operand& operand : a.operands) std::for_each(operand.map.begin(), operand.map.end(), clear);
  return a;
}

// A bool is stored as a byte 0 or 1. So a sum into a bool becomes `or`, and a product becomes `and`.
Accumulation without_sums_of_bool(const ir::Program& program, Accumulation a) {
  if (program.buffers[size_t(a.target)].dtype != DType::boolean) return a;
  if (a.accumulator == Accumulator::mul) a.accumulator = Accumulator::and_;
  if (a.accumulator == Accumulator::add) a.accumulator = Accumulator::or_, a.order = {};
  return a;
}

class KernelLowering {
 public:
  KernelLowering(ir::Program& program, const Accumulation& a)
      : program_(program), a_(without_single(a)), form_(write_form(program, a)) {
    form_.covers = form_.covers || a.part;  // it writes its whole slice of the target
    kernel_.name = program.buffers[size_t(a.target)].name;
    kernel_.variables = a.iterators;
  }

  Kernel run() {
    if (form_.injective)
      lower_injective();
    else
      lower_scattered();
    return std::move(kernel_);
  }

 private:
  const ir::Buffer& buffer(BufferId id) const { return program_.buffers[size_t(id)]; }
  double neutral() const { return caravan::neutral(a_.accumulator, buffer(a_.target).dtype); }
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

  // Wraps `inner` in loops over the iterators, outermost first, and in guards, each as far out as its iterators allow.
  Block nest(const std::vector<size_t>& iterators, const std::vector<Term>& guards, Block inner) const {
    std::vector<std::vector<Term>> within(iterators.size() + 1);  // guards by the number of loops around them
    for (const Term& guard : guards) {
      size_t depth = iterators.size();
      while (depth > 0 && !guard.mentions(int(iterators[depth - 1]))) --depth;
      within[depth].push_back(guard);
    }
    for (size_t k = iterators.size(); k-- > 0;) {
      inner = guarded(std::move(within[k + 1]), std::move(inner));
      if (a_.extents[iterators[k]] == 1) continue;
      Block outer;
      For loop{Variable(iterators[k]), a_.extents[iterators[k]], LoopKind::serial, std::move(inner)};
      if (a_.order.lanes == int(iterators[k])) loop.lanes = a_.order.width;
      for (const ir::SumOrder::Block& block : a_.order.blocks)
        if (block.iterator == int(iterators[k])) loop.blocks.push_back(block.size);
      outer.push_back(std::move(loop));
      inner = std::move(outer);
    }
    return guarded(std::move(within[0]), std::move(inner));
  }
  static Block guarded(std::vector<Term> where, Block inner) {
    if (where.empty()) return inner;
    Block out;
    out.push_back(If{std::move(where), std::move(inner)});
    return out;
  }
  static void append(Block& to, Block from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }

  // The offset in memory: the sum of stride * term over the axes, with index tensors as registers.
  Term offset(BufferId id, const std::vector<Term>& map, const std::vector<Register>& ids) const {
    std::vector<int64_t> sizes = buffer(id).shape.sizes();
    Term out;
    int64_t stride = 1;
    for (size_t axis = map.size(); axis-- > 0; stride *= sizes[axis])
      out = out + with_registers(map[axis], ids) * stride;
    return out;
  }
  static Term with_registers(const Term& term, const std::vector<Register>& ids) {
    Term out = Term::number(term.constant);
    for (const Part& part : term.parts)
      out.add(part.kind, part.kind == Part::Kind::load ? ids[size_t(part.which)] : part.which, part.coefficient);
    return out;
  }

  // Statements that come before the body of a point, and the guards under which the next gate, or the body, runs.
  struct Gate {
    Block statements;
    std::vector<Term> guards;
  };
  // The gates before a body: first `where`, then the index tensors, each read where its own access is in range.
  std::vector<Gate> gates(std::vector<Term> where, std::vector<Register>& ids) {
    std::vector<Gate> out(1);
    std::vector<Term> late;  // conditions on the values of index tensors
    for (Term& term : where) (term.has_load() ? late : out[0].guards).push_back(std::move(term));

    std::vector<const Term*> indices;  // indices that contain the value of an index tensor
    std::vector<int64_t> sizes;
    auto visit = [&](BufferId id, const std::vector<Term>& map) {
      std::vector<int64_t> all = buffer(id).shape.sizes();
      for (size_t axis = 0; axis < map.size(); ++axis)
        if (map[axis].has_load()) indices.push_back(&map[axis]), sizes.push_back(all[axis]);
    };
    std::vector<bool> is_id(a_.operands.size(), false);
    auto mark = [&](const std::vector<Term>& terms) {
      for (const Term& term : terms)
        for (const Part& part : term.parts)
          if (part.kind == Part::Kind::load) is_id[size_t(part.which)] = true;
    };
    mark(a_.where), mark(a_.write);
    for (const ir::Operand& operand : a_.operands) mark(operand.map);
    for (size_t k = 0; k < a_.operands.size(); ++k)
      if (is_id[k] || a_.body.reads(int(k))) visit(a_.operands[k].buffer, a_.operands[k].map);
    visit(a_.target, a_.write);

    ids.assign(a_.operands.size(), -1);
    auto known = [&](const Term& term) {
      return std::all_of(term.parts.begin(), term.parts.end(), [&](const Part& part) {
        return part.kind != Part::Kind::load || ids[size_t(part.which)] >= 0;
      });
    };
    std::vector<bool> guarded(indices.size(), false);
    for (size_t left = size_t(std::count(is_id.begin(), is_id.end(), true)); left > 0;) {
      Gate gate;
      const std::vector<Register> before = ids;
      for (size_t k = 0; k < ids.size(); ++k) {
        const auto& map = a_.operands[k].map;
        const bool ready = std::all_of(map.begin(), map.end(), [&](const Term& term) {
          return std::all_of(term.parts.begin(), term.parts.end(), [&](const Part& part) {
            return part.kind != Part::Kind::load || before[size_t(part.which)] >= 0;
          });
        });
        if (!is_id[k] || ids[k] >= 0 || !ready) continue;
        Register value = read(gate.statements, a_.operands[k], before);
        ids[k] = kernel_.registers[size_t(value)] == DType::i64
                     ? value
                     : define(gate.statements, DType::i64, Cast{value, DType::i64});
        --left;
      }
      CARAVAN_CHECK(ids != before, "index tensors read each other in " + ir::to_string(program_, a_));
      for (size_t i = 0; i < indices.size(); ++i) {
        if (guarded[i] || !known(*indices[i])) continue;
        guarded[i] = true;
        Term index = with_registers(*indices[i], ids);
        gate.guards.push_back(index);
        gate.guards.push_back(Term::number(sizes[i] - 1) - index);
      }
      out.push_back(std::move(gate));
    }
    for (const Term& term : late) out.back().guards.push_back(with_registers(term, ids));
    return out;
  }
  static bool plain(const std::vector<Gate>& gates) { return gates.size() == 1 && gates[0].guards.empty(); }
  static Block inside(std::vector<Gate> gates, Block body) {
    for (size_t k = gates.size(); k-- > 0;) {
      Block outer = std::move(gates[k].statements);
      append(outer, guarded(std::move(gates[k].guards), std::move(body)));
      body = std::move(outer);
    }
    return body;
  }

  // Conditions on iterators alone are placed as far out as possible, the others directly around the body.
  Block nest(const std::vector<size_t>& iterators, std::vector<Gate> gates, Block point) const {
    const std::vector<Term> guards = std::exchange(gates[0].guards, {});
    return nest(iterators, guards, inside(std::move(gates), std::move(point)));
  }

  Register read(Block& block, const ir::Operand& operand, const std::vector<Register>& ids) {
    const ir::Buffer& from = buffer(operand.buffer);
    DType dtype = wide(from.dtype);
    if (in_memory(from)) return define(block, dtype, Load{operand.buffer, offset(operand.buffer, operand.map, ids)});
    if (auto* n = std::get_if<ir::NumberLeaf>(&from.kind))
      return define(block, dtype, Constant{convert(from.dtype, n->value)});
    if (auto* s = std::get_if<ir::SymbolLeaf>(&from.kind))
      return define(block, dtype, IndexValue{Term::symbol(s->symbol)});
    if (std::holds_alternative<ir::IotaLeaf>(from.kind))
      return define(block, dtype, IndexValue{offset(operand.buffer, operand.map, ids)});
    const auto& random = std::get<ir::RandomLeaf>(from.kind);
    Register step = read(block, {random.step, {}}, ids);
    if (kernel_.registers[size_t(step)] != DType::i64) step = define(block, DType::i64, Cast{step, DType::i64});
    return define(block, dtype, RandomValue{operand.buffer, offset(operand.buffer, operand.map, ids), step});
  }

  bool has_few_positions() const {
    int64_t count = 1;
    for (size_t k = 0; k < a_.extents.size(); ++k)
      if (a_.counted[k] && __builtin_mul_overflow(count, a_.extents[k], &count)) return false;
    return count <= std::numeric_limits<int32_t>::max();
  }
  // The linear position of this point in the box of the counted iterators.
  Term position(const std::vector<bool>& counted) const {
    Term out;
    int64_t stride = 1;
    for (size_t k = a_.extents.size(); k-- > 0;)
      if (counted[k] && a_.extents[k] != 1) out.add(Part::Kind::iterator, int(k), stride), stride *= a_.extents[k];
    return out;
  }

  Register lower_body(Block& block, const std::vector<Register>& ids) {
    std::vector<DType> dtypes;
    for (const ir::Operand& o : a_.operands) dtypes.push_back(buffer(o.buffer).dtype);
    std::vector<ir::EntryType> types = ir::types_of(a_.body, dtypes, {});
    std::vector<Register> at;
    for (size_t e = 0; e < types.size(); ++e) {
      const ir::Scalar& entry = a_.body.entries()[e];
      switch (entry.kind) {
        case ir::Scalar::Kind::constant: at.push_back(define(block, DType::f64, Constant{entry.constant})); break;
        case ir::Scalar::Kind::load: at.push_back(read(block, a_.operands[size_t(entry.operand)], ids)); break;
        case ir::Scalar::Kind::position:
          at.push_back(define(block, DType::i64, IndexValue{position(std::vector<bool>(a_.extents.size(), true))}));
          break;
        case ir::Scalar::Kind::cast:
          at.push_back(define(block, wide(entry.dtype), Cast{at[size_t(entry.args[0])], entry.dtype}));
          break;
        case ir::Scalar::Kind::apply: {
          Apply apply{entry.op, wide(types[e].compute), {-1, -1, -1}};
          for (int k = 0; k < row(entry.op).arity; ++k) apply.args[k] = at[size_t(entry.args[k])];
          // A weak number (dtype.h, rule 2) stays f64 until it is combined with a value of another precision.
          at.push_back(define(block, types[e].weak ? DType::f64 : wide(types[e].dtype), apply));
          break;
        }
      }
    }
    return at.back();
  }

  // Adds the value to the total: if the products of the sum are fused, its two factors.
  Combine combined(Register total, Register value, Block& point) {
    if (a_.order.fused && !point.empty()) {
      auto* define = std::get_if<Define>(&point.back());
      auto* product = define && define->to == value ? std::get_if<Apply>(&define->value) : nullptr;
      const DType dtype = kernel_.registers[size_t(total)];
      auto fits = [&](Register r) { return kernel_.registers[size_t(r)] == dtype; };
      if (product && product->op == Op::mul && product->compute == dtype && fits(product->args[0]) &&
          fits(product->args[1])) {
        const Register factors[2] = {product->args[0], product->args[1]};
        point.pop_back();
        return {total, a_.accumulator, factors[0], factors[1]};
      }
    }
    return {total, a_.accumulator, value};
  }

  void fill(BufferId id) {
    const Variable e = fresh_variable();
    Block body;
    Register r = define(body, wide(buffer(id).dtype), Constant{neutral()});
    body.push_back(Store{id, Term::iterator(e), r});
    statements(kernel_).push_back(For{e, buffer(id).shape.elements(), LoopKind::serial, std::move(body)});
  }
  Variable fresh_variable() {
    kernel_.variables.push_back("e");
    return Variable(kernel_.variables.size()) - 1;
  }
  // Adds a scratch buffer with the shape of the target.
  BufferId scratch(const char* suffix, DType dtype) {
    ir::Buffer made{buffer(a_.target).name + suffix, buffer(a_.target).shape, dtype, ir::Computed{}, a_.source};
    program_.buffers.push_back(std::move(made));
    return BufferId(program_.buffers.size()) - 1;
  }

  void split_iterators(std::vector<size_t>& outer, std::vector<size_t>& inner) const {
    for (const Term& term : a_.write)  // in the order of memory
      for (const Part& part : term.parts)
        if (part.kind == Part::Kind::iterator &&
            std::find(outer.begin(), outer.end(), size_t(part.which)) == outer.end())
          outer.push_back(size_t(part.which));
    inner = reduced_iterators(a_, form_);
  }
  bool only_outer(const Term& term) const {
    return std::all_of(term.parts.begin(), term.parts.end(), [&](const Part& p) {
      return p.kind == Part::Kind::symbol || (p.kind == Part::Kind::iterator && form_.outer[size_t(p.which)]);
    });
  }

  // The bounds of the write map that follow neither from the extents of the iterators nor from these conditions.
  std::vector<Term> open_bounds(const std::vector<Term>& where) const {
    std::vector<Term> out;
    const std::vector<int64_t> sizes = buffer(a_.target).shape.sizes();
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      for (const Term& bound : {a_.write[axis], Term::number(sizes[axis] - 1) - a_.write[axis]})
        if (!holds(bound, where)) out.push_back(bound);
    return out;
  }
  bool holds(const Term& term, const std::vector<Term>& where) const {
    std::vector<int64_t> symbol_ranges;
    for (const ir::Symbol& symbol : program_.symbols) symbol_ranges.push_back(symbol.range);
    return ir::is_nonnegative(term, where, a_.extents, symbol_ranges);
  }

  void lower_injective() {
    if (!form_.covers) fill(a_.target);
    std::vector<size_t> outer, inner;
    split_iterators(outer, inner);
    std::vector<Term> outer_where, inner_where;
    for (const Term& term : a_.where) (only_outer(term) ? outer_where : inner_where).push_back(term);

    // Elements outside `outer_where` must get the neutral element. If the accumulation does not cover its target, the
    // fill has stored it, and `outer_where` guards the store. If it covers it, every element is stored, and the
    // conditions guard only the reduction, whose accumulator starts with the neutral element.
    std::vector<Term> store_where = open_bounds(form_.covers ? std::vector<Term>{} : outer_where), reduce_where;
    for (Term& term : outer_where)
      if (!form_.covers)
        store_where.push_back(std::move(term));
      else if (!holds(term, store_where))
        reduce_where.push_back(std::move(term));

    const DType dtype = wide(buffer(a_.target).dtype);
    std::vector<Register> ids;
    std::vector<Gate> before = gates(std::move(inner_where), ids);
    const Term to = offset(a_.target, a_.write, ids);
    Block point, row_block;
    const Register value = lower_body(point, ids);
    const bool at_once = inner.empty() && plain(before) && reduce_where.empty();
    auto reduction = [&] { return guarded(reduce_where, nest(inner, std::move(before), std::move(point))); };
    if (keeps()) {
      // Positions are counted in i32 where they fit, so that a vector has as many of them as of values.
      const Register best = make(kernel_.registers[size_t(value)]),
                     kept = make(has_few_positions() ? DType::i32 : dtype);
      point.push_back(CombineFirst{best, kept, a_.accumulator, value, position(a_.counted)});
      row_block.push_back(Reset{best, 0});
      row_block.push_back(Reset{kept, neutral()});
      append(row_block, reduction());
      // A u8 holds all of them (ir::verify), so that they need no conversion that saturates.
      const Register stored = dtype == DType::u8 ? kept : define(row_block, dtype, Cast{kept, dtype});
      row_block.push_back(Store{a_.target, to, stored});
    } else if (at_once) {
      row_block = std::move(point);
      row_block.push_back(Store{a_.target, to, value});
    } else {
      Register total = make(dtype);
      point.push_back(combined(total, value, point));
      row_block.push_back(Reset{total, neutral()});
      append(row_block, reduction());
      row_block.push_back(Store{a_.target, to, total});
    }
    append(statements(kernel_), nest(outer, store_where, std::move(row_block)));
  }

  // For write maps that are not injective: totals are accumulated in memory, those of f16 and bf16 in a scratch buffer
  // of f32.
  void lower_scattered() {
    const DType dtype = buffer(a_.target).dtype;
    const BufferId totals = wide(dtype) == dtype ? a_.target : scratch(".total", wide(dtype));
    fill(totals);
    std::vector<size_t> all;
    for (size_t k = 0; k < a_.iterators.size(); ++k) all.push_back(k);
    std::vector<Register> ids;
    std::vector<Gate> before = gates(a_.where, ids);
    Block point;
    const Register value = lower_body(point, ids);
    const Term to = offset(a_.target, a_.write, ids);
    if (keeps()) {
      const BufferId best = scratch(".best", kernel_.registers[size_t(value)]);
      point.push_back(StoreFirst{a_.target, best, to, a_.accumulator, value, position(a_.counted)});
    } else {
      point.push_back(StoreCombine{totals, to, a_.accumulator, value});
    }
    append(statements(kernel_), nest(all, std::move(before), std::move(point)));
    if (totals == a_.target) return;
    const Variable e = fresh_variable();
    Block narrow;
    Register total = define(narrow, wide(dtype), Load{totals, Term::iterator(e)});
    narrow.push_back(Store{a_.target, Term::iterator(e), total});
    statements(kernel_).push_back(For{e, buffer(a_.target).shape.elements(), LoopKind::serial, std::move(narrow)});
  }

  ir::Program& program_;
  const Accumulation a_;  // without iterators of extent 1
  WriteForm form_;        // with them: an axis of size 1 that is written is not a sum over one term
  Kernel kernel_;
};

LibraryCall call_of(const ir::Program& program, const Accumulation& a) {
  const LibraryCall::Collective::Value value{a.accumulator, ir::stripes_of_slice(program, a)};
  return {LibraryCall::Collective{*a.collective, {value}}, {a.target}, {a.operands[0].buffer}};
}

// If collectives compute the buffer: what they read.
std::vector<BufferId> sources(const Module& module, BufferId id) {
  std::vector<BufferId> out;
  for (size_t k = module.collectives.size(); k-- > 0;)
    if (module.collectives[k].writes[0] == id) out.push_back(id = module.collectives[k].reads[0]);
  return out;
}

}  // namespace

Module lower(const ir::Program& program) {
  ir::Program extended = program;  // with the scratch buffers that lowering adds
  Module module;
  for (const Accumulation& a : program.accumulations) {
    if (a.collective) {
      module.collectives.push_back(call_of(program, a));
      continue;
    }
    Kernel kernel = KernelLowering(extended, without_sums_of_bool(program, a)).run();
    kernel.comments.push_back(ir::readable(program, a));
    kernel.origins.push_back(a.source.known() ? a.label + ", " + to_string(a.source) : a.label);
    if (a.after != -1) kernel.after.push_back(a.after);
    for (const ir::Operand& o : a.operands)
      for (const BufferId id : sources(module, o.buffer)) kernel.after.push_back(id);
    module.kernels.push_back(std::move(kernel));
  }
  module.name = program.name, module.symbols = program.symbols, module.buffers = std::move(extended.buffers);
  module.assignments = program.assignments, module.observed = program.observed;
  for (const LibraryCall& call : module.collectives) {
    module.observed.push_back(call.reads[0]);
    module.buffers[size_t(call.writes[0])].kind = ir::DataLeaf{};
  }
  return module;
}

}  // namespace caravan::lower
