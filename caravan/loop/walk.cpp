#include "caravan/loop/walk.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace caravan::loop {

using Part = Term::Part;

namespace {

// Calls visit(memory, offset, write).
template <class Visit>
struct Accesses {
  const Visit& visit;

  void operator()(const Define& s) const {
    if (auto* load = std::get_if<Load>(&s.value)) visit(load->buffer, load->offset, false);
  }
  void operator()(const Store& s) const { visit(s.buffer, s.offset, true); }
  void operator()(const StoreCombine& s) const { visit(s.buffer, s.offset, false), visit(s.buffer, s.offset, true); }
  void operator()(const StoreFirst& s) const {
    for (const Memory& memory : {s.positions, s.best}) visit(memory, s.offset, false), visit(memory, s.offset, true);
  }
  void operator()(const Move& s) const {
    static const Term start = Term::number(0);
    if (s.store) visit(Memory::local(s.local), start, false);
    visit(s.buffer, s.offset, s.store);
    if (!s.store) visit(Memory::local(s.local), start, true);
  }
  void operator()(const For& s) const { block(s.body); }
  void operator()(const If& s) const { block(s.body); }
  void block(const Block& b) const {
    for (const Statement& s : b) std::visit(*this, s);
  }
  void operator()(const Reset&) const {}
  void operator()(const Combine&) const {}
  void operator()(const CombineFirst&) const {}
  void operator()(const OneOf<Barrier, Prefetch> auto&) const {}
};

struct Terms {
  const std::function<void(const Term&)>& visit;

  void operator()(const Load& v) const { visit(v.offset); }
  void operator()(const IndexValue& v) const { visit(v.term); }
  void operator()(const RandomValue& v) const { visit(v.element); }
  void operator()(const OneOf<Constant, Apply, Cast, Interleave, AcrossLanes> auto&) const {}

  void operator()(const Define& s) const { std::visit(*this, s.value); }
  void operator()(const CombineFirst& s) const { visit(s.term); }
  void operator()(const OneOf<Store, StoreCombine, Move, Prefetch> auto& s) const { visit(s.offset); }
  void operator()(const StoreFirst& s) const { visit(s.offset), visit(s.term); }
  void operator()(const OneOf<Reset, Combine, Barrier> auto&) const {}
  void operator()(const For& s) const { block(s.body); }
  void operator()(const If& s) const {
    for (const Term& t : s.where) visit(t);
    block(s.body);
  }
  void block(const Block& b) const {
    for (const Statement& s : b) std::visit(*this, s);
  }
};

struct Renamer {
  const Renaming& with;

  void reg(Register& r) const {
    if (with.reg && r >= 0) r = with.reg(r);
  }
  void buffer(Memory& memory) const {
    if (with.buffer && !memory.is_local()) memory = with.buffer(memory);
  }
  void term(Term& t) const {
    Term out = Term::number(t.constant);
    for (const Part& part : t.parts) {
      int which = part.which;
      if (with.part) {
        out = out + with.part(part);
        continue;
      }
      if (part.kind == Part::Kind::iterator && with.variable) which = with.variable(which);
      if (part.kind == Part::Kind::load && with.reg) which = with.reg(which);
      out.add(part.kind, which, part.coefficient);
    }
    t = std::move(out);
  }
  void operator()(Constant&) const {}
  void operator()(Load& v) const { buffer(v.buffer), term(v.offset); }
  void operator()(IndexValue& v) const { term(v.term); }
  void operator()(RandomValue& v) const { term(v.element), reg(v.step); }
  void operator()(Apply& v) const {
    for (Register& r : v.args) reg(r);
  }
  void operator()(Cast& v) const { reg(v.arg); }
  void operator()(Interleave& v) const { reg(v.first), reg(v.second); }
  void operator()(AcrossLanes& v) const { reg(v.arg); }

  void operator()(Define& s) const { reg(s.to), std::visit(*this, s.value); }
  void operator()(Reset& s) const { reg(s.to); }
  void operator()(Combine& s) const { reg(s.to), reg(s.value), reg(s.factor); }
  void operator()(CombineFirst& s) const { reg(s.best), reg(s.position), reg(s.value), term(s.term); }
  void operator()(Store& s) const { buffer(s.buffer), term(s.offset), reg(s.value); }
  void operator()(StoreCombine& s) const { buffer(s.buffer), term(s.offset), reg(s.value), reg(s.factor); }
  void operator()(StoreFirst& s) const {
    buffer(s.positions), buffer(s.best), term(s.offset), reg(s.value), term(s.term);
  }
  void operator()(Move& s) const { buffer(s.buffer), term(s.offset); }
  void operator()(Barrier&) const {}
  void operator()(Prefetch& s) const { buffer(s.buffer), term(s.offset); }
  void operator()(For& s) const {
    if (with.variable) s.variable = with.variable(s.variable);
    rename(s.body, with);
  }
  void operator()(If& s) const {
    for (Term& t : s.where) term(t);
    rename(s.body, with);
  }
};

struct Uses {
  const std::function<void(Register)>& visit;

  void reg(Register r) const {
    if (r >= 0) visit(r);
  }
  void term(const Term& t) const {
    for (const Part& part : t.parts)
      if (part.kind == Part::Kind::load) visit(part.which);
  }
  void operator()(const Constant&) const {}
  void operator()(const Load& v) const { term(v.offset); }
  void operator()(const IndexValue& v) const { term(v.term); }
  void operator()(const RandomValue& v) const { term(v.element), reg(v.step); }
  void operator()(const Apply& v) const {
    for (Register r : v.args) reg(r);
  }
  void operator()(const Cast& v) const { reg(v.arg); }
  void operator()(const Interleave& v) const { reg(v.first), reg(v.second); }
  void operator()(const AcrossLanes& v) const { reg(v.arg); }

  void operator()(const Define& s) const { std::visit(*this, s.value); }
  void operator()(const Reset&) const {}
  void operator()(const Combine& s) const { reg(s.value), reg(s.factor); }
  void operator()(const CombineFirst& s) const { reg(s.value), term(s.term); }
  void operator()(const Store& s) const { term(s.offset), reg(s.value); }
  void operator()(const StoreCombine& s) const { term(s.offset), reg(s.value), reg(s.factor); }
  void operator()(const StoreFirst& s) const { term(s.offset), reg(s.value), term(s.term); }
  void operator()(const OneOf<Move, Prefetch> auto& s) const { term(s.offset); }
  void operator()(const Barrier&) const {}
  void operator()(const For& s) const { block(s.body); }
  void operator()(const If& s) const {
    for (const Term& t : s.where) term(t);
    block(s.body);
  }
  void block(const Block& b) const {
    for (const Statement& s : b) std::visit(*this, s);
  }
};

struct Changes {
  const std::function<void(Register)>& visit;

  void operator()(const Define& s) const { visit(s.to); }
  void operator()(const Reset& s) const { visit(s.to); }
  void operator()(const Combine& s) const { visit(s.to); }
  void operator()(const CombineFirst& s) const { visit(s.best), visit(s.position); }
  void operator()(const Store&) const {}
  void operator()(const StoreCombine&) const {}
  void operator()(const StoreFirst&) const {}
  void operator()(const OneOf<Move, Barrier, Prefetch> auto&) const {}
  void operator()(const For& s) const { block(s.body); }
  void operator()(const If& s) const { block(s.body); }
  void block(const Block& b) const {
    for (const Statement& s : b) std::visit(*this, s);
  }
};

}  // namespace

const Block* inside(const Statement& statement) {
  return match(
      statement, [](const OneOf<For, If> auto& s) -> const Block* { return &s.body; },
      [](const Simple auto&) -> const Block* { return nullptr; });
}
Block* inside(Statement& statement) { return const_cast<Block*>(inside(std::as_const(statement))); }

std::vector<const For*> loops_of(const Path& path) {
  std::vector<const For*> out;
  for (const Statement* s : path)
    if (auto* loop = std::get_if<For>(s)) out.push_back(loop);
  return out;
}

void append(Block& to, Block from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void for_each_access(const Kernel& kernel, const std::function<void(const Access&)>& visit) {
  static const Term start = Term::number(0);
  if (const LibraryCall* call = library_call(kernel)) {
    for (const ir::BufferId id : call->reads) visit({id, &start, false});
    for (const ir::BufferId id : call->writes) visit({id, &start, true});
  }
  if (const Attention* a = attention(kernel)) {
    using Part = Attention::Part;
    for (const Attention::Rows& rows : a->reads) visit({rows.buffer, &start, false});
    for (const Attention::Rows& rows : a->writes) visit({rows.buffer, &start, true});
    if (a->totals >= 0) visit({a->totals, &start, a->part == Part::forward});
    if (a->dots >= 0) visit({a->dots, &start, a->part == Part::rows});
    if (a->sums >= 0) visit({a->sums, &start, a->part == Part::forward});
    if (a->rooms >= 0) visit({a->rooms, &start, true});
  }
  for_each_access(statements(kernel), visit);
}
void for_each_access(const Block& block, const std::function<void(const Access&)>& visit) {
  for (const Statement& s : block) for_each_access(s, visit);
}
void for_each_inner_access(const Block& block, const std::function<void(const Access&)>& visit) {
  for (const Statement& s : block)
    match(
        s, [&](const For& f) { for_each_access(f.body, visit); },
        [&](const If& i) { for_each_inner_access(i.body, visit); }, [](const Simple auto&) {});
}
void for_each_access(const Statement& statement, const std::function<void(const Access&)>& visit) {
  auto buffers = [&](const Memory& memory, const Term& offset, bool write) {
    if (!memory.is_local()) visit({memory, &offset, write});
  };
  std::visit(Accesses<decltype(buffers)>{buffers}, statement);
}
void for_each_local(const Statement& statement, const std::function<void(int local, bool write)>& visit) {
  auto locals = [&](const Memory& memory, const Term&, bool write) {
    if (memory.is_local()) visit(memory.local(), write);
  };
  std::visit(Accesses<decltype(locals)>{locals}, statement);
}
void for_each_term(const Block& block, const std::function<void(const Term&)>& visit) { Terms{visit}.block(block); }
void for_each_term(const Statement& statement, const std::function<void(const Term&)>& visit) {
  std::visit(Terms{visit}, statement);
}
void rename(Block& block, const Renaming& renaming) {
  for (Statement& s : block) std::visit(Renamer{renaming}, s);
}
Register add_register(Kernel& kernel, RegisterType type) {
  kernel.registers.push_back(type);
  return Register(kernel.registers.size()) - 1;
}
Variable add_variable(Kernel& kernel, std::string name) {
  kernel.variables.push_back(std::move(name));
  return Variable(kernel.variables.size()) - 1;
}
Variable add_variable(Kernel& kernel, Variable of, const char* suffix) {
  return add_variable(kernel, kernel.variables[size_t(of)] + suffix);
}
Memory add_local(Kernel& kernel, Local local) {
  const std::string base = local.name;
  auto taken = [&](const Local& other) { return other.name == local.name; };
  for (int n = 2; std::any_of(kernel.locals.begin(), kernel.locals.end(), taken); ++n)
    local.name = base + "_" + std::to_string(n);
  kernel.locals.push_back(std::move(local));
  return Memory::local(int(kernel.locals.size()) - 1);
}
Memory add_buffer(Module& module, const std::string& name, DType dtype, int64_t elements, const Source& where) {
  const Memory out(ir::BufferId(module.buffers.size()));
  module.buffers.push_back(
      {name + " " + std::to_string(out), Shape{.output = {{elements}}}, dtype, ir::Computed{}, where});
  return out;
}

Block copied(Kernel& kernel, const Block& block) {
  std::map<Register, Register> fresh;
  for_each_statement(block, [&](const Statement& s) {
    match(
        s,
        [&](const OneOf<Define, Reset> auto& made) {
          fresh[made.to] = add_register(kernel, kernel.registers[size_t(made.to)]);
        },
        [](const OneOf<Combine, CombineFirst, Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For,
                       If> auto&) {});
  });
  Block out = block;
  rename(out, {[&](Register r) {
                 auto at = fresh.find(r);
                 return at == fresh.end() ? r : at->second;
               },
               nullptr, nullptr});
  return out;
}

void substitute(Block& block, Variable variable, const Term& term) {
  rename(
      block,
      {nullptr, nullptr, nullptr, [&](const Part& part) {
         return part.kind == Part::Kind::iterator && part.which == variable ? term * part.coefficient : Term{0, {part}};
       }});
}

const Statement* after_definitions(const Block& block) {
  const bool defines = !block.empty() && std::all_of(block.begin(), block.end() - 1, [](const Statement& s) {
    return std::holds_alternative<Define>(s);
  });
  return defines ? &block.back() : nullptr;
}

bool has_loop(const Block& block) {
  return find_of<For>(block, [](const For&) { return true; });
}

void for_each_use(const Statement& statement, const std::function<void(Register)>& visit) {
  std::visit(Uses{visit}, statement);
}
void for_each_change(const Statement& statement, const std::function<void(Register)>& visit) {
  std::visit(Changes{visit}, statement);
}

double share_entered(const If& guard, const Extents& around) {
  Extents from, to;  // by variable, the iterations in which all conditions hold
  for (const Term& term : guard.where) {
    if (term.parts.size() != 1 || term.parts[0].kind != Term::Part::Kind::iterator) continue;
    const auto [kind, variable, step] = term.parts[0];
    const auto extent = around.find(variable);
    if (extent == around.end() || (step != 1 && step != -1)) continue;
    int64_t& last = to.emplace(variable, extent->second).first->second;
    if (step == 1)
      from[variable] = std::max(from[variable], -term.constant);
    else
      last = std::min(last, term.constant + 1);
  }
  double out = 1;
  for (const auto& [variable, end] : to)
    out *= double(std::max<int64_t>(0, end - from[variable])) / double(around.at(variable));
  return out;
}

namespace {

double count_flops(const Block& block, const Kernel& kernel, Extents& around) {
  auto on_floats = [&](Register r) {
    const RegisterType& type = kernel.registers[size_t(r)];
    return is_float(type.dtype) ? double(type.width) : 0;
  };
  double out = 0;
  for (const Statement& s : block)
    out += match(
        s,
        [&](const Define& d) -> double {
          auto* apply = std::get_if<Apply>(&d.value);
          return apply && is_float(apply->compute) ? kernel.registers[size_t(d.to)].width : 0;
        },
        [&](const Combine& c) { return (c.factor >= 0 ? 2 : 1) * on_floats(c.to); },
        [&](const CombineFirst& c) { return on_floats(c.best); },
        [&](const StoreCombine& c) { return (c.factor >= 0 ? 2 : 1) * on_floats(c.value); },
        [&](const StoreFirst& c) { return on_floats(c.value); },
        [](const OneOf<Reset, Store, Move, Barrier, Prefetch> auto&) -> double { return 0; },
        [&](const For& f) {
          around[f.variable] = f.extent;
          return double(f.extent) * count_flops(f.body, kernel, around);
        },
        [&](const If& i) { return share_entered(i, around) * count_flops(i.body, kernel, around); });
  return out;
}

}  // namespace

int64_t count_flops(const Kernel& kernel) {
  if (const Attention* a = attention(kernel)) {
    using Part = Attention::Part;
    const int64_t products = a->part == Part::forward   ? 2
                             : a->part == Part::rows    ? 3
                             : a->part == Part::columns ? 4
                                                        : 5;
    const int64_t seen = a->causal ? std::min(a->rows, a->columns) * (a->columns + 1) / 2 : a->rows * a->columns;
    return 2 * products * a->depth * a->batch * a->heads * seen;
  }
  const LibraryCall* call = library_call(kernel);
  auto* product = call ? std::get_if<LibraryCall::Product>(&call->function) : nullptr;
  Extents around;
  return product ? 2 * product->multiplications() : std::llround(count_flops(statements(kernel), kernel, around));
}

}  // namespace caravan::loop
