#include "caravan/schedule/vectorize.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/target/block_size.h"

namespace caravan::schedule {

using namespace loop;

namespace {

bool sums(const Block& block) {
  bool found = false;
  for_each_statement(block, [&](const Statement& s) {
    found =
        found ||
        match(
            s, [](const OneOf<Combine, CombineFirst> auto&) { return true; },
            [](const OneOf<Define, Reset, Store, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {
              return false;
            });
    return !found;
  });
  return found;
}
// Do loops that accumulate read something that is the same for every value of `variable`? Loops that do not accumulate,
// such as the last one of a norm, do not count: computing several of their rows at once gains nothing.
bool shares_reads(const Block& block, Variable variable) {
  bool shared = false;
  for_each_with_path(block, [&](const Statement& s, const Path& path) {
    return match(
        s, [&](const For& f) { return !shared && sums(f.body); }, [&](const If&) { return !shared; },
        [&](const Simple auto&) {
          if (!path.empty())
            for_each_access(s, [&](const Access& a) {
              shared = shared || (!a.write && !a.offset->parts.empty() && coefficient(*a.offset, variable) == 0);
            });
          return true;
        });
  });
  return shared;
}

// How many terms a sum has that runs inside of these loops: the iterations of the loops within the last vector loop. 0:
// there is no vector loop around. 1: inside of the vector loop, but outside of the sum. What is read there (the old
// weight, which an update adds to its gradient) is no term of the sum.
int64_t terms_inside(const std::vector<const For*>& loops) {
  int64_t out = 0;
  for (const For* f : loops) out = f->kind == LoopKind::vector ? 1 : out * f->extent;
  return out;
}
// Is there a short sum over elements that the kernel reads only once, as in a norm? A register tile of several such
// rows would save no loads, and it is not needed to hide the latency of additions: the processor overlaps short sums of
// different rows by itself. It would only lengthen the text. `around` has the variables of the loops around the block.
bool has_short_stream(const Block& block, const std::vector<Variable>& around, int64_t least) {
  bool found = false;
  auto look = [&](const Statement& s, const Path& path) {
    const std::vector<const For*> loops = loops_of(path);
    const int64_t terms = terms_inside(loops);
    if (terms <= 1 || terms >= least) return;
    for_each_access(s, [&](const Access& a) {
      auto varies = [&](Variable v) { return coefficient(*a.offset, v) != 0; };
      const bool once = a.offset->has_load() || (std::all_of(around.begin(), around.end(), varies) &&
                                                 std::all_of(loops.begin(), loops.end(), [&](const For* f) {
                                                   return f->extent <= 1 || varies(f->variable);
                                                 }));
      found = found || (!a.write && once);
    });
  };
  for_each_with_path(block, [&](const Statement& s, const Path& path) {
    return match(
        s, [&](const For& f) { return !found && sums(f.body); }, [&](const If&) { return !found; },
        [&](const Simple auto&) { return look(s, path), true; });
  });
  return found;
}
// How many vectors of `width` the accumulators of the largest register tile in the block take; 0 if there is no tile. A
// tile is a vector loop that contains a loop, with the unrolled loops around it.
int64_t registers(const Block& block, int64_t width) {
  int64_t most = 0;
  for (const Statement& s : block)
    most = std::max(most, match(
                              s,
                              [&](const For& f) -> int64_t {
                                if (!has_loop(f.body)) return 0;
                                if (f.kind == LoopKind::vector) return (f.extent + width - 1) / width;
                                return (f.kind == LoopKind::unrolled ? f.extent : 1) * registers(f.body, width);
                              },
                              [&](const If& i) { return registers(i.body, width); },
                              [](const Simple auto&) -> int64_t { return 0; }));
  return most;
}

bool has_rows(const Block& block) {
  return find_of<For>(block, [](const For& f) { return f.kind == LoopKind::unrolled; });
}

// Is there a loop inside that can be a vector loop around a reduction, such as one over the lanes of a split sum?
bool contains_lanes(const Block& block) {
  return find_of<For>(block, [](const For& f) { return has_loop(f.body) && has_lanes(f) && side_by_side(f); });
}

// In a perfect nest whose innermost loop is short or does not have stride 1, interchanges a long loop with stride 1 to
// the inside. That is legal because its iterations are independent, and within each of them the other loops keep their
// order.
void sink_lanes(For& outermost, int64_t least) {
  std::vector<For*> nest;
  for (For* next = &outermost; next && next->kind == LoopKind::serial;) {
    nest.push_back(next);
    next = next->body.size() == 1 ? std::get_if<For>(&next->body[0]) : nullptr;
  }
  if (nest.empty() || !has_loop(nest.back()->body) || contains_lanes(nest.back()->body)) return;
  auto long_lanes = [&](const For& loop) {
    return loop.extent >= least && has_lanes(For{loop.variable, loop.extent, loop.kind, nest.back()->body}) &&
           independent(loop.variable, loop.extent, loop.body);
  };
  if (long_lanes(*nest.back())) return;
  for (size_t k = nest.size() - 1; k-- > 0;) {
    if (!long_lanes(*nest[k])) continue;
    for (size_t at = k; at + 1 < nest.size(); ++at)
      std::swap(nest[at]->variable, nest[at + 1]->variable), std::swap(nest[at]->extent, nest[at + 1]->extent);
    return;
  }
}

// Has an earlier pass chosen the vectors?
bool has_vectors(const Block& block, const Kernel& kernel) {
  auto wide = [&](const auto& s) { return kernel.registers[size_t(s.to)].width > 1; };
  return find_of<Define>(block, wide) || find_of<Combine>(block, wide);
}

class Vectorizer {
 public:
  Vectorizer(Kernel& kernel, const Target& target, int64_t registers, const char* rows)
      : kernel_(kernel), target_(target), registers_(registers), rows_(rows) {}

  void run(Block& block, int64_t rows_around = 1) {
    rewrite(block, [&](Statement& s, Block& out) {
      match(
          s,
          [&](For& f) {
            if (f.group) {
              run(f.body, rows_around);
              return out.push_back(std::move(f));
            }
            const bool chosen = f.kind == LoopKind::vector && has_loop(f.body);  // by an earlier pass, or round
            if (chosen || has_vectors(f.body, kernel_)) return out.push_back(std::move(f));
            sink_lanes(f, target_.tuning.least_lanes);
            around_.push_back(f.variable);
            run(f.body, f.kind == LoopKind::unrolled ? rows_around * f.extent : rows_around);
            append(out, replaced(std::move(f), rows_around));
            around_.pop_back();
          },
          [&](If& i) {
            run(i.body, rows_around);
            out.push_back(std::move(i));
          },
          [&](Simple auto& simple) { out.push_back(std::move(simple)); });
    });
  }

 private:
  Block replaced(For loop, int64_t rows_around) {
    Block out;
    if (loop.kind != LoopKind::serial || loop.unroll != Unroll::free || loop.extent < 2 || !side_by_side(loop)) {
      out.push_back(std::move(loop));
    } else if (!has_loop(loop.body)) {
      if (loop.extent >= target_.tuning.least_lanes && independent(loop.variable, loop.extent, loop.body))
        loop.kind = LoopKind::vector;
      out.push_back(std::move(loop));
    } else if (const int64_t used = registers(loop.body, target_.lanes(DType::f32)); used > 0) {
      const int64_t rows =
          block_size(loop.extent, std::min(target_.tuning.block_rows, registers_ / (used * rows_around)));
      // A second remainder would double the text again.
      const bool doubled = rows > 1 && loop.extent % rows != 0 && has_rows(loop.body);
      if (rows < 2 || doubled || !shares_reads(loop.body, loop.variable) ||
          has_short_stream(loop.body, around_, target_.tuning.least_streamed)) {
        out.push_back(std::move(loop));
        return out;
      }
      const int64_t whole = loop.extent / rows, rest = loop.extent % rows;
      if (whole > 0) out.push_back(blocks(loop, 0, whole, rows, LoopKind::unrolled));
      if (rest > 0) out.push_back(blocks(loop, whole * rows, 1, rest, LoopKind::unrolled));
    } else if (has_lanes(loop)) {
      int64_t from = 0;
      for (int64_t lanes = target_.tuning.block_lanes; lanes > 0; lanes /= 2) {  // powers of two, like vector widths
        const int64_t count = (loop.extent - from) / lanes;
        if (count > 0) out.push_back(blocks(loop, from, count, lanes, LoopKind::vector));
        from += count * lanes;
      }
    } else {
      out.push_back(std::move(loop));
    }
    return out;
  }

  // The iterations from `from` on, as `count` blocks of `width` iterations.
  Statement blocks(const For& loop, int64_t from, int64_t count, int64_t width, LoopKind kind) {
    const Variable within =
        add_variable(kernel_, kernel_.variables[size_t(loop.variable)] + (kind == LoopKind::unrolled ? rows_ : "_in"));
    Term index = Term::number(from) + Term::iterator(within);
    if (count > 1) index = index + Term::iterator(loop.variable, width);
    For inner{within, width, width > 1 ? kind : LoopKind::serial, copied(kernel_, loop.body)};
    substitute(inner.body, loop.variable, index);
    if (count == 1) return inner;
    Block body;
    body.push_back(std::move(inner));
    return For{loop.variable, count, LoopKind::serial, std::move(body)};
  }

  Kernel& kernel_;
  const Target& target_;
  int64_t registers_;             // vectors that the accumulators of a tile may take
  const char* rows_;              // suffix of the variables of unrolled loops
  std::vector<Variable> around_;  // of the loops that `run` is inside of
};

}  // namespace

Module vectorize(const Module& module, const Target& target) {
  return with_changed_kernels(module, [&](Kernel& kernel) {
    Vectorizer(kernel, target, target.tuning.few_sums, "_row").run(statements(kernel));
    // The second round enlarges tiles.
    Vectorizer(kernel, target, target.tuning.many_sums, "_block").run(statements(kernel));
  });
}

}  // namespace caravan::schedule
