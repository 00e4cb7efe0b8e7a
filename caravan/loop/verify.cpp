#include <algorithm>
#include <sstream>

#include "caravan/base/error.h"
#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::loop {

namespace {

struct Problem {  // thrown to end a verification; it is caught in this file
  std::string text;
};

class Verifier {
 public:
  Verifier(const Module& module, const Kernel& kernel)
      : module_(module),
        kernel_(kernel),
        registers_(kernel.registers.size(), Seen::never),
        open_(kernel.variables.size(), false) {}
  void run() {
    for (size_t r = 0; r < kernel_.registers.size(); ++r)
      hold(wide(kernel_.registers[r]) == kernel_.registers[r], reg(Register(r)), " is a narrow float");
    if (const LibraryCall* call = library_call(kernel_)) check(*call);
    if (const Attention* a = attention(kernel_)) check(*a);
    check(statements(kernel_));
  }

 private:
  void check(const Attention& a) const {
    auto fits = [&](ir::BufferId id, int64_t least, int64_t most, DType dtype) {
      hold(id >= 0 && size_t(id) < module_.buffers.size(), "attention names a buffer that does not exist");
      const ir::Buffer& buffer = module_.buffers[size_t(id)];
      hold(least >= 0 && most < buffer.shape.elements(), "attention reaches beyond `", buffer.name, "`");
      hold(buffer.dtype == dtype, "`", buffer.name, "` has another precision than attention has");
    };
    using Part = Attention::Part;
    const size_t writes = a.part == Part::gradient ? 3 : a.part == Part::columns ? 2 : 1;
    const size_t reads = a.part == Part::forward ? 3 : a.part == Part::rows ? 5 : 4;
    hold(a.writes.size() == writes && a.reads.size() == reads, "attention has other arguments than it takes");
    const DType dtype = module_.buffers[size_t(a.reads[0].buffer)].dtype;
    hold(wide(dtype) == DType::f32, "attention has a precision that it cannot have");
    auto rows_fit = [&](const Attention::Rows& r, bool of_columns) {
      const int64_t last = r.offset + (a.batch - 1) * r.batch + (a.heads - 1) * r.head +
                           ((of_columns ? a.columns : a.rows) - 1) * r.row + a.depth - 1;
      fits(r.buffer, r.offset, last, dtype);
    };
    for (size_t k = 0; k < a.writes.size(); ++k)
      rows_fit(a.writes[k], a.part == Part::columns || (a.part == Part::gradient && k > 0));
    for (size_t k = 0; k < a.reads.size(); ++k) rows_fit(a.reads[k], k == 1 || k == 2);
    for (const ir::BufferId id : {a.totals, a.dots, a.sums})
      if (id >= 0) fits(id, 0, a.batch * a.heads * a.rows - 1, DType::f32);
    if (a.rooms >= 0) fits(a.rooms, 0, chunks(a) * a.room - 1, DType::f32);
  }
  void check(const LibraryCall& call) const {
    for (const std::vector<ir::BufferId>* ids : {&call.writes, &call.reads})
      for (const ir::BufferId id : *ids)
        hold(id >= 0 && size_t(id) < module_.buffers.size(), "a library call names a buffer that does not exist");
    match(
        call.function, [&](const LibraryCall::Copy& copy) { check(call, copy); },
        [&](const LibraryCall::Product& product) { check(call, product); },
        [&](const LibraryCall::Collective& c) {
          hold(!call.reads.empty() && call.writes.size() == call.reads.size() && c.values.size() == call.reads.size(),
               "a collective does not give as many buffers as it takes");
        },
        [&](const LibraryCall::Wait& wait) {
          const bool kernel = wait.kernel < module_.kernels.size();
          auto* begun = kernel ? library_call(module_.kernels[wait.kernel]) : nullptr;
          hold(begun && std::holds_alternative<LibraryCall::Collective>(begun->function) &&
                   begun->writes == call.writes && begun->reads == call.reads,
               "a wait is not for a collective with the same buffers");
        });
  }
  void check(const LibraryCall& call, const LibraryCall::Copy& copy) const {
    hold(call.writes.size() == 1 && call.reads.size() == 1, "a copy takes two buffers");
    for (const ir::BufferId id : {call.writes[0], call.reads[0]}) {
      const ir::Buffer& buffer = module_.buffers[size_t(id)];
      hold(buffer.shape.elements() * bytes(buffer.dtype) == copy.bytes, "a copy of ", copy.bytes, " bytes names `",
           buffer.name, "`, which has another size");
    }
  }
  void check(const LibraryCall& call, const LibraryCall::Product& p) const {
    using Product = LibraryCall::Product;
    hold(call.writes.size() == 1 && call.reads.size() == 2, "a product takes three buffers");
    const std::vector<int64_t> sizes = {p.batch, p.rows, p.columns, p.terms};
    auto fits = [&](ir::BufferId id, const Term& offset, Variable down, Variable across) {
      const ir::Buffer& buffer = module_.buffers[size_t(id)];
      const ir::Interval touched = ir::range(offset, sizes, {});
      hold(touched.low >= 0 && touched.high < buffer.shape.elements(), "a product reaches beyond `", buffer.name, "`");
      const int64_t by_row = coefficient(offset, down), by_column = coefficient(offset, across);
      hold((by_column == 1 && by_row >= sizes[size_t(across)]) || (by_row == 1 && by_column >= sizes[size_t(down)]),
           "the elements of `", buffer.name, "` do not form a matrix");
    };
    fits(call.reads[0], p.left, Product::kRow, Product::kTerm);
    fits(call.reads[1], p.right, Product::kTerm, Product::kColumn);
    fits(call.writes[0], p.result, Product::kRow, Product::kColumn);
    auto dtype = [&](ir::BufferId id) { return module_.buffers[size_t(id)].dtype; };
    const DType factors = dtype(call.reads[0]), result = dtype(call.writes[0]);
    hold(wide(factors) == DType::f32 && dtype(call.reads[1]) == factors && (result == DType::f32 || result == factors),
         "a product has factors or a result of a precision that the library does not take");
  }

  enum class Seen : uint8_t { never, defined, accumulator, gone };

  // The text of the message is made only if the condition does not hold.
  template <class... Words>
  void hold(bool condition, const Words&... what) const {
    if (condition) return;
    std::ostringstream out;
    (out << ... << what);
    throw Problem{out.str()};
  }
  struct RegisterText {
    Register number;
    friend std::ostream& operator<<(std::ostream& out, RegisterText r) { return out << "register r" << r.number; }
  };
  static RegisterText reg(Register r) { return {r}; }
  bool exists(Register r) const { return r >= 0 && size_t(r) < kernel_.registers.size(); }
  DType type(Register r) const { return kernel_.registers[size_t(r)]; }
  int width(Register r) const { return kernel_.registers[size_t(r)].width; }
  void scalar(Register r) const { hold(width(r) == 1, reg(r), " is a vector where a scalar must be"); }

  void use(Register r) const {
    const Seen seen = exists(r) ? registers_[size_t(r)] : Seen::never;
    hold(seen != Seen::never, reg(r), " is read before it is defined");
    hold(seen != Seen::gone, reg(r), " is read outside its block");
  }
  void define(Register r, Seen as, std::vector<Register>& mine) {
    hold(exists(r), reg(r), " has no precision");
    hold(registers_[size_t(r)] == Seen::never, reg(r), " has two definitions");
    registers_[size_t(r)] = as;
    mine.push_back(r);
  }
  void accumulator(Register r) const {
    hold(exists(r) && registers_[size_t(r)] == Seen::accumulator, reg(r), " is accumulated without a reset");
  }

  void term(const Term& t) const {
    for (const Term::Part& part : t.parts) {
      switch (part.kind) {
        case Term::Part::Kind::iterator:
          hold(part.which >= 0 && size_t(part.which) < open_.size(), "loop variable ", part.which, " does not exist");
          hold(open_[size_t(part.which)], "loop variable ", kernel_.variables[size_t(part.which)],
               " is used outside its loop");
          break;
        case Term::Part::Kind::symbol:
          hold(part.which >= 0 && size_t(part.which) < module_.symbols.size(),
               "symbol " + std::to_string(part.which) + " does not exist");
          break;
        case Term::Part::Kind::load:
          use(part.which);
          hold(type(part.which) == DType::i64, reg(part.which), " is an index but not i64");
          scalar(part.which);
          break;
      }
    }
  }
  const ir::Buffer& buffer(ir::BufferId id) const {
    hold(id >= 0 && size_t(id) < module_.buffers.size(), "buffer " + std::to_string(id) + " does not exist");
    return module_.buffers[size_t(id)];
  }
  // What the verifier knows of a buffer or a local.
  struct Known {
    DType dtype;
    const std::string& name;
  };
  Known local(const Memory& m) const {
    hold(size_t(m.local()) < kernel_.locals.size(), "local ", m.local(), " does not exist");
    const Local& l = kernel_.locals[size_t(m.local())];
    hold((wide(l.dtype) == l.dtype || l.scope == Scope::piece) && l.elements > 0, "the local `", l.name,
         "` is empty, or a narrow float");
    return {l.dtype, l.name};
  }
  Known memory(const Memory& m, const char* verb) const {
    if (m.is_local()) return local(m);
    const ir::Buffer& b = buffer(m);
    hold(ir::in_memory(b), "`", b.name, "` is ", verb, " but is not in memory");
    return {b.dtype, b.name};
  }
  Known stored(const Memory& m) const {
    const Known known = memory(m, "stored");
    hold(m.is_local() || !std::holds_alternative<ir::DataLeaf>(buffer(m).kind), "`", known.name,
         "` is stored but is data");
    return known;
  }
  template <class Text>
  void integer(DType dtype, const Text& what) const {
    hold(dtype == DType::i32 || dtype == DType::i64, what, " keeps a position but is ", name(dtype));
  }

  void value(Register to, const Value& v) const {
    match(
        v, [](const Constant&) {},
        [&](const Load& load) {
          const Known from = memory(load.buffer, "loaded");
          hold(wide(from.dtype) == type(to), reg(to), " is loaded from `", from.name, "` of another precision");
          hold(width(to) == 1 || wide(from.dtype) == from.dtype, reg(to), " is a vector of a narrow float");
          term(load.offset);
        },
        [&](const IndexValue& index) { term(index.term); },
        [&](const RandomValue& random) {
          const ir::Buffer& leaf = buffer(random.leaf);
          hold(std::holds_alternative<ir::RandomLeaf>(leaf.kind), "`", leaf.name, "` is drawn but is not random");
          hold(wide(leaf.dtype) == type(to), reg(to), " is drawn from `", leaf.name, "` of another precision");
          use(random.step);
          term(random.element);
        },
        [&](const Apply& apply) {
          hold(wide(apply.compute) == apply.compute, reg(to), " is computed in a narrow float");
          for (int k = 0; k < row(apply.op).arity; ++k) {
            const Register arg = apply.args[k];
            use(arg);
            hold(width(arg) == 1 || (width(arg) == width(to) && type(arg) == type(to)), reg(to),
                 " is computed from a vector of another width or precision");
          }
        },
        [&](const Cast& cast) {
          use(cast.arg), scalar(cast.arg);
          hold(wide(cast.to) == type(to), reg(to), " is cast to another precision");
        },
        [&](const Interleave& pair) {
          for (const Register r : {pair.first, pair.second}) {
            use(r);
            hold(kernel_.registers[size_t(r)] == kernel_.registers[size_t(to)] && width(r) > 1, reg(to),
                 " is interleaved from what is not a vector of its kind");
          }
        },
        [&](const AcrossLanes& across) {
          use(across.arg), scalar(across.arg);
          hold(kernel_.grid.lanes > 0 && type(across.arg) == type(to), reg(to),
               " is combined across lanes of another precision, or without lanes");
        });
  }

  void check(const Block& block) {
    std::vector<Register> mine;
    for (const Statement& s : block) std::visit([&](const auto& x) { statement(x, mine); }, s);
    for (Register r : mine) registers_[size_t(r)] = Seen::gone;
  }
  void statement(const Define& s, std::vector<Register>& mine) {
    hold(exists(s.to), reg(s.to), " has no precision");
    value(s.to, s.value);
    const bool may_be_wide = std::holds_alternative<Load>(s.value) || std::holds_alternative<Apply>(s.value) ||
                             std::holds_alternative<Interleave>(s.value);
    if (!may_be_wide) scalar(s.to);
    define(s.to, Seen::defined, mine);
  }
  void statement(const Reset& s, std::vector<Register>& mine) { define(s.to, Seen::accumulator, mine); }
  void statement(const Combine& s, std::vector<Register>&) const {
    accumulator(s.to), use(s.value);
    hold(width(s.value) == 1 || width(s.value) == width(s.to), reg(s.to), " is given a vector of another width");
    product(s, type(s.to), width(s.to));
  }
  // A fused product: a vector or a scalar, of the precision of the total.
  void product(const OneOf<Combine, StoreCombine> auto& s, DType total, int lanes) const {
    if (s.factor < 0) return;
    use(s.factor);
    hold(s.accumulator == Accumulator::add && type(s.value) == total && type(s.factor) == total, reg(s.factor),
         " is a factor in what is not a sum of products of one precision");
    hold(width(s.factor) == 1 || width(s.factor) == lanes, reg(s.factor), " is a factor of another width");
  }
  void statement(const CombineFirst& s, std::vector<Register>&) const {
    accumulator(s.best), accumulator(s.position), use(s.value), term(s.term), scalar(s.value);
    integer(type(s.position), reg(s.position));
    hold(type(s.best) == type(s.value), reg(s.best), " is compared with another precision");
  }
  void statement(const Store& s, std::vector<Register>&) const {
    const Known to = stored(s.buffer);
    term(s.offset), use(s.value);
    hold(width(s.value) == 1 || type(s.value) == to.dtype, "`", to.name, "` is given vectors of another precision");
  }
  void statement(const StoreCombine& s, std::vector<Register>&) const {
    const Known to = stored(s.buffer);
    hold(wide(to.dtype) == to.dtype, "`", to.name, "` is a narrow float, accumulated in memory");
    term(s.offset), use(s.value);
    hold(width(s.value) == 1 || type(s.value) == to.dtype, "`", to.name, "` is given vectors of another precision");
    product(s, to.dtype, std::max(width(s.value), s.factor >= 0 ? width(s.factor) : 1));
  }
  void statement(const StoreFirst& s, std::vector<Register>&) const {
    const Known positions = stored(s.positions);
    integer(positions.dtype, "`" + positions.name + "`");
    use(s.value), scalar(s.value);
    hold(stored(s.best).dtype == type(s.value), reg(s.value), " is compared with another precision");
    term(s.offset), term(s.term);
  }
  void statement(const Move& s, std::vector<Register>&) const {
    const Known piece = local(Memory::local(s.local));
    const Local& l = kernel_.locals[size_t(s.local)];
    hold(l.scope == Scope::piece && !s.buffer.is_local(), "`", l.name, "` is moved but is no piece of a buffer");
    const Known known = s.store ? stored(s.buffer) : memory(s.buffer, "loaded");
    hold(piece.dtype == known.dtype, "`", l.name, "` is a piece of another precision than `", known.name, "`");
    term(s.offset);
    const bool begins = s.offset.constant % l.elements == 0 &&
                        std::all_of(s.offset.parts.begin(), s.offset.parts.end(),
                                    [&](const Term::Part& part) { return part.coefficient % l.elements == 0; });
    hold(begins, "`", l.name, "` does not begin at a multiple of its size in `", known.name, "`");
  }
  void statement(const Barrier&, std::vector<Register>&) const {
    hold(kernel_.grid.lanes > 0, "a barrier stands in a kernel without lanes");
  }
  void statement(const Prefetch& s, std::vector<Register>&) const {
    memory(s.buffer, "prefetched");
    hold(!s.buffer.is_local(), "a local is prefetched");
    term(s.offset);
  }
  void statement(const For& s, std::vector<Register>&) {
    hold(s.variable >= 0 && size_t(s.variable) < open_.size(), "loop variable ", s.variable, " does not exist");
    hold(!open_[size_t(s.variable)], "loop variable ", kernel_.variables[size_t(s.variable)], " is used twice");
    hold(s.extent >= 0, "loop variable ", kernel_.variables[size_t(s.variable)], " has the extent ", s.extent);
    if (s.kind == LoopKind::parallel) {
      const std::string loop = "the parallel loop over " + kernel_.variables[size_t(s.variable)];
      const bool alone = std::all_of(statements(kernel_).begin(), statements(kernel_).end() - 1,
                                     [](const Statement& t) { return std::holds_alternative<Define>(t); });
      const bool outermost = parallel_loop(kernel_) == &s;
      hold(outermost ? alone && s.chunk >= 1 : in_parallel_nest_ && s.chunk == 0,
           loop + " has more than definitions beside it, or no chunk");
      hold(independent(s.variable, s.extent, s.body) && !overwrites_loads(statements(kernel_)),
           loop + " may touch in one iteration what another writes");
    }
    hold(!s.vector || (s.kind == LoopKind::parallel && !has_loop(s.body)), "the loop over ",
         kernel_.variables[size_t(s.variable)], " is computed in vectors but is not an innermost parallel loop");
    if (s.kind == LoopKind::vector || s.kind == LoopKind::unrolled)
      hold(side_by_side(s), "the loop over ", kernel_.variables[size_t(s.variable)], " cannot run side by side");
    if (s.kind == LoopKind::grid)
      hold(kernel_.grid.lanes > 0 && s.chunk >= 1 && independent(s.variable, s.extent, s.body), "the grid loop over ",
           kernel_.variables[size_t(s.variable)], " may touch in one iteration what another writes");
    if (s.kind == LoopKind::lanes)
      hold(kernel_.grid.lanes > 0 && s.chunk >= 1 && shared_by_lanes(s), "the lane loop over ",
           kernel_.variables[size_t(s.variable)], " may touch in one iteration what another writes");
    open_[size_t(s.variable)] = true;
    in_parallel_nest_ = s.kind == LoopKind::parallel && s.body.size() == 1;
    check(s.body);
    in_parallel_nest_ = false;
    open_[size_t(s.variable)] = false;
  }
  void statement(const If& s, std::vector<Register>&) {
    in_parallel_nest_ = false;
    for (const Term& t : s.where) term(t);
    check(s.body);
  }

  const Module& module_;
  const Kernel& kernel_;
  std::vector<Seen> registers_;
  bool in_parallel_nest_ = false;  // is the current statement all that a parallel loop contains?
  std::vector<bool> open_;         // by loop variable: is its loop around the current statement
};

}  // namespace

std::optional<std::string> problem(const Module& module, const Kernel& kernel) try {
  Verifier(module, kernel).run();
  return std::nullopt;
} catch (const Problem& found) {
  return found.text;
}

void verify(const Module& module) {
  for (const Kernel& kernel : module.kernels)
    if (const auto found = problem(module, kernel))
      throw InternalError("ill-formed kernel `" + kernel.name + "`: " + *found +
                          ". This is a mistake in Caravan; please report it.\n" + to_string(module, kernel));
}

}  // namespace caravan::loop
