#include "caravan/schedule/vectorize.h"

#include <algorithm>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

bool sums(const Block& block) {
  return find(block, [](const Statement& s) {
    return std::holds_alternative<Combine>(s) || std::holds_alternative<CombineFirst>(s);
  });
}
// Do loops that accumulate read something that is the same for every value of `variable`? Loops that do not accumulate,
// such as the last one of a norm, do not count: computing several of their rows at once gains nothing.
bool shares_reads(const Block& block, Variable variable) {
  for (const Statement& s : block) {
    const Block* within = inside(s);
    if (!within || (std::holds_alternative<For>(s) && !sums(*within))) continue;
    bool shared = shares_reads(*within, variable);
    for (const Statement& inner : *within) {
      if (inside(inner)) continue;
      for_each_access(inner, [&](const Access& a) {
        shared = shared || (!a.write && !a.offset->parts.empty() && coefficient(*a.offset, variable) == 0);
      });
    }
    if (shared) return true;
  }
  return false;
}
// Is there a short sum over elements that the kernel reads only once, as in a norm? A register tile of several such
// rows would save no loads, and it is not needed to hide the latency of additions: the processor overlaps short sums of
// different rows by itself. It would only lengthen the text. `around` has the variables of the enclosing loops,
// `iterations` counts those of the sum, from the vector loop inwards; 0: the vector loop is further inside. 1: inside
// of the vector loop, but outside of the sum. What is read there (the old weight, which an update adds to its gradient)
// is no term of the sum.
bool has_short_stream(const Block& block, std::vector<Variable>& around, int64_t iterations, int64_t least) {
  for (const Statement& s : block) {
    const Block* within = inside(s);
    auto* f = std::get_if<For>(&s);
    if (!within || (f && !sums(*within))) continue;
    if (f && f->extent > 1) around.push_back(f->variable);
    const int64_t inner = f && f->kind == LoopKind::vector ? 1
                          : f && iterations > 0            ? iterations * f->extent
                                                           : iterations;
    bool found = has_short_stream(*within, around, inner, least);
    for (const Statement& read : *within) {
      if (found || inside(read) || inner <= 1 || inner >= least) continue;
      for_each_access(read, [&](const Access& a) {
        const bool once = a.offset->has_load() || std::all_of(around.begin(), around.end(), [&](Variable v) {
                            return coefficient(*a.offset, v) != 0;
                          });
        found = found || (!a.write && once);
      });
    }
    if (f && f->extent > 1) around.pop_back();
    if (found) return true;
  }
  return false;
}
// How many vectors of `width` the accumulators of the largest register tile in the block take; 0 if there is no tile. A
// tile is a vector loop that contains a loop, with the unrolled loops around it.
int64_t registers(const Block& block, int64_t width) {
  int64_t most = 0;
  for (const Statement& s : block) {
    const Block* within = inside(s);
    if (!within || !has_loop(*within)) continue;
    const int64_t of_inner = registers(*within, width);
    auto* f = std::get_if<For>(&s);
    most = std::max(most, f && f->kind == LoopKind::vector     ? (f->extent + width - 1) / width
                          : f && f->kind == LoopKind::unrolled ? f->extent * of_inner
                                                               : of_inner);
  }
  return most;
}

bool has_rows(const Block& block) {
  return find(block, [](const Statement& s) {
    auto* f = std::get_if<For>(&s);
    return f && f->kind == LoopKind::unrolled;
  });
}

// The largest divisor of the extent between most/2 and most; `most`, or the extent if that is less, if there is none.
int64_t block_size(int64_t extent, int64_t most) {
  most = std::min(most, extent);
  for (int64_t rows = most; rows > most / 2; --rows)
    if (extent % rows == 0) return rows;
  return most;
}

// Is there a loop inside that can be a vector loop around a reduction, such as one over the lanes of a split sum?
bool contains_lanes(const Block& block) {
  return find(block, [](const Statement& s) {
    auto* f = std::get_if<For>(&s);
    return f && has_loop(f->body) && has_lanes(*f) && side_by_side(*f);
  });
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

class Vectorizer {
 public:
  Vectorizer(Kernel& kernel, const Target& target, int64_t registers, const char* rows)
      : kernel_(kernel), target_(target), registers_(registers), rows_(rows) {}

  void run(Block& block, int64_t rows_around = 1) {
    Block out;
    for (Statement& s : block) {
      if (auto* i = std::get_if<If>(&s)) run(i->body, rows_around);
      if (auto* f = std::get_if<For>(&s)) {
        sink_lanes(*f, target_.tuning.least_lanes);
        around_.push_back(f->variable);
        run(f->body, f->kind == LoopKind::unrolled ? rows_around * f->extent : rows_around);
        Block made = replaced(std::move(*f), rows_around);
        around_.pop_back();
        for (Statement& m : made) out.push_back(std::move(m));
      } else {
        out.push_back(std::move(s));
      }
    }
    block = std::move(out);
  }

 private:
  Block replaced(For loop, int64_t rows_around) {
    Block out;
    if (loop.kind != LoopKind::serial || loop.extent < 2 || !side_by_side(loop)) {
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
          has_short_stream(loop.body, around_, 0, target_.tuning.least_streamed)) {
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
  Module out = module;
  for (Kernel& kernel : out.kernels) {
    Vectorizer(kernel, target, target.tuning.few_sums, "_row").run(statements(kernel));
    Vectorizer(kernel, target, target.tuning.many_sums, "_block")
        .run(statements(kernel));  // the second round enlarges tiles
  }
  return out;
}

}  // namespace caravan::schedule
