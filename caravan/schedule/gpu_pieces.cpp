#include "caravan/schedule/gpu_pieces.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/gpu_neighbours.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

class PieceMaker {
 public:
  PieceMaker(const Module& module, Kernel& kernel) : module_(module), kernel_(kernel) {}

  void look(Block& block) {
    rewrite(block, [&](Statement& s, Block& out) {
      auto* loop = std::get_if<For>(&s);
      const bool written_out = loop && loop->kind == LoopKind::serial && loop->unroll == Unroll::full;
      if (written_out &&
          std::none_of(loop->body.begin(), loop->body.end(), [](const Statement& t) { return inside(t); }))
        return take(std::move(*loop), out);
      if (Block* within = inside(s)) look(*within);
      out.push_back(std::move(s));
    });
  }

 private:
  struct Piece {
    BufferId buffer = -1;
    Term offset;
    int local = -1;
    bool loaded = false, stored = false;
  };

  void take(For loop, Block& out) {
    find_pieces(loop);
    change_accesses(loop);
    auto move = [&](const Piece& piece, bool store) {
      Term first = piece.offset;
      std::erase_if(first.parts, [&](const Term::Part& part) {
        return part.kind == Term::Part::Kind::iterator && part.which == loop.variable;
      });
      out.push_back(Move{piece.local, piece.buffer, std::move(first), store});
    };
    for (const Piece& piece : pieces_)
      if (piece.loaded) move(piece, false);
    out.push_back(std::move(loop));
    for (const Piece& piece : pieces_)
      if (piece.stored) move(piece, true);
  }

  // In the order of their first access.
  void find_pieces(const For& loop) {
    pieces_.clear();
    std::set<Register> own;  // that the loop computes
    std::set<BufferId> positions;
    for (const Statement& s : loop.body) {
      for_each_change(s, [&](Register r) { own.insert(r); });
      if (auto* first = std::get_if<StoreFirst>(&s)) positions.insert({first->positions, first->best});
    }
    const bool power_of_two = (loop.extent & (loop.extent - 1)) == 0;
    auto fits = [&](const Access& a) {
      return power_of_two && loop.extent > 1 && coefficient(*a.offset, loop.variable) == 1 &&
             begins_piece(*a.offset, loop.variable, loop.extent) && !positions.count(a.buffer) &&
             std::none_of(a.offset->parts.begin(), a.offset->parts.end(), [&](const Term::Part& part) {
               return part.kind == Term::Part::Kind::load && own.count(part.which) > 0;
             });
    };
    std::map<BufferId, const Term*> stored;
    for_each_access(loop.body, [&](const Access& a) {
      if (a.write) stored.emplace(a.buffer, a.offset);
    });
    std::set<BufferId> elsewhere;  // buffers that are stored to at one place, and accessed at another
    for_each_access(loop.body, [&](const Access& a) {
      if (const auto at = stored.find(a.buffer); at != stored.end() && !(*at->second == *a.offset))
        elsewhere.insert(a.buffer);
    });
    for_each_access(loop.body, [&](const Access& a) {
      if (!fits(a) || elsewhere.count(a.buffer)) return;
      auto at = std::find_if(pieces_.begin(), pieces_.end(),
                             [&](const Piece& p) { return p.buffer == a.buffer && p.offset == *a.offset; });
      if (at == pieces_.end()) {
        at = pieces_.insert(at, {a.buffer, *a.offset, int(kernel_.locals.size()), !a.write, false});
        kernel_.locals.push_back(
            {"piece" + std::to_string(count_++), module_.buffers[size_t(a.buffer)].dtype, loop.extent, Scope::piece});
      }
      at->stored = at->stored || a.write;
    });
  }

  void change_accesses(For& loop) const {
    auto change = [&](Memory& memory, Term& offset) {
      for (const Piece& piece : pieces_)
        if (memory == piece.buffer && offset == piece.offset) {
          memory = Memory::local(piece.local), offset = Term::iterator(loop.variable);
          return;
        }
    };
    for (Statement& s : loop.body)
      match(
          s,
          [&](Define& define) {
            if (auto* load = std::get_if<Load>(&define.value)) change(load->buffer, load->offset);
          },
          [&](OneOf<Store, StoreCombine> auto& store) { change(store.buffer, store.offset); },
          [](OneOf<Reset, Combine, CombineFirst, StoreFirst, Move, Barrier, Prefetch, For, If> auto&) {});
  }

  const Module& module_;
  Kernel& kernel_;
  std::vector<Piece> pieces_;  // of the current loop
  int count_ = 0;
};

}  // namespace

Module gpu_pieces(const Module& module) {
  return with_changed_kernels(module, [&](Kernel& kernel) { PieceMaker(module, kernel).look(statements(kernel)); });
}

}  // namespace caravan::schedule
