#include "caravan/passes/vectorize.h"

#include <algorithm>

#include "caravan/loop/rows.h"
#include "caravan/loop/walk.h"

namespace caravan::passes {

using namespace loop;

namespace {

constexpr int64_t kLanes = 16, kRows = 4;  // of a block: so many accumulators fit into the registers
constexpr int64_t kLeast = 8;              // a shorter loop without a loop inside is left to the compiler

bool shares_reads(const For& loop) {
  bool shared = false;
  for_each_inner_access(loop.body, [&](const Access& a) {
    shared = shared || (!a.write && !a.offset->parts.empty() && coefficient(*a.offset, loop.variable) == 0);
  });
  return shared;
}
bool contains(const Block& block, LoopKind kind) {  // a loop of this kind around another
  return std::any_of(block.begin(), block.end(), [&](const Statement& s) {
    if (auto* i = std::get_if<If>(&s)) return contains(i->body, kind);
    auto* f = std::get_if<For>(&s);
    return f && ((f->kind == kind && has_loop(f->body)) || contains(f->body, kind));
  });
}

class Vectorizer {
 public:
  explicit Vectorizer(Kernel& kernel) : kernel_(kernel) {}

  void run(Block& block, bool in_unrolled = false) {
    Block out;
    for (Statement& s : block) {
      if (auto* i = std::get_if<If>(&s)) run(i->body, in_unrolled);
      if (auto* f = std::get_if<For>(&s)) {
        run(f->body, in_unrolled || f->kind == LoopKind::unrolled);
        if (in_unrolled && contains(f->body, LoopKind::vector)) {  // there are rows enough
          out.push_back(std::move(s));
          continue;
        }
        for (Statement& made : replaced(std::move(*f))) out.push_back(std::move(made));
      } else {
        out.push_back(std::move(s));
      }
    }
    block = std::move(out);
  }

 private:
  Block replaced(For loop) {
    Block out;
    if (loop.kind != LoopKind::serial || loop.extent < 2 || !side_by_side(loop)) {
      out.push_back(std::move(loop));
    } else if (!has_loop(loop.body)) {
      if (loop.extent >= kLeast && independent(loop.variable, loop.extent, loop.body)) loop.kind = LoopKind::vector;
      out.push_back(std::move(loop));
    } else if (contains(loop.body, LoopKind::vector)) {
      if (contains(loop.body, LoopKind::unrolled) || !shares_reads(loop)) {
        out.push_back(std::move(loop));
        return out;
      }
      const int64_t whole = loop.extent / kRows, rest = loop.extent % kRows;
      if (whole > 0) out.push_back(blocks(loop, 0, whole, kRows, LoopKind::unrolled));
      if (rest > 0) out.push_back(blocks(loop, whole * kRows, 1, rest, LoopKind::unrolled));
    } else if (has_lanes(loop)) {
      int64_t from = 0;
      for (int64_t lanes = kLanes; lanes > 0; lanes /= 2) {  // powers of two, as the registers have
        const int64_t count = (loop.extent - from) / lanes;
        if (count > 0) out.push_back(blocks(loop, from, count, lanes, LoopKind::vector));
        from += count * lanes;
      }
    } else {
      out.push_back(std::move(loop));
    }
    return out;
  }

  // Iterations from, from + 1, ... as `count` blocks of `width`.
  Statement blocks(const For& loop, int64_t from, int64_t count, int64_t width, LoopKind kind) {
    const Variable within =
        add_variable(kernel_, kernel_.variables[size_t(loop.variable)] + (kind == LoopKind::unrolled ? "_row" : "_in"));
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
};

}  // namespace

Module vectorize(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels) {
    Vectorizer(kernel).run(kernel.body);
    Vectorizer(kernel).run(kernel.body);  // where no rows share what they read, blocks of one row do
  }
  return out;
}

}  // namespace caravan::passes
