// The sizes that passes take from target/prelude_sizes.h are those of the functions that they call.
#include "caravan/target/prelude_sizes.h"

#include <gtest/gtest.h>

#include <string>

#include "caravan/codegen/prelude.h"
#include "caravan/target/gpu.h"
#include "caravan/target/tuning.h"

namespace caravan::codegen {
namespace {

using namespace prelude_sizes;

TEST(PreludeSizes, AreThoseOfThePrelude) {
  auto n = [](int64_t number) { return std::to_string(number); };
  struct Row {
    std::string_view prelude;
    std::string says;
  };
  const Row rows[] = {
      {kProductPrelude,
       "groups = plain && tile_rows == " + n(kGroupedTile) + " ? " + n(kGroupBytes) + " / sizeof(T) : 1"},
      {kProductPrelude, "warp_rows = tile_rows == " + n(kLargeTile) + " ? "},
      {kProductPrelude, "pad = along ? " + n(kRowGap) + " / sizeof(E) : " + n(kColumnGap) + ";"},
      {kProductPrelude, "sums_across = tile_columns + " + n(kColumnGap) + ";"},
      {kScatterPrelude, "sizeof(Noted) <= " + n(kAcrossBytes)},
      {kScatterPrelude, "rows <= " + n(kMostTableRows) + ","},
      {kAttentionPrelude, "caravan_attention_threads = " + n(kAttentionThreads) +
                              ", caravan_attention_rows_of_block = " + n(kAttentionRows) + ";"},
      {kAttentionPrelude, "terms = narrow ? " + n(kTerms) + " : 8, gap = units == caravan_plain ? " + n(kPlainGap) +
                              " : " + n(kGap) + ";"},
      {kAttentionPrelude, "chunk = " + n(kCopied) + " / sizeof(element)"},
      {kAttentionPrelude, "narrow && depth == " + n(kTogether) + " && width == " + n(kTogether) + ";"},
      {kAttentionPrelude, "::value ? " + n(kTileAlignment) + " : 16) caravan_tiles {"},
      {kCpuPrelude, "__builtin_assume_aligned(buffer, " + n(kCacheLine) + ")"},
      {kCpuPrelude, "at += " + n(kCacheLine) + ") __builtin_prefetch((const char*)from + at, 0, 3);"},
      {kCpuPrelude, "at += " + n(kCacheLine) + ") __builtin_prefetch((const char*)from + at, 0, 2);"},
      {kCpuAttentionPrelude, "__attribute__((aligned(" + n(kCacheLine) + ")))"},
      {kCpuAttentionPrelude, "k += " + n(kScoreLanes) + ") lanes += "},
      {kCpuAttentionPrelude, "#define CARAVAN_HIDDEN -1e30f\n"},
  };
  for (const Row& row : rows) EXPECT_NE(row.prelude.find(row.says), row.prelude.npos) << row.says;
  EXPECT_EQ(kHiddenScore, -1e30);
  EXPECT_EQ(kAcrossBytes, Gpu{}.most_threads * 8);
}

}  // namespace
}  // namespace caravan::codegen
