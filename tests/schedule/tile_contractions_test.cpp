// Contractions in tiles. (contraction_test compiles and runs them.)
#include "caravan/schedule/tile_contractions.h"

#include <gtest/gtest.h>

#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "pass_table.h"
#include "schedule/split_lowered.h"

namespace caravan::schedule {
namespace {

// A processor with vectors of 32 bytes and fused multiply-add, wherever the tests run.
Target with_fma() {
  Target out = tested_target();
  out.fma = true;
  return out;
}
loop::Module tiled(const loop::Module& module) { return tile_contractions(module, with_fma()); }
loop::Module lowered_for_tiles(const Program& program) { return split_lowered(program, with_fma()); }
Program plain_product(const std::string& left, const std::string& right) {
  return observe(einsum("i,k; k,j => i,j", parameter("x", left), parameter("w", right)).named("y"));
}

TEST(TileContractions, BeforeAndAfter) {
  const std::vector<LoopRewrite> rows = {
      {"sums are finished with the last block of terms",
       [] { return plain_product("4,300", "300,16"); },
       {},
       R"(
kernel y
  local sums:f32[64] in memory, aligned to 64 bytes
  tiles of 4 x 16 of 4 rows, 16 columns, 300 terms
  for i_block < 1:
    for e < 64 vector:
      r4:f32 = 0
      sums[e] = r4
    for k_block < 3:
      for j_tile < 1:
        for i_tile < 1:
          r5:f32x8 := 0
          r6:f32x8 := 0
          r7:f32x8 := 0
          r8:f32x8 := 0
          r9:f32x8 := 0
          r10:f32x8 := 0
          r11:f32x8 := 0
          r12:f32x8 := 0
          for k_in < 100:
            r14:f32x8 = w[1600*k_block + 16*k_in]
            r16:f32x8 = w[1600*k_block + 16*k_in + 8]
            r18:f32 = x[100*k_block + k_in]
            r5 += r14 * r18 fused
            r6 += r16 * r18 fused
            r20:f32 = x[100*k_block + k_in + 300]
            r7 += r14 * r20 fused
            r8 += r16 * r20 fused
            r22:f32 = x[100*k_block + k_in + 600]
            r9 += r14 * r22 fused
            r10 += r16 * r22 fused
            r24:f32 = x[100*k_block + k_in + 900]
            r11 += r14 * r24 fused
            r12 += r16 * r24 fused
          if 199 - 100*k_block >= 0:
            sums[0] += r5
            sums[8] += r6
            sums[16] += r7
            sums[24] += r8
            sums[32] += r9
            sums[40] += r10
            sums[48] += r11
            sums[56] += r12
          if 100*k_block - 200 >= 0:
            r25:f32x8 = sums[0]
            r26:f32x8 = add(r25, r5)
            y[0] = r26
            r27:f32x8 = sums[8]
            r28:f32x8 = add(r27, r6)
            y[8] = r28
            r29:f32x8 = sums[16]
            r30:f32x8 = add(r29, r7)
            y[16] = r30
            r31:f32x8 = sums[24]
            r32:f32x8 = add(r31, r8)
            y[24] = r32
            r33:f32x8 = sums[32]
            r34:f32x8 = add(r33, r9)
            y[32] = r34
            r35:f32x8 = sums[40]
            r36:f32x8 = add(r35, r10)
            y[40] = r36
            r37:f32x8 = sums[48]
            r38:f32x8 = add(r37, r11)
            y[48] = r38
            r39:f32x8 = sums[56]
            r40:f32x8 = add(r39, r12)
            y[56] = r40
)"},
      {"both operands are read in place",
       [] { return plain_product("6,32", "32,96"); },
       {},
       R"(
kernel y
  tiles of 3 x 24 of 6 rows, 96 columns, 32 terms
  for i_block < 1:
    for j_tile < 4:
      for i_tile < 2:
        r4:f32x8 := 0
        r5:f32x8 := 0
        r6:f32x8 := 0
        r7:f32x8 := 0
        r8:f32x8 := 0
        r9:f32x8 := 0
        r10:f32x8 := 0
        r11:f32x8 := 0
        r12:f32x8 := 0
        for k < 32:
          r14:f32x8 = w[96*k + 24*j_tile]
          r16:f32x8 = w[96*k + 24*j_tile + 8]
          r18:f32x8 = w[96*k + 24*j_tile + 16]
          r20:f32 = x[k + 96*i_tile]
          r4 += r14 * r20 fused
          r5 += r16 * r20 fused
          r6 += r18 * r20 fused
          r22:f32 = x[k + 96*i_tile + 32]
          r7 += r14 * r22 fused
          r8 += r16 * r22 fused
          r9 += r18 * r22 fused
          r24:f32 = x[k + 96*i_tile + 64]
          r10 += r14 * r24 fused
          r11 += r16 * r24 fused
          r12 += r18 * r24 fused
        y[24*j_tile + 288*i_tile] = r4
        y[24*j_tile + 288*i_tile + 8] = r5
        y[24*j_tile + 288*i_tile + 16] = r6
        y[24*j_tile + 288*i_tile + 96] = r7
        y[24*j_tile + 288*i_tile + 104] = r8
        y[24*j_tile + 288*i_tile + 112] = r9
        y[24*j_tile + 288*i_tile + 192] = r10
        y[24*j_tile + 288*i_tile + 200] = r11
        y[24*j_tile + 288*i_tile + 208] = r12
)",
       R"(
kernel y
  for i < 6:
    for j < 96:
      r3:f32 := 0
      for k < 32:
        r0:f32 = x[32*i + k]
        r1:f32 = w[j + 96*k]
        r3 += r0 * r1 fused
      y[96*i + j] = r3
)"},
      {"a single row",
       [] { return observe(einsum("k; k,j => j", parameter("x", "64"), parameter("w", "64,64")).named("y")); },
       {},
       R"(
kernel y
  tiles of 1 x 64 of 1 rows, 64 columns, 64 terms
  for row_block < 1:
    for j_tile < 1:
      for row_tile < 1:
        r4:f32x8 := 0
        r5:f32x8 := 0
        r6:f32x8 := 0
        r7:f32x8 := 0
        r8:f32x8 := 0
        r9:f32x8 := 0
        r10:f32x8 := 0
        r11:f32x8 := 0
        for k < 64:
          r13:f32x8 = w[64*k]
          r15:f32x8 = w[64*k + 8]
          r17:f32x8 = w[64*k + 16]
          r19:f32x8 = w[64*k + 24]
          r21:f32x8 = w[64*k + 32]
          r23:f32x8 = w[64*k + 40]
          r25:f32x8 = w[64*k + 48]
          r27:f32x8 = w[64*k + 56]
          r29:f32 = x[k]
          r30:f32x8 = mul(r13, r29)
          r4 += r30
          r31:f32x8 = mul(r15, r29)
          r5 += r31
          r32:f32x8 = mul(r17, r29)
          r6 += r32
          r33:f32x8 = mul(r19, r29)
          r7 += r33
          r34:f32x8 = mul(r21, r29)
          r8 += r34
          r35:f32x8 = mul(r23, r29)
          r9 += r35
          r36:f32x8 = mul(r25, r29)
          r10 += r36
          r37:f32x8 = mul(r27, r29)
          r11 += r37
        y[0] = r4
        y[8] = r5
        y[16] = r6
        y[24] = r7
        y[32] = r8
        y[40] = r9
        y[48] = r10
        y[56] = r11
)"},
      {"what follows the sum is computed tile by tile",
       [] {
         return observe(
             (einsum("i,k; k,j => i,j", parameter("x", "6,32"), parameter("w", "32,96")) + parameter("b", "96"))
                 .named("y"));
       },
       {fuse, forward_stores},
       R"(
kernel einsum
  local tile:f32[72] in memory, aligned to 64 bytes
  tiles of 3 x 24 of 6 rows, 96 columns, 32 terms
  for i_block < 1:
    for j_tile < 4:
      for i_tile < 2:
        r7:f32x8 := 0
        r8:f32x8 := 0
        r9:f32x8 := 0
        r10:f32x8 := 0
        r11:f32x8 := 0
        r12:f32x8 := 0
        r13:f32x8 := 0
        r14:f32x8 := 0
        r15:f32x8 := 0
        for k < 32:
          r17:f32x8 = w[96*k + 24*j_tile]
          r19:f32x8 = w[96*k + 24*j_tile + 8]
          r21:f32x8 = w[96*k + 24*j_tile + 16]
          r23:f32 = x[k + 96*i_tile]
          r7 += r17 * r23 fused
          r8 += r19 * r23 fused
          r9 += r21 * r23 fused
          r25:f32 = x[k + 96*i_tile + 32]
          r10 += r17 * r25 fused
          r11 += r19 * r25 fused
          r12 += r21 * r25 fused
          r27:f32 = x[k + 96*i_tile + 64]
          r13 += r17 * r27 fused
          r14 += r19 * r27 fused
          r15 += r21 * r27 fused
        tile[0] = r7
        tile[8] = r8
        tile[16] = r9
        tile[24] = r10
        tile[32] = r11
        tile[40] = r12
        tile[48] = r13
        tile[56] = r14
        tile[64] = r15
        for i_in < 3:
          for j_in < 24 vector:
            r28:f32 = tile[24*i_in + j_in]
            r29:f32 = b[24*j_tile + j_in]
            r30:f32 = add(r28, r29)
            y[24*j_tile + 288*i_tile + 96*i_in + j_in] = r30
)"},
  };
  expect_rewritten(tiled, rows, lowered_for_tiles);
}

TEST(TileContractions, SizesOfTiles) {
  struct Row {
    const char *left, *right;
    int64_t rows, columns;
  };
  for (const Row& row : {Row{"64,48", "48,96", 3, 24}, Row{"1,300", "300,300", 1, 64}}) {
    const loop::Module module = tiled(lowered_for_tiles(plain_product(row.left, row.right)));
    loop::verify(module);
    ASSERT_EQ(module.kernels[0].contractions.size(), 1u) << row.left;
    EXPECT_EQ(module.kernels[0].contractions[0].tile_rows, row.rows) << row.left;
    EXPECT_EQ(module.kernels[0].contractions[0].tile_columns, row.columns) << row.left;
  }
}

TEST(TileContractions, MoreThreadsShareNarrowerBlocks) {
  struct Row {
    const char *left, *right;
    int threads;
    int64_t column_blocks;  // beside 8 blocks of rows
  };
  const Row rows[] = {
      {"1024,1024", "1024,1024", 2, 2},  {"1024,1024", "1024,1024", 4, 4}, {"1024,1024", "1024,1024", 8, 4},
      {"1024,1024", "1024,1024", 64, 4}, {"2048,2048", "2048,2048", 4, 4}, {"2048,2048", "2048,2048", 8, 8},
  };
  for (const Row& row : rows) {
    Target target = with_fma();
    target.threads = row.threads;
    const loop::Module module = tile_contractions(lowered_for_tiles(plain_product(row.left, row.right)), target);
    loop::verify(module);
    const std::string expected = "for i_block < 8:\n    for j_block < " + std::to_string(row.column_blocks) + ":\n";
    EXPECT_NE(loops(module).find(expected), std::string::npos) << row.left << ", " << row.threads;
  }
}

// Of 64 rows, ten tiles of six ask for the next 2048 packed elements, 128 terms of 16 columns: two with each term. A
// prefetch asks for the cache line in which they are.
TEST(TileContractions, PrefetchColumnsThatAreLargerThanTheSecondLevelCache) {
  struct Row {
    int64_t l1, l2;
    std::vector<std::string> expected;
  };
  const loop::Module before = lowered_for_tiles(plain_product("512,512", "512,512"));
  for (const Row& row : {Row{32 << 10,
                             256 << 10,
                             {"prefetch 16 of packed for y 3[16384*j_block + 65536*k_block + 2*k_in + 2048*j_tile + "
                              "256*i_tile + 2048] into the nearest cache"}},
                         Row{16 << 10,
                             256 << 10,
                             {"prefetch 16 of packed for y 3[16384*j_block + 65536*k_block + 2*k_in + 2048*j_tile + "
                              "256*i_tile + 2048] into the second-level "
                              "cache"}},
                         Row{32 << 10, 1 << 20, {}}, Row{0, 0, {}}}) {
    Target target = with_fma();
    target.l1 = row.l1, target.l2 = row.l2;
    const loop::Module module = tile_contractions(before, target);
    loop::verify(module);
    std::vector<std::string> lines;
    std::istringstream text(loops(module));
    for (std::string line; std::getline(text, line);)
      if (const size_t at = line.find("prefetch"); at != line.npos) lines.push_back(line.substr(at));
    EXPECT_EQ(lines, row.expected) << row.l2;
  }
}

TEST(TileContractions, MustRefuse) {
  const std::vector<LoopRefusal> rows = {
      {"a small product", [] { return plain_product("10,16", "16,16"); }, {}},
      {"few terms", [] { return plain_product("64,7", "7,96"); }, {}},
      {"a row whose columns are far apart",
       [] { return observe(einsum("k; j,k => j", parameter("a", "300"), parameter("b", "100,300"))); },
       {}},
      {"a sum", [] { return observe(einsum("i,j => i", parameter("a", "64,640"))); }, {}},
      {"a maximum",
       [] { return observe(einmax("i,k; k,j => i,j", parameter("a", "64,48"), parameter("b", "48,96"))); },
       {}},
  };
  for (const LoopRefusal& row : rows) {
    const loop::Module before = lowered_for_tiles(row.program());
    EXPECT_EQ(loops(tiled(before)), loops(before)) << row.reason;
  }
}

}  // namespace
}  // namespace caravan::schedule
