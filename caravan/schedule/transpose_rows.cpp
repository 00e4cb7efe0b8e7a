#include "caravan/schedule/transpose_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"
#include "caravan/schedule/tile_loops.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// The rows of a buffer that the inner loops touch, and their transposed copy.
struct Rows {
  Memory buffer;
  Term place;            // of an element, without the iterator along the row
  int64_t stride = 0;    // between elements of a row
  int64_t elements = 0;  // of a row
  DType dtype{};
  bool read_first = false, written = false;
  bool in_place = false;  // neighbouring lanes already touch the same element or neighbouring ones
  Memory copy{};
};

Term without(const Term& term, Variable variable) {
  Term out = term;
  std::erase_if(out.parts, [&](const Term::Part& part) {
    return part.kind == Term::Part::Kind::iterator && part.which == variable;
  });
  return out;
}

// Is it an accumulation that is worth a copy of what it reads? It reads nothing, calls a function for each term, or
// compares.
bool is_slow(const For& loop) {
  bool adds = false, calls = false, reads = false;
  for (const Statement& s : loop.body) {
    if (auto* c = std::get_if<Combine>(&s)) {
      adds = true;
      calls = calls || c->accumulator == Accumulator::max || c->accumulator == Accumulator::min;
    }
    if (std::holds_alternative<CombineFirst>(s)) adds = calls = true;
    auto* define = std::get_if<Define>(&s);
    auto* apply = define ? std::get_if<Apply>(&define->value) : nullptr;
    reads = reads || (define && std::holds_alternative<Load>(define->value));
    calls = calls || (apply && row(apply->op).result == ResultType::real);
  }
  return adds && (calls || !reads);
}

class RowTransposer {
 public:
  RowTransposer(const Module& module, Kernel& kernel, const Target& target)
      : module_(module), kernel_(kernel), target_(target) {}

  void run(Block& block) {
    rewrite(block, [&](Statement& s, Block& out) {
      auto* loop = std::get_if<For>(&s);
      if (loop && transposed(*loop, out)) return;
      if (Block* within = inside(s)) run(*within);
      out.push_back(std::move(s));
    });
  }

 private:
  // The loops of a perfect nest, outermost first.
  static std::vector<For*> nest_of(For& outermost) {
    std::vector<For*> out = {&outermost};
    while (!out.back()->group && out.back()->body.size() == 1) {
      auto* next = std::get_if<For>(&out.back()->body[0]);
      if (!next) break;
      out.push_back(next);
    }
    return out;
  }

  bool transposed(For& outermost, Block& out) {
    const std::vector<For*> nest = nest_of(outermost);
    auto is_plain = [](const For* f) {
      return f->kind == LoopKind::serial && !f->group && !f->lanes && f->blocks.empty();
    };
    if (!std::all_of(nest.begin(), nest.end(), is_plain) || !has_slow_sums(nest.back()->body)) return false;
    const int64_t most = target_.most_lanes(DType::f32);
    for (const int64_t least : {most, target_.tuning.least_lanes})
      for (size_t k = nest.size(); k-- > 0;) {
        int64_t lanes = most;
        while (lanes > nest[k]->extent) lanes /= 2;
        if (lanes < least || lanes < 2 || !independent(nest[k]->variable, nest[k]->extent, nest[k]->body)) continue;
        if (std::optional<Block> made = along(nest, k, lanes)) return append(out, std::move(*made)), true;
      }
    return false;
  }
  // Only simple statements, and loops of simple statements, at least one of which is a slow accumulation.
  bool has_slow_sums(const Block& body) const {
    bool slow = false;
    for (const Statement& s : body) {
      auto* loop = std::get_if<For>(&s);
      if (!loop && inside(s)) return false;
      if (!loop) continue;
      if (loop->kind != LoopKind::serial || loop->lanes > 0 || !loop->blocks.empty() || loop->group) return false;
      for (const Statement& inner : loop->body) {
        const bool plain = match(
            inner, [](const OneOf<Define, Combine, CombineFirst, Store> auto&) { return true; },
            [](const OneOf<Reset, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) { return false; });
        if (!plain) return false;
      }
      slow = slow || (loop->extent >= target_.tuning.least_lanes && is_slow(*loop));
    }
    return slow;
  }

  // The nest, with blocks of `lanes` iterations of its loop k side by side; nothing if that is not possible.
  std::optional<Block> along(const std::vector<For*>& nest, size_t k, int64_t lanes) {
    const For& lane = *nest[k];
    const Variable v = lane.variable;
    const Block& body = nest.back()->body;
    std::vector<Rows> rows;
    for (const Statement& s : body)
      if (auto* loop = std::get_if<For>(&s); loop && !find(rows, *loop, v)) return std::nullopt;
    const bool reads = !rows.empty();
    if (!lie_apart(rows)) return std::nullopt;
    std::erase_if(rows, [](const Rows& r) { return r.in_place; });
    if (reads && rows.empty()) return std::nullopt;  // it is for vectorize
    int64_t elements = 0;
    for (const Rows& r : rows) elements += r.elements * lanes;
    if (elements > target_.tuning.stack_elements) return std::nullopt;

    const int64_t count = lane.extent / lanes;
    const Variable block = add_variable(kernel_, v, "_block"), in = add_variable(kernel_, v, "_in");
    const Term now = (count > 1 ? Term::iterator(block, lanes) : Term{}) + Term::iterator(in);
    Block made = copied(kernel_, body);
    for (Rows& r : rows)
      r.copy = add_local(kernel_, {"rows", r.dtype, r.elements * lanes, Scope::thread, target_.tuning.alignment});
    for (Statement& s : made)
      if (auto* loop = std::get_if<For>(&s)) {
        redirect(*loop, rows, in, lanes);
        // GCC would write out the loop over a short row, which makes it compile for four times as long, and nothing
        // faster: the softmax of 28 letters took 320 ms instead of 70.
        loop->unroll = Unroll::some, loop->at_once = 1;
      }
    substitute(made, v, now);
    For vector{in, lanes, LoopKind::vector, std::move(made)};
    if (!side_by_side(vector)) return std::nullopt;

    Block all;
    for (const Rows& r : rows)
      if (r.read_first) all.push_back(copy(r, v, now, in, lanes, true));
    all.push_back(std::move(vector));
    for (const Rows& r : rows)
      if (r.written) all.push_back(copy(r, v, now, in, lanes, false));
    auto around = [&](const For& f) { all = block_with(loop_over(f.variable, f.extent, std::move(all))); };
    for (size_t n = nest.size(); n-- > k + 1;) around(*nest[n]);
    if (count > 1) all = block_with(loop_over(block, count, std::move(all)));
    if (lane.extent % lanes != 0) {
      For rest = loop_over(add_variable(kernel_, v, "_rest"), lane.extent % lanes, copied(kernel_, lane.body));
      substitute(rest.body, v, Term::number(count * lanes) + Term::iterator(rest.variable));
      all.push_back(std::move(rest));
    }
    for (size_t n = k; n-- > 0;) around(*nest[n]);
    return all;
  }

  // Adds what the loop touches. False if there is something that cannot be transposed.
  bool find(std::vector<Rows>& all, const For& loop, Variable lane) const {
    for (const Statement& s : loop.body) {
      auto* define = std::get_if<Define>(&s);
      auto* load = define ? std::get_if<Load>(&define->value) : nullptr;
      auto* store = std::get_if<Store>(&s);
      if (!load && !store) continue;
      const Memory& memory = load ? load->buffer : store->buffer;
      const Term& offset = load ? load->offset : store->offset;
      if (memory.is_local() || offset.has_load()) return false;
      const int64_t step = coefficient(offset, lane), stride = coefficient(offset, loop.variable);
      const DType dtype = module_.buffers[size_t(memory)].dtype;
      const bool in_place = step == 0 || step == 1;
      if (!in_place && (stride == 0 || wide(dtype) != dtype)) return false;
      const Rows found{memory,  without(offset, loop.variable), stride, loop.extent, dtype, load != nullptr, !load,
                       in_place};
      auto same = [&](const Rows& r) {
        return r.buffer == memory && r.place == found.place && r.stride == stride && r.elements == loop.extent;
      };
      if (auto at = std::find_if(all.begin(), all.end(), same); at != all.end())
        at->written = at->written || found.written;
      else
        all.push_back(found);
    }
    return true;
  }
  // A buffer that is written is touched in one way alone.
  static bool lie_apart(const std::vector<Rows>& all) {
    for (const Rows& r : all)
      if (r.written && std::count_if(all.begin(), all.end(), [&](const Rows& o) { return o.buffer == r.buffer; }) > 1)
        return false;
    return true;
  }
  // Makes the loop use the copies.
  static void redirect(For& loop, const std::vector<Rows>& all, Variable in, int64_t lanes) {
    auto to_copy = [&](Memory& memory, Term& offset) {
      if (memory.is_local()) return;
      const Term place = without(offset, loop.variable);
      for (const Rows& r : all) {
        if (!(r.buffer == memory) || r.place != place || r.stride != coefficient(offset, loop.variable)) continue;
        if (r.elements != loop.extent) continue;
        memory = r.copy;
        offset = Term::iterator(loop.variable, lanes) + Term::iterator(in);
        return;
      }
    };
    for (Statement& s : loop.body) {
      if (auto* store = std::get_if<Store>(&s)) to_copy(store->buffer, store->offset);
      auto* define = std::get_if<Define>(&s);
      if (auto* load = define ? std::get_if<Load>(&define->value) : nullptr) to_copy(load->buffer, load->offset);
    }
  }
  // The loops that transpose the rows of a block into the copy, or back.
  For copy(const Rows& rows, Variable lane, const Term& now, Variable in, int64_t lanes, bool there) {
    const Variable along = add_variable(kernel_, lane, "_row");
    const Register value = add_register(kernel_, rows.dtype);
    const Term in_buffer = rows.place + Term::iterator(along, rows.stride),
               in_copy = Term::iterator(along, lanes) + Term::iterator(in);
    Block one;
    one.push_back(Define{value, there ? Load{rows.buffer, in_buffer} : Load{rows.copy, in_copy}});
    one.push_back(there ? Store{rows.copy, in_copy, value} : Store{rows.buffer, in_buffer, value});
    For out = loop_over(in, lanes, block_with(loop_over(along, rows.elements, std::move(one))));
    substitute(out.body, lane, now);
    return out;
  }

  const Module& module_;
  Kernel& kernel_;
  const Target& target_;
};

}  // namespace

Module transpose_rows(const Module& module, const Target& target) {
  return with_changed_kernels(
      module, [&](Module& out, Kernel& kernel) { RowTransposer(out, kernel, target).run(statements(kernel)); });
}

}  // namespace caravan::schedule
