// A slice of a state is stored without the rest of it.
#include "caravan/schedule/narrow_updates.h"

#include <gtest/gtest.h>

#include "caravan/schedule/hoist.h"
#include "caravan/schedule/update_in_place.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

const Index kAt("at", 4);

Program updated(const Index& at = kAt) { return update(parameter("cache", "4|2"), at, parameter("key", "2")); }

TEST(NarrowUpdates, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"a slice of a state", [] { return updated(); }, {update_in_place}, R"(
kernel update
  for o0 < 2:
    r3:f32 = key[o0]
    cache[o0 + 2*at] = r3
)"},
      {"the same, when what does not change in a loop is before it",
       [] { return updated(); },
       {hoist, update_in_place},
       R"(
kernel update
  for o0 < 2:
    r3:f32 = key[o0]
    cache[o0 + 2*at] = r3
)"},
  };
  expect_rewritten(narrow_updates, rows);
}

TEST(NarrowUpdates, MustRefuse) {
  const std::vector<LoopRefusal> rows = {
      {"a value that is not stored in its state", [] { return updated(); }, {}},
      {"a state that also changes elsewhere",
       [] {
         Tensor cache = parameter("cache", "4|2");
         const Tensor here = einsum("n => n |", iota(4)) == kAt;
         return assign(cache, where(here, parameter("key", "2"), cache * 2));
       },
       {update_in_place}},
      {"other elements of the state",
       [] {
         Tensor v = parameter("v", "4"), w = parameter("w", "4");
         return assign(w, where(iota(4) == kAt, v, einsum("-i => i", w)));
       },
       {update_in_place}},
      {"a comparison with something else",
       [] {
         Tensor v = parameter("v", "4"), w = parameter("w", "4");
         return assign(w, where(iota(4) * 2 == kAt, v, w));
       },
       {update_in_place}},
      {"an index that may be outside of the state",
       [] {
         Tensor v = parameter("v", "4"), w = parameter("w", "4");
         return assign(w, where(iota(4) == Index("free"), v, w));
       },
       {update_in_place}},
  };
  expect_refused(narrow_updates, rows);
}

}  // namespace
}  // namespace caravan::schedule
