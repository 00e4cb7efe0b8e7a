#include "caravan/passes/fuse.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/loop/walk.h"

namespace caravan::passes {

using namespace loop;
using ir::BufferId;
using Part = Term::Part;

namespace {

// The loops at the top of a kernel that contain nothing but the next one.
std::vector<const For*> perfect_nest(const Kernel& kernel) {
  std::vector<const For*> out;
  const Block* block = &kernel.body;
  while (block->size() == 1) {
    auto* f = std::get_if<For>(&block->front());
    if (!f) break;
    out.push_back(f);
    block = &f->body;
  }
  return out;
}

struct Touched {
  std::set<BufferId> read, written;
};
Touched touched(const Kernel& kernel) {
  Touched out;
  for_each_access(kernel.body, [&](const loop::Access& a) { (a.write ? out.written : out.read).insert(a.buffer); });
  return out;
}
bool overlap(const std::set<BufferId>& a, const std::set<BufferId>& b) {
  return std::any_of(a.begin(), a.end(), [&](BufferId id) { return b.count(id) > 0; });
}

// An offset as a function of the shared loops (by depth) and an interval for the rest.
struct RowOffset {
  std::vector<int64_t> shared;
  std::map<int, int64_t> symbols;
  int64_t low = 0, high = 0;
  bool known = true;
};
std::map<Variable, int64_t> extents_of(const Block& block) {
  std::map<Variable, int64_t> out;
  for (const Statement& s : block) {
    if (auto* f = std::get_if<For>(&s)) out[f->variable] = f->extent, out.merge(extents_of(f->body));
    if (auto* i = std::get_if<If>(&s)) out.merge(extents_of(i->body));
  }
  return out;
}
RowOffset row_offset(const Term& term, const std::vector<const For*>& nest, size_t depth, const std::map<Variable, int64_t>& extents) {
  RowOffset out;
  out.shared.assign(depth, 0);
  out.low = out.high = term.constant;
  for (const Part& part : term.parts) {
    if (part.kind == Part::Kind::symbol) {
      out.symbols[part.which] = part.coefficient;
      continue;
    }
    if (part.kind == Part::Kind::load) {
      out.known = false;
      continue;
    }
    bool shared = false;
    for (size_t d = 0; d < depth; ++d)
      if (nest[d]->variable == part.which) out.shared[d] = part.coefficient, shared = true;
    if (shared) continue;
    int64_t reach = part.coefficient * (extents.at(part.which) - 1);
    (reach < 0 ? out.low : out.high) += reach;
  }
  return out;
}

class Fuser {
 public:
  explicit Fuser(const Module& module) : out_(module) {}

  Module run() {
    std::vector<Kernel>& kernels = out_.kernels;
    for (size_t j = 1; j < kernels.size(); ++j) {
      Touched mine = touched(kernels[j]);
      for (size_t i = j; i-- > 0;) {
        Touched theirs = touched(kernels[i]);
        if (overlap(theirs.written, mine.read) && try_merge(i, j)) {
          --j;
          break;
        }
        // To go further back, j must not depend on what it passes.
        if (overlap(theirs.written, mine.read) || overlap(theirs.written, mine.written) || overlap(theirs.read, mine.written)) break;
      }
    }
    return std::move(out_);
  }

 private:
  bool try_merge(size_t i, size_t j) {
    const Kernel &a = out_.kernels[i], &b = out_.kernels[j];
    std::vector<const For*> nest_a = perfect_nest(a), nest_b = perfect_nest(b);
    size_t depth = nest_b.size();
    if (depth == 0 || nest_a.size() < depth) return false;
    if (depth < nest_a.size() && has_loop(nest_b[depth - 1]->body)) return false;  // rows are shared by plain work only
    for (size_t d = 0; d < depth; ++d)
      if (nest_a[d]->extent != nest_b[d]->extent) return false;
    if (!same_rows(a, nest_a, b, nest_b, depth)) return false;
    merge(i, j, depth);
    return true;
  }
  static bool has_loop(const Block& block) { return !extents_of(block).empty(); }

  bool same_rows(const Kernel& a, const std::vector<const For*>& nest_a, const Kernel& b, const std::vector<const For*>& nest_b, size_t depth) const {
    auto extents_a = extents_of(a.body), extents_b = extents_of(b.body);
    std::map<BufferId, std::vector<std::pair<RowOffset, bool>>> accesses;  // all of both, with "is a write"
    std::map<BufferId, int> sides;
    for_each_access(a.body, [&](const loop::Access& x) { accesses[x.buffer].push_back({row_offset(*x.offset, nest_a, depth, extents_a), x.write}), sides[x.buffer] |= 1; });
    for_each_access(b.body, [&](const loop::Access& x) { accesses[x.buffer].push_back({row_offset(*x.offset, nest_b, depth, extents_b), x.write}), sides[x.buffer] |= 2; });
    for (auto& [buffer, list] : accesses) {
      bool written = std::any_of(list.begin(), list.end(), [](const auto& x) { return x.second; });
      if (sides[buffer] != 3 || !written) continue;
      int64_t low = list[0].first.low, high = list[0].first.high;
      for (auto& [offset, write] : list) {
        if (!offset.known || offset.shared != list[0].first.shared || offset.symbols != list[0].first.symbols) return false;
        low = std::min(low, offset.low), high = std::max(high, offset.high);
      }
      // Different iterations of the shared loops touch different elements: a mixed-radix number with room for the rest.
      std::vector<std::pair<int64_t, int64_t>> digits;  // stride, extent
      for (size_t d = 0; d < depth; ++d) {
        if (nest_a[d]->extent == 1) continue;
        if (list[0].first.shared[d] <= 0) return false;
        digits.push_back({list[0].first.shared[d], nest_a[d]->extent});
      }
      std::sort(digits.begin(), digits.end());
      int64_t room = high - low + 1;
      for (auto [stride, extent] : digits) {
        if (stride < room) return false;
        room = stride * extent;
      }
    }
    return true;
  }

  void merge(size_t i, size_t j, size_t depth) {
    Kernel b = std::move(out_.kernels[j]);
    out_.kernels.erase(out_.kernels.begin() + long(j));
    Kernel& a = out_.kernels[i];
    std::vector<const For*> nest_a = perfect_nest(a), nest_b = perfect_nest(b);
    std::map<Variable, Variable> variables;
    for (size_t d = 0; d < depth; ++d) variables[nest_b[d]->variable] = nest_a[d]->variable;
    for (size_t v = 0; v < b.variables.size(); ++v)
      if (!variables.count(Variable(v))) variables[Variable(v)] = Variable(a.variables.size()), a.variables.push_back(b.variables[v]);
    int registers = int(a.registers.size());
    Block moved = nest_b[depth - 1]->body;
    rename(moved, {[&](Register r) { return r + registers; }, [&](Variable v) { return variables.at(v); }, nullptr});
    a.registers.insert(a.registers.end(), b.registers.begin(), b.registers.end());
    a.comments.insert(a.comments.end(), b.comments.begin(), b.comments.end());
    a.name = b.name;
    Block* to = &a.body;
    for (size_t d = 0; d < depth; ++d) to = &std::get<For>(to->front()).body;
    to->insert(to->end(), std::make_move_iterator(moved.begin()), std::make_move_iterator(moved.end()));
  }

  Module out_;
};

// Stored registers by element, valid from the store on, within one block and the blocks inside it.
class Forwarder {
 public:
  Forwarder(const Module& module, Kernel& kernel) : module_(module), kernel_(kernel) {}
  void run() { forward(kernel_.body, {}); }

 private:
  using Known = std::vector<std::pair<std::pair<BufferId, Term>, Register>>;
  void forward(Block& block, Known known) {
    for (Statement& s : block) {
      if (!alias_.empty()) {
        Block one;
        one.push_back(std::move(s));
        rename(one, {[&](Register r) { auto at = alias_.find(r); return at == alias_.end() ? r : at->second; }, nullptr, nullptr});
        s = std::move(one[0]);
      }
      if (auto* store = std::get_if<Store>(&s)) {
        DType dtype = module_.program.buffers[size_t(store->buffer)].dtype;
        forget(known, store->buffer);
        if (kernel_.registers[size_t(store->value)] == dtype) known.push_back({{store->buffer, store->offset}, store->value});
      } else if (auto* define = std::get_if<Define>(&s)) {
        auto* load = std::get_if<Load>(&define->value);
        if (!load) continue;
        for (auto& [element, r] : known)
          if (element.first == load->buffer && element.second == load->offset) alias_[define->to] = r;
      } else if (auto* f = std::get_if<For>(&s)) {
        forget_written(known, f->body);
        forward(f->body, known);
      } else if (auto* i = std::get_if<If>(&s)) {
        forward(i->body, known);
        forget_written(known, i->body);
      } else if (auto* c = std::get_if<StoreCombine>(&s)) {
        forget(known, c->buffer);
      } else if (auto* c = std::get_if<StoreFirst>(&s)) {
        forget(known, c->positions), forget(known, c->best);
      }
    }
  }
  static void forget(Known& known, BufferId id) {
    std::erase_if(known, [&](const auto& k) { return k.first.first == id; });
  }
  static void forget_written(Known& known, const Block& block) {
    for_each_access(block, [&](const loop::Access& a) {
      if (a.write) forget(known, a.buffer);
    });
  }

  const Module& module_;
  Kernel& kernel_;
  std::map<Register, Register> alias_;
};

// Removes stores to buffers that nobody reads and everything that then serves nothing.
void sweep(Kernel& kernel, const std::set<BufferId>& needed) {
  for (bool changed = true; changed;) {
    changed = false;
    std::set<Register> used;
    for (const Statement& s : kernel.body) for_each_use(s, [&](Register r) { used.insert(r); });
    std::function<void(Block&)> clean = [&](Block& block) {
      std::erase_if(block, [&](Statement& s) {
        bool drop = false;
        if (auto* store = std::get_if<Store>(&s)) drop = !needed.count(store->buffer);
        if (auto* c = std::get_if<StoreCombine>(&s)) drop = !needed.count(c->buffer);
        if (auto* d = std::get_if<Define>(&s)) drop = !used.count(d->to);
        if (auto* r = std::get_if<Reset>(&s)) drop = !used.count(r->to);
        if (auto* c = std::get_if<Combine>(&s)) drop = !used.count(c->to);
        if (auto* f = std::get_if<For>(&s)) clean(f->body), drop = f->body.empty();
        if (auto* i = std::get_if<If>(&s)) clean(i->body), drop = i->body.empty();
        changed = changed || drop;
        return drop;
      });
    };
    clean(kernel.body);
  }
}

}  // namespace

Module fuse(const Module& module) { return Fuser(module).run(); }

Module forward_stores(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels) Forwarder(out, kernel).run();
  for (bool changed = true; changed;) {
    std::set<BufferId> needed(out.program.observed.begin(), out.program.observed.end());
    for (const auto& a : out.program.assignments) needed.insert(a.value);
    for (size_t b = 0; b < out.program.buffers.size(); ++b)
      if (!std::holds_alternative<ir::Computed>(out.program.buffers[b].kind)) needed.insert(BufferId(b));
    for (const Kernel& kernel : out.kernels) {
      std::set<Register> used;
      for (const Statement& s : kernel.body) for_each_use(s, [&](Register r) { used.insert(r); });
      std::function<void(const Block&)> visit = [&](const Block& block) {
        for (const Statement& s : block) {
          if (auto* d = std::get_if<Define>(&s))
            if (auto* load = std::get_if<Load>(&d->value); load && used.count(d->to)) needed.insert(load->buffer);
          if (auto* f = std::get_if<For>(&s)) visit(f->body);
          if (auto* i = std::get_if<If>(&s)) visit(i->body);
          if (auto* c = std::get_if<StoreFirst>(&s)) needed.insert(c->best);
        }
      };
      visit(kernel.body);
    }
    size_t before = 0, after = 0;
    auto count = [&](size_t& n) {
      for (const Kernel& kernel : out.kernels) for_each_access(kernel.body, [&](const loop::Access&) { ++n; });
    };
    count(before);
    for (Kernel& kernel : out.kernels) sweep(kernel, needed);
    std::erase_if(out.kernels, [](const Kernel& k) { return k.body.empty(); });
    count(after);
    changed = before != after;
  }
  return out;
}

Module update_in_place(const Module& module) {
  Module out = module;
  std::set<BufferId> observed(out.program.observed.begin(), out.program.observed.end());
  std::vector<ir::Assignment> rest;
  for (const ir::Assignment& a : out.program.assignments) {
    const ir::Buffer &state = out.program.buffers[size_t(a.state)], &value = out.program.buffers[size_t(a.value)];
    size_t assigned = size_t(std::count_if(out.program.assignments.begin(), out.program.assignments.end(), [&](const auto& b) { return b.value == a.value; }));
    bool possible = std::holds_alternative<ir::Computed>(value.kind) && state.dtype == value.dtype && !observed.count(a.value) && !observed.count(a.state) && assigned == 1;
    for (const ir::Assignment& b : out.program.assignments) possible = possible && b.value != a.state;  // its old value is wanted
    int writer = -1, last_reader = -1, stores = 0;
    const Term* to = nullptr;
    bool own_element = true;
    for (size_t k = 0; k < out.kernels.size(); ++k)
      for_each_access(out.kernels[k].body, [&](const loop::Access& x) {
        if (x.buffer == a.value && !x.write) possible = false;
        if (x.buffer == a.value && x.write) writer = int(k), ++stores, to = x.offset;
        if (x.buffer == a.state) last_reader = int(k);
      });
    possible = possible && stores == 1 && last_reader <= writer;
    if (possible && last_reader == writer)
      for_each_access(out.kernels[size_t(writer)].body, [&](const loop::Access& x) {
        if (x.buffer == a.state && !(*x.offset == *to)) own_element = false;
      });
    if (!possible || !own_element) {
      rest.push_back(a);
      continue;
    }
    rename(out.kernels[size_t(writer)].body, {nullptr, nullptr, [&](BufferId id) { return id == a.value ? a.state : id; }});
  }
  out.program.assignments = rest;
  return out;
}

}  // namespace caravan::passes
