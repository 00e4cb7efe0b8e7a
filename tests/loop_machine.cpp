#include "loop_machine.h"

#include <cmath>
#include <functional>
#include <limits>

#include "caravan/base/error.h"
#include "caravan/base/match.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan {

using namespace loop;

namespace {

// A number between -1 and 1 that looks random.
double drawn(uint64_t seed) {
  for (int k = 0; k < 3; ++k) seed = (seed ^ (seed >> 31)) * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u;
  return double(int64_t(seed >> 11)) / double(int64_t(1) << 52) - 1;
}

class Machine {
 public:
  Machine(const Module& module, const std::vector<int64_t>& symbols, const plan::MemoryPlan* plan)
      : module_(module), symbols_(symbols), places_(module.buffers.size()) {
    // A number for each byte of the plan, of which the first one of an element is used.
    size_t end = plan ? size_t(plan->bytes) : 0;
    if (plan)
      for (const plan::Placement& p : plan->placements)
        places_[size_t(p.buffer)] = {size_t(p.offset), size_t(bytes(module.buffers[size_t(p.buffer)].dtype)), 0};
    for (size_t b = 0; b < module.buffers.size(); ++b) {
      const ir::Buffer& buffer = module.buffers[b];
      Place& place = places_[b];
      place.count = ir::in_memory(buffer) ? size_t(buffer.shape.elements()) : 0;
      const bool placed = plan && std::any_of(plan->placements.begin(), plan->placements.end(),
                                              [&](const plan::Placement& p) { return size_t(p.buffer) == b; });
      if (!placed) place.first = end, end += place.count;
    }
    arena_.assign(end, std::numeric_limits<double>::quiet_NaN());
    for (size_t b = 0; b < module.buffers.size(); ++b) {
      const ir::Buffer& buffer = module.buffers[b];
      const uint64_t name = std::hash<std::string>()(buffer.name);
      for (size_t e = 0; e < places_[b].count; ++e)
        if (std::holds_alternative<ir::StateLeaf>(buffer.kind))
          at(int(b), e) = convert(buffer.dtype, 0.25 + 0.125 * drawn(name + e));
        else if (auto* data = std::get_if<ir::DataLeaf>(&buffer.kind))
          at(int(b), e) = load(buffer.dtype, data->array.data(), int64_t(e));
    }
  }
  std::vector<std::vector<double>> run() {
    for (const Kernel& kernel : module_.kernels) {
      kernel_ = &kernel;
      lanes_ = std::max(kernel.grid.lanes, 1), lane_ = -1, at_ = 0;
      registers_.assign(kernel.registers.size(), std::vector<double>(size_t(lanes_)));
      variables_.assign(kernel.variables.size(), 0);
      locals_.clear();
      for (const Local& local : kernel.locals)
        locals_.emplace_back(size_t(lanes_), std::vector<double>(size_t(local.elements)));
      if (const LibraryCall* call = library_call(kernel))
        this->call(*call);
      else if (has_statements(kernel))
        run(statements(kernel));
      else
        throw InternalError("the machine does not run attention");
    }
    std::vector<std::vector<double>> out(places_.size());
    for (size_t b = 0; b < places_.size(); ++b)
      for (size_t e = 0; e < places_[b].count; ++e) out[b].push_back(at(int(b), e));
    return out;
  }

 private:
  double& at(ir::BufferId buffer, size_t element) {
    const Place& place = places_[size_t(buffer)];
    CARAVAN_CHECK(element < place.count,
                  "element " + std::to_string(element) + " of " + module_.buffers[size_t(buffer)].name);
    return arena_[place.first + element * place.step];
  }
  void run(const Block& block) {
    for (const Statement& s : block) std::visit([&](const auto& statement) { execute(statement); }, s);
  }
  // What all lanes execute is executed for one after the other; in a lane loop, by the lane that has the iteration.
  template <class Work>
  void each_lane(const Work& work) {
    const bool all = lane_ < 0;
    for (int l = all ? 0 : lane_; l < (all ? lanes_ : lane_ + 1); ++l) at_ = l, work();
  }
  double& of(Register r) { return registers_[size_t(r)][size_t(at_)]; }

  void execute(const Define& define) {
    if (auto* across = std::get_if<AcrossLanes>(&define.value)) {
      const std::vector<double> all = registers_[size_t(across->arg)];
      double total = all[0];
      for (int l = 1; l < lanes_; ++l) total = row(across->accumulator).combine(total, all[size_t(l)]);
      each_lane([&] { set(define.to, total); });
      return;
    }
    each_lane([&] { set(define.to, std::visit([&](const auto& v) { return value(v); }, define.value)); });
  }
  void execute(const Reset& reset) {
    each_lane([&] { set(reset.to, reset.value); });
  }
  void execute(const Combine& c) {
    each_lane([&] {
      set(c.to, c.factor < 0 ? row(c.accumulator).combine(of(c.to), of(c.value))
                             : std::fma(of(c.value), of(c.factor), of(c.to)));
    });
  }
  void execute(const CombineFirst& c) {
    each_lane([&] {
      if (of(c.position) >= 0 && !beats(c.accumulator, of(c.value), of(c.best))) return;
      set(c.best, of(c.value)), set(c.position, double(index(c.term)));
    });
  }
  void execute(const Store& store) {
    each_lane([&] { element(store.buffer, store.offset, of(store.value)); });
  }
  void execute(const StoreCombine& s) {
    each_lane([&] {
      const double total = element(s.buffer, s.offset);
      element(
          s.buffer, s.offset,
          s.factor < 0 ? row(s.accumulator).combine(total, of(s.value)) : std::fma(of(s.value), of(s.factor), total));
    });
  }
  void execute(const StoreFirst& s) {
    each_lane([&] {
      if (element(s.positions, s.offset) >= 0 && !beats(s.accumulator, of(s.value), element(s.best, s.offset))) return;
      element(s.best, s.offset, of(s.value)), element(s.positions, s.offset, double(index(s.term)));
    });
  }
  void execute(const Move& move) {
    each_lane([&] {
      auto& piece = locals_[size_t(move.local)][size_t(at_)];
      const int64_t first = index(move.offset);
      CARAVAN_CHECK(first % int64_t(piece.size()) == 0, "a piece begins at a multiple of its size");
      for (size_t e = 0; e < piece.size(); ++e)
        if (double& there = at(move.buffer, size_t(first) + e); move.store)
          there = piece[e];
        else
          piece[e] = there;
    });
  }
  void execute(const OneOf<Barrier, Prefetch> auto&) {}
  void execute(const For& loop) {
    CARAVAN_CHECK(loop.lanes == 0 && loop.kind != LoopKind::parallel && loop.kind != LoopKind::vector,
                  "loops of a GPU");
    const bool lanes = loop.kind == LoopKind::lanes;
    const int around = lane_;
    const int64_t turn = turn_;
    for (int64_t k = 0; k < loop.extent; ++k) {
      variables_[size_t(loop.variable)] = k;
      if (lanes) turn_ = turn + k * loop.chunk;
      if (lanes && loop.chunk == 1) lane_ = int(turn_ % lanes_);
      run(loop.body);
      lane_ = around;
    }
    turn_ = turn;
  }
  void execute(const If& guard) {
    at_ = std::max(lane_, 0);
    for (const Term& term : guard.where)
      if (index(term) < 0) return;
    run(guard.body);
  }

  double value(const Constant& c) { return c.value; }
  double value(const Load& l) { return element(l.buffer, l.offset); }
  double value(const IndexValue& i) { return double(index(i.term)); }
  double value(const RandomValue& r) {
    const auto& leaf = std::get<ir::RandomLeaf>(module_.buffers[size_t(r.leaf)].kind);
    const uint64_t seed = std::hash<std::string>()(leaf.stream) + uint64_t(index(r.element)) * 4 + uint64_t(leaf.lane);
    const double step = r.step < 0 ? 0 : of(r.step);
    return std::floor(std::ldexp(0.5 + 0.5 * drawn(seed + uint64_t(step) * 1'000'003), leaf.width));
  }
  double value(const Apply& a) {
    double args[3] = {};
    for (int k = 0; k < row(a.op).arity; ++k) {
      args[k] = of(a.args[k]);
      if (a.op != Op::where || k > 0) args[k] = rounded(a.compute, args[k]);
    }
    return row(a.op).eval(args[0], args[1], args[2]);
  }
  double value(const Cast& c) { return convert(c.to, of(c.arg)); }
  double value(const OneOf<Interleave, AcrossLanes> auto&) { throw InternalError("the machine has no vectors"); }

  static double rounded(DType dtype, double value) { return dtype == DType::f64 ? value : convert(dtype, value); }
  void set(Register to, double value) { of(to) = rounded(kernel_->registers[size_t(to)], value); }
  int64_t index(const Term& term) const {
    int64_t out = term.constant;
    for (const Term::Part& part : term.parts) {
      const auto at = size_t(part.which);
      switch (part.kind) {
        case Term::Part::Kind::iterator: out += part.coefficient * variables_[at]; break;
        case Term::Part::Kind::symbol: out += part.coefficient * symbols_.at(at); break;
        case Term::Part::Kind::load: out += part.coefficient * int64_t(registers_[at][size_t(at_)]); break;
      }
    }
    return out;
  }
  double& local(Memory of, int64_t element) { return locals_[size_t(of.local())][size_t(at_)].at(size_t(element)); }
  double element(Memory of, const Term& offset) {
    const int64_t element = index(offset);
    return of.is_local() ? local(of, element) : at(of, size_t(element));
  }
  void element(Memory of, const Term& offset, double value) {
    const int64_t element = index(offset);
    const DType dtype = of.is_local() ? kernel_->locals[size_t(of.local())].dtype : module_.buffers[size_t(of)].dtype;
    (of.is_local() ? local(of, element) : at(of, size_t(element))) = rounded(dtype, value);
  }
  void call(const LibraryCall& call) {
    if (std::holds_alternative<LibraryCall::Copy>(call.function)) {
      for (size_t e = 0; e < places_[size_t(call.writes[0])].count; ++e)
        this->at(call.writes[0], e) = this->at(call.reads[0], e);
      return;
    }
    auto* p = std::get_if<LibraryCall::Product>(&call.function);
    CARAVAN_CHECK(p, "the machine calls products and copies");
    auto place = [](const Term& offset, int64_t batch, int64_t row, int64_t column, int64_t term) {
      int64_t out = offset.constant;
      const int64_t values[] = {batch, row, column, term};
      for (const Term::Part& part : offset.parts) out += part.coefficient * values[part.which];
      return size_t(out);
    };
    const DType dtype = module_.buffers[size_t(call.writes[0])].dtype;
    for (int64_t b = 0; b < p->batch; ++b)
      for (int64_t m = 0; m < p->rows; ++m)
        for (int64_t n = 0; n < p->columns; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < p->terms; ++k)
            sum = float(std::fma(at(call.reads[0], place(p->left, b, m, n, k)),
                                 at(call.reads[1], place(p->right, b, m, n, k)), sum));
          at(call.writes[0], place(p->result, b, m, n, 0)) = rounded(dtype, sum);
        }
  }

  const Module& module_;
  const std::vector<int64_t>& symbols_;
  const Kernel* kernel_ = nullptr;
  // The elements of a buffer are in `arena_`, `step` apart from each other.
  struct Place {
    size_t first = 0, step = 1, count = 0;
  };
  std::vector<Place> places_;  // by buffer
  std::vector<double> arena_;
  // Of the threads of a group. `lane_` is the one that runs the statement, -1 if all do; `at_` the one whose turn it
  // is.
  int lanes_ = 1, lane_ = -1, at_ = 0;
  int64_t turn_ = 0;                                      // of the lane loops around the statement
  std::vector<std::vector<double>> registers_;            // by register and lane
  std::vector<std::vector<std::vector<double>>> locals_;  // by local, lane and element
  std::vector<int64_t> variables_;
};

}  // namespace

std::vector<std::vector<double>> run_loops(const Module& module, const std::vector<int64_t>& symbols,
                                           const plan::MemoryPlan* plan) {
  return Machine(module, symbols, plan).run();
}

}  // namespace caravan
