#include "caravan/schedule/gpu_columns.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/gpu_neighbours.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// Does the block consist of simple statements, and of loops that contain only one loop, or only definitions and sums?
bool is_nest_of_sums(const Block& block, bool inner) {
  return std::all_of(block.begin(), block.end(), [&](const Statement& s) {
    if (auto* loop = std::get_if<For>(&s)) return (!inner || block.size() == 1) && is_nest_of_sums(loop->body, true);
    return std::holds_alternative<Define>(s) || std::holds_alternative<Combine>(s) ||
           (!inner && (std::holds_alternative<Reset>(s) || std::holds_alternative<Store>(s)));
  });
}

class Taker {
 public:
  Taker(Kernel& kernel, For& columns, int64_t count)
      : kernel_(kernel), columns_(columns), count_(count), each_(add_variable(kernel, "n")) {}

  void run() {
    find_different();
    // Consecutive statements have one loop over columns, and so does the body of each loop.
    std::vector<std::pair<bool, Block>> parts;  // whether it differs between columns
    for (Statement& s : columns_.body) {
      const bool loop = std::holds_alternative<For>(s), own = differs(s);
      if (loop || parts.empty() || parts.back().first != own || std::holds_alternative<For>(parts.back().second[0]))
        parts.emplace_back(own, Block());
      parts.back().second.push_back(std::move(s));
    }
    find_arrays(parts);
    columns_.body.clear();
    for (auto& [own, part] : parts) {
      if (own) {
        substitute(part, columns_.variable, Term::iterator(columns_.variable, count_) + Term::iterator(each_));
        Block* innermost = &part;
        while (auto* loop = std::get_if<For>(&innermost->back())) innermost = &loop->body;
        Block body = rewritten(std::exchange(*innermost, {}));
        For each{each_, count_, LoopKind::serial, std::move(body)};
        each.unroll = Unroll::full;
        innermost->push_back(std::move(each));
      }
      append(columns_.body, std::move(part));
    }
    columns_.extent /= count_;
  }

 private:
  bool differs(const Statement& s) const {
    bool out = false;
    for_each_term(s, [&](const Term& term) { out = out || coefficient(term, columns_.variable) != 0; });
    for_each_use(s, [&](Register r) { out = out || different_.count(r) > 0; });
    for_each_change(s, [&](Register r) { out = out || different_.count(r) > 0; });
    return out;
  }
  // Registers that have another value for each column.
  void find_different() {
    for (size_t before = size_t(-1); before != different_.size();) {
      before = different_.size();
      for_each_statement(columns_.body, [&](const Statement& s) {
        if (!inside(s) && differs(s)) for_each_change(s, [&](Register r) { different_.insert(r); });
      });
    }
  }
  // Those that more than one part needs become arrays.
  void find_arrays(const std::vector<std::pair<bool, Block>>& parts) {
    std::map<Register, std::set<const void*>> where;
    for (const auto& part : parts)
      for (const Statement& s : part.second) {
        auto note = [&](Register r) {
          if (different_.count(r)) where[r].insert(&part);
        };
        for_each_use(s, note);
        for_each_change(s, note);
      }
    for (const auto& [r, in] : where) {
      if (in.size() < 2) continue;
      arrays_[r] = Memory::local(int(kernel_.locals.size()));
      const std::string name = "columns" + std::to_string(arrays_.size());
      kernel_.locals.push_back({name, kernel_.registers[size_t(r)].dtype, count_, Scope::registers});
    }
  }

  // The statements, with elements of arrays in place of registers.
  Block rewritten(Block block) {
    Block out;
    std::map<Register, Register> loaded;
    const Term at = Term::iterator(each_);
    auto load_used = [&](Statement& s) {
      std::set<Register> used;
      for_each_use(s, [&](Register r) {
        if (arrays_.count(r)) used.insert(r);
      });
      for (const Register r : used) {
        loaded[r] = add_register(kernel_, kernel_.registers[size_t(r)]);
        out.push_back(Define{loaded[r], Load{arrays_.at(r), at}});
      }
    };
    auto now = [&](Register r) { return arrays_.count(r) ? loaded.at(r) : r; };
    auto kept = [&](Register r) { return r >= 0 && arrays_.count(r) > 0; };
    for (Statement& s : block) {
      load_used(s);
      match(
          s,
          [&](Define& d) {
            const Register to = d.to;
            if (kept(to)) loaded[to] = add_register(kernel_, kernel_.registers[size_t(to)]);
            Block one;
            one.push_back(std::move(d));
            rename(one, {now, nullptr, nullptr});
            append(out, std::move(one));
            if (kept(to)) out.push_back(Store{arrays_.at(to), at, loaded.at(to)});
          },
          [&](Reset& r) {
            if (!kept(r.to)) return out.push_back(r);
            const Register value = add_register(kernel_, kernel_.registers[size_t(r.to)]);
            out.push_back(Define{value, Constant{r.value}});
            out.push_back(Store{arrays_.at(r.to), at, value});
          },
          [&](Combine& c) {
            const Register value = now(c.value), factor = c.factor >= 0 ? now(c.factor) : -1;
            if (kept(c.to))
              out.push_back(StoreCombine{arrays_.at(c.to), at, c.accumulator, value, factor});
            else
              out.push_back(Combine{c.to, c.accumulator, value, factor});
          },
          [&](Store& store) {
            store.value = now(store.value);
            out.push_back(std::move(store));
          },
          [](const OneOf<CombineFirst, StoreCombine, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {
            CARAVAN_CHECK(false, "columns of a kernel that is no sum");
          });
    }
    return out;
  }

  Kernel& kernel_;
  For& columns_;
  const int64_t count_;
  const Variable each_;
  std::set<Register> different_;
  std::map<Register, Memory> arrays_;
};

}  // namespace

int64_t most_columns(const Module& module, const For& columns, const Gpu& gpu) {
  if (!is_nest_of_sums(columns.body, false)) return 1;
  int64_t narrowest = gpu.access_bytes, widest = 1;
  bool fits = true;
  for_each_access(columns.body, [&](const Access& a) {
    const int64_t stride = coefficient(*a.offset, columns.variable),
                  size = bytes(module.buffers[size_t(a.buffer)].dtype);
    fits = fits && (stride == 1 || (stride == 0 && !a.write));
    if (stride == 1) narrowest = std::min(narrowest, size), widest = std::max(widest, size);
  });
  for (int64_t n = std::min(gpu.most_neighbours, gpu.access_bytes / narrowest); fits && n > 1; n /= 2) {
    bool begins = columns.extent % n == 0 && n * widest <= 2 * gpu.access_bytes;
    for_each_access(columns.body, [&](const Access& a) {
      if (coefficient(*a.offset, columns.variable) == 1)
        begins = begins && begins_piece(*a.offset, columns.variable, n);
    });
    if (begins) return n;
  }
  return 1;
}

void take_columns(Kernel& kernel, const std::vector<For*>& grid, int64_t count) {
  Taker(kernel, *grid.back(), count).run();
  for (size_t k = 0; k + 1 < grid.size(); ++k) grid[k]->chunk /= count;
}

}  // namespace caravan::schedule
