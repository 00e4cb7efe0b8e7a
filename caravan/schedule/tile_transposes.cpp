#include "caravan/schedule/tile_transposes.h"

#include <cstdlib>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

using namespace loop;

namespace {

constexpr int64_t kBlock = kCacheLine / 4;  // elements of f32 in a cache line
constexpr int64_t kLeastFar = 256;          // elements; lines that are nearer than this stay in the cache by themselves

// Does the pair of loops store along the inner one and load along the outer one?
bool transposes(const For& outer, const For& inner) {
  bool stores = false, loads = false;
  for_each_access(inner.body, [&](const Access& a) {
    const int64_t along_outer = coefficient(*a.offset, outer.variable),
                  along_inner = coefficient(*a.offset, inner.variable);
    if (a.write) stores = stores || along_inner == 1;
    if (!a.write) loads = loads || (along_outer == 1 && std::abs(along_inner) >= kLeastFar);
  });
  return stores && loads && !has_loop(inner.body) && outer.extent >= 2 * kBlock && inner.extent >= 2 * kBlock &&
         outer.kind == LoopKind::serial && inner.kind == LoopKind::serial;
}

void cut(Kernel& kernel, Block& block) {
  rewrite(block, [&](Statement& s, Block& out) {
    auto* outer = std::get_if<For>(&s);
    auto* inner = outer && outer->body.size() == 1 ? std::get_if<For>(&outer->body[0]) : nullptr;
    const bool fits = inner && transposes(*outer, *inner) && outer->extent % kBlock == 0 &&
                      inner->extent % kBlock == 0 && independent(outer->variable, outer->extent, outer->body) &&
                      independent(inner->variable, inner->extent, inner->body);
    if (!fits) {
      if (Block* within = inside(s)) cut(kernel, *within);
      out.push_back(std::move(s));
      return;
    }
    const Variable i = add_variable(kernel, kernel.variables[size_t(outer->variable)] + "_in"),
                   j = add_variable(kernel, kernel.variables[size_t(inner->variable)] + "_in");
    Block body = std::move(inner->body);
    substitute(body, outer->variable, Term::iterator(outer->variable, kBlock) + Term::iterator(i));
    substitute(body, inner->variable, Term::iterator(inner->variable, kBlock) + Term::iterator(j));
    auto around = [](Variable variable, int64_t extent, Block inside) {
      Block one;
      one.push_back(For{variable, extent, LoopKind::serial, std::move(inside)});
      return one;
    };
    body = around(j, kBlock, std::move(body));
    std::get<For>(body[0]).unroll =
        Unroll::full;  // not as vectors: gathering one costs more than its elements one by one
    body = around(i, kBlock, std::move(body));
    body = around(inner->variable, inner->extent / kBlock, std::move(body));
    append(out, around(outer->variable, outer->extent / kBlock, std::move(body)));
  });
}

}  // namespace

Module tile_transposes(const Module& module) {
  Module out = module;
  for (Kernel& kernel : out.kernels)
    if (!library_call(kernel)) cut(kernel, statements(kernel));
  return out;
}

}  // namespace caravan::schedule
