#include "caravan/schedule/contraction_nest.h"

#include <algorithm>
#include <map>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::schedule {

using namespace loop;
using Part = Term::Part;

namespace {

using Loop = ContractionNest::Loop;

// A block of definitions around one loop: the loop, or null if the block has another form. Appends the definitions.
const For* only_loop(const Block& block, Block& definitions) {
  const For* loop = after_definitions<For>(block);
  if (loop) definitions.insert(definitions.end(), block.begin(), block.end() - 1);
  return loop;
}

// The block inside of guards, if it has definitions and then one guard; else the block itself. Appends what is around.
const Block& within_guards(const Block& block, Block& definitions, std::vector<Term>& guards) {
  const If* guard = after_definitions<If>(block);
  if (!guard) return block;
  definitions.insert(definitions.end(), block.begin(), block.end() - 1);
  guards.insert(guards.end(), guard->where.begin(), guard->where.end());
  return within_guards(guard->body, definitions, guards);
}

// The statements of the innermost block around the sum.
struct Sum {
  Register total = -1;
  const For* loop = nullptr;
  std::vector<Term> guards{};  // around the loop
  Block before{}, after{};
};
std::optional<Sum> sum_in(const Block& block) {
  Sum out;
  for (const Statement& s : block) {
    const bool fits = match(
        s, [&](const Define&) { return (out.loop ? out.after : out.before).push_back(s), true; },
        [&](const Reset& r) {
          if (out.loop) return out.after.push_back(s), true;  // of a sum of one term, such as a bias' gradient
          if (out.total >= 0 || r.value != 0) return false;
          out.total = r.to;
          return true;
        },
        [&](const For& f) {
          if (out.loop || out.total < 0) return false;
          out.loop = &f;
          return true;
        },
        [&](const If& guard) {
          if (out.loop || out.total < 0) return false;
          out.guards = guard.where;
          out.loop = only_loop(within_guards(guard.body, out.before, out.guards), out.before);
          return out.loop != nullptr;
        },
        [&](const Combine& c) { return out.loop && c.to != out.total ? (out.after.push_back(s), true) : false; },
        [&](const Store&) { return out.loop ? (out.after.push_back(s), true) : false; },
        [](const OneOf<CombineFirst, StoreCombine, StoreFirst, Move, Barrier, Prefetch> auto&) { return false; });
    if (!fits) return std::nullopt;
  }
  return out.loop ? std::optional(std::move(out)) : std::nullopt;
}

// By register: the loop variables that its value depends on.
std::map<Register, std::set<Variable>> dependence_of(const Block& definitions) {
  std::map<Register, std::set<Variable>> out;
  for (const Statement& s : definitions) {
    std::set<Variable>& variables = out[std::get<Define>(s).to];
    for_each_term(s, [&](const Term& term) {
      for (const Part& part : term.parts)
        if (part.kind == Part::Kind::iterator) variables.insert(part.which);
    });
    for_each_use(s, [&](Register r) {
      if (auto at = out.find(r); at != out.end()) variables.insert(at->second.begin(), at->second.end());
    });
  }
  return out;
}

// Makes one loop of two, `inner` with more iterations, if wherever one is used, an iteration of the outer one is as far
// as all iterations of the inner one.
class LoopMerger {
 public:
  explicit LoopMerger(ContractionNest& nest) : nest_(nest) {}

  void run() {
    for (Loop* into : {&nest_.row, &nest_.column}) {
      const bool rows = into == &nest_.row;
      for (size_t k = nest_.outer.size(); k-- > 0;)
        if (nest_.outer[k].is_row == rows && nest_.outer[k].is_column != rows && merge(nest_.outer[k], *into))
          nest_.outer.erase(nest_.outer.begin() + std::ptrdiff_t(k));
    }
    for (size_t k = nest_.outer.size(); k-- > 1;) {
      Loop &around = nest_.outer[k - 1], &inside = nest_.outer[k];
      if (around.is_row != inside.is_row || around.is_column != inside.is_column || !merge(around, inside)) continue;
      nest_.outer.erase(nest_.outer.begin() + std::ptrdiff_t(k) - 1);
    }
    for (size_t k = nest_.terms.size(); k-- > 1;) {
      const int64_t extent = nest_.terms[k].extent;
      int64_t &around = nest_.term_blocks[k - 1], &inside = nest_.term_blocks[k];
      const bool same_order = inside == 0 || (around == 0 && extent % inside == 0);
      if (!same_order || !merge(nest_.terms[k - 1], nest_.terms[k])) continue;
      if (inside == 0) inside = around * extent;
      if (k == 1) nest_.slice *= extent;
      nest_.terms.erase(nest_.terms.begin() + std::ptrdiff_t(k) - 1);
      nest_.term_blocks.erase(nest_.term_blocks.begin() + std::ptrdiff_t(k) - 1);
    }
  }

 private:
  bool merge(const Loop& outer, Loop& inner) {
    bool fits = true;
    auto look = [&](const Term& term) {
      fits = fits && coefficient(term, outer.variable) == coefficient(term, inner.variable) * inner.extent;
    };
    for_each_term(nest_.definitions, look), for_each_term(nest_.epilogue, look);
    std::for_each(nest_.guards.begin(), nest_.guards.end(), look);
    if (!fits) return false;
    for (Block* block : {&nest_.definitions, &nest_.epilogue}) substitute(*block, outer.variable, Term{});
    inner.extent *= outer.extent;
    return true;
  }

  ContractionNest& nest_;
};

}  // namespace

Block needed_for(const Block& definitions, Register result) {
  std::set<Register> needed = {result};
  Block out;
  for (size_t k = definitions.size(); k-- > 0;) {
    if (!needed.count(std::get<Define>(definitions[k]).to)) continue;
    for_each_use(definitions[k], [&](Register r) { needed.insert(r); });
    out.push_back(definitions[k]);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

int64_t points(const std::vector<Loop>& loops) {
  int64_t out = 1;
  for (const Loop& l : loops) out *= l.extent;
  return out;
}

const Load* load_of(const ContractionNest& nest, Register factor) {
  for (const Statement& s : nest.definitions) {
    const Define& define = std::get<Define>(s);
    if (define.to != factor) continue;
    auto* load = std::get_if<Load>(&define.value);
    return load && !load->offset.has_load() ? load : nullptr;
  }
  return nullptr;
}
const Load* plain_load(const Module& module, const ContractionNest& nest, Register factor) {
  const Load* load = load_of(nest, factor);
  return load && module.buffers[size_t(load->buffer)].dtype == nest.dtype ? load : nullptr;
}

int64_t ContractionNest::terms_in_block() const {
  int64_t out = 1;
  for (size_t k = terms.size(); k-- > 0;) {
    if (term_blocks[k] > 0) return out * term_blocks[k];
    out *= terms[k].extent;
  }
  return out;
}
bool ContractionNest::is_blocked() const {
  return std::any_of(term_blocks.begin(), term_blocks.end(), [](int64_t size) { return size > 0; });
}

namespace {

// Do all loads that the column factor needs stay within their buffers, whatever the guards say?
bool in_range(const Module& module, const ContractionNest& nest) {
  std::vector<Loop> loops = nest.outer;
  loops.insert(loops.end(), nest.terms.begin(), nest.terms.end());
  loops.push_back(nest.column);
  std::map<Variable, int64_t> extents;
  for (const Loop& l : loops) extents[l.variable] = l.extent;
  bool out = true;
  for_each_access(needed_for(nest.definitions, nest.column_factor), [&](const Access& a) {
    const LoopOffset offset = loop_offset(*a.offset, {}, extents);
    out = out && offset.known && offset.fixed.empty() && offset.low >= 0 &&
          offset.high < module.buffers[size_t(a.buffer)].shape.elements();
  });
  return out;
}

// `single_row` is the variable of the loop over rows, if there is but one row; else -1.
std::optional<ContractionNest> nest_of(const Module& module, const Kernel& kernel, const For& outermost,
                                       Variable single_row, const Tuning& tuning) {
  ContractionNest out;
  std::vector<Loop> loops;
  const Block* block = nullptr;
  for (const For* loop = &outermost; loop;) {
    if (loop->lanes > 0 || !loop->blocks.empty()) return std::nullopt;
    loops.push_back({loop->variable, loop->extent});
    block = &loop->body;
    loop = only_loop(*block, out.definitions);
  }
  std::optional<Sum> sum = sum_in(*block);
  if (!sum || loops.empty()) return std::nullopt;
  append(out.definitions, sum->before);
  out.guards = sum->guards;

  for (const For* loop = sum->loop; loop;) {
    if (loop->lanes > 0 || loop->blocks.size() > (out.terms.empty() ? 2u : 1u)) return std::nullopt;
    out.terms.push_back({loop->variable, loop->extent});
    out.term_blocks.push_back(loop->blocks.empty() ? 0 : loop->blocks[0]);
    if (loop->blocks.size() > 1) out.slice = loop->blocks[1];
    block = &within_guards(loop->body, out.definitions, out.guards);
    loop = only_loop(*block, out.definitions);
  }
  const auto cut = std::count_if(out.term_blocks.begin(), out.term_blocks.end(), [](int64_t size) { return size > 0; });
  if (cut == 2 && out.slice == 0) out.slice = std::exchange(out.term_blocks[0], 0);
  if (cut > (out.slice > 0 && out.term_blocks[0] == 0 ? 2 : 1) ||
      (out.slice > 0 && out.terms[0].extent % out.slice != 0))
    return std::nullopt;
  auto* combine = block->empty() ? nullptr : std::get_if<Combine>(&block->back());
  if (!combine || combine->to != sum->total || combine->accumulator != Accumulator::add) return std::nullopt;
  for (size_t k = 0; k + 1 < block->size(); ++k) {
    if (!std::holds_alternative<Define>((*block)[k])) return std::nullopt;
    out.definitions.push_back((*block)[k]);
  }
  Register first = combine->value, second = combine->factor;
  out.fused = second >= 0;
  if (!out.fused) {
    auto* define = out.definitions.empty() ? nullptr : std::get_if<Define>(&out.definitions.back());
    auto* product = define && define->to == first ? std::get_if<Apply>(&define->value) : nullptr;
    if (!product || product->op != Op::mul || product->compute != kernel.registers[size_t(sum->total)].dtype)
      return std::nullopt;
    first = product->args[0], second = product->args[1];
  }
  out.dtype = kernel.registers[size_t(sum->total)];
  for (Register r : {first, second})
    if (kernel.registers[size_t(r)] != out.dtype) return std::nullopt;

  // Rows, columns and what both factors depend on.
  std::map<Register, std::set<Variable>> dependence = dependence_of(out.definitions);
  auto depends = [&](Register r, Variable v) { return dependence[r].count(v) > 0; };
  out.column = loops.back();
  if (depends(first, out.column.variable) == depends(second, out.column.variable)) return std::nullopt;
  out.column_factor = depends(first, out.column.variable) ? first : second;
  out.row_factor = out.column_factor == first ? second : first;
  loops.pop_back();
  auto is_guarded = [&](Variable v) {
    return std::any_of(out.guards.begin(), out.guards.end(), [&](const Term& g) { return coefficient(g, v) != 0; });
  };
  if (is_guarded(out.column.variable) || (single_row >= 0 && !out.guards.empty()) ||
      std::any_of(out.guards.begin(), out.guards.end(), [](const Term& g) { return g.has_load(); }))
    return std::nullopt;
  int row = -1;  // the innermost loop over enough rows for a tile
  for (int k = 0; k < int(loops.size()); ++k) {
    Loop& l = loops[size_t(k)];
    l.is_row = depends(out.row_factor, l.variable) && !depends(out.column_factor, l.variable);
    l.is_column = depends(out.column_factor, l.variable) && !depends(out.row_factor, l.variable);
    if (l.is_row && !is_guarded(l.variable) && (row < 0 || l.extent >= tuning.least_tile_rows)) row = k;
  }
  if ((row < 0) != (single_row >= 0)) return std::nullopt;
  if (row >= 0) {
    out.row = loops[size_t(row)];
    loops.erase(loops.begin() + row);
  } else {
    out.row = {single_row, 1, true};
  }
  out.outer = std::move(loops);

  out.sum = sum->total;
  std::set<Register> used;
  for (const Statement& s : sum->after) for_each_use(s, [&](Register r) { used.insert(r); });
  for (size_t k = out.definitions.size(); k-- > 0;) {
    if (!used.count(std::get<Define>(out.definitions[k]).to)) continue;
    for_each_use(out.definitions[k], [&](Register r) { used.insert(r); });
    out.epilogue.push_back(out.definitions[k]);
  }
  std::reverse(out.epilogue.begin(), out.epilogue.end());
  append(out.epilogue, sum->after);
  // A tile must not read what another one has written: not before the sum, and after it only the element that it
  // writes.
  std::map<ir::BufferId, const Term*> written;
  for_each_access(out.epilogue, [&](const Access& a) {
    if (a.write) written.emplace(a.buffer, a.offset);
  });
  bool own = true;
  for_each_access(out.epilogue, [&](const Access& a) {
    if (auto at = written.find(a.buffer); at != written.end()) own = own && *a.offset == *at->second;
  });
  if (!own) return std::nullopt;
  for (Register factor : {out.row_factor, out.column_factor}) {
    bool apart = true;
    for_each_access(needed_for(out.definitions, factor),
                    [&](const Access& a) { apart = apart && !written.count(a.buffer); });
    if (!apart) return std::nullopt;
  }
  if (!out.guards.empty() && !in_range(module, out)) return std::nullopt;
  const bool stores_columns = std::any_of(out.epilogue.begin(), out.epilogue.end(), [&](const Statement& s) {
    auto* store = std::get_if<Store>(&s);
    return store && coefficient(store->offset, out.column.variable) == 1;
  });
  if (!stores_columns) return std::nullopt;
  LoopMerger(out).run();
  return out;
}

}  // namespace

std::optional<ContractionNest> contraction_nest(const Module& module, const Kernel& kernel, const For& outermost,
                                                const Tuning& tuning) {
  return nest_of(module, kernel, outermost, -1, tuning);
}
std::optional<ContractionNest> one_row_nest(const Module& module, Kernel& kernel, const For& outermost,
                                            const Tuning& tuning) {
  std::optional<ContractionNest> out = nest_of(module, kernel, outermost, Variable(kernel.variables.size()), tuning);
  if (out) add_variable(kernel, "row");
  return out;
}

}  // namespace caravan::schedule
