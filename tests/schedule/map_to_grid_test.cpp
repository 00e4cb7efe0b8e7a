// Loops shared by the threads of a GPU.
#include "caravan/schedule/map_to_grid.h"

#include <gtest/gtest.h>

#include "caravan/loop/walk.h"
#include "caravan/schedule/fuse.h"
#include "schedule/for_gpu.h"

namespace caravan::schedule {
namespace {

loop::Module mapped(const Program& program, const Gpu& gpu = {}) {
  const loop::Module out = map_to_grid(lowered_for_gpu(program, gpu_target(gpu)), gpu_target(gpu));
  loop::verify(out);
  return out;
}
Program product(const std::string& left, const std::string& right) {
  return observe(einsum("i,k; k,o => i,o", parameter("x", left), parameter("w", right)).named("y"));
}
bool in_tiles(const loop::Module& module) {
  return std::any_of(module.kernels.begin(), module.kernels.end(),
                     [](const loop::Kernel& k) { return !k.contractions.empty(); });
}

std::string last_kernel(const loop::Module& module) {
  return joined(lines_of(loop::to_string(module, module.kernels.back())));
}

// On a GPU of so few threads that 64 columns are enough for it.
loop::Module in_columns(const Program& program) {
  Gpu gpu;
  gpu.multiprocessors = 1, gpu.threads_in_flight = 1024;
  return mapped(program, gpu);
}
TEST(MapToGrid, AThreadAddsUpSeveralColumns) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char* after;
  };
  const Row rows[] = {
      {"four of f32", [] { return observe(einsum("i,j => j", parameter("a", "1024,64")).named("y")); }, R"(
kernel y
  local columns1:f32[4] in registers
  local columns2:f32[4] in registers
  groups of 32 threads, spread
  blocks of 256 threads, 8192 bytes of shared memory, 32-bit indices
  for j < 16 grid:
    for n < 4 written out:
      r4:f32 = 0
      columns1[n] = r4
      r5:f32 = 0
      columns2[n] = r5
    for i < 1024 lanes:
      for n < 4 written out:
        r0:f32 = a[4*j + 64*i + n]
        columns2[n] += r0
    for n < 4 written out:
      r6:f32 = columns2[n]
      r3:f32 = sum across lanes of r6
      columns1[n] += r3
    for lane < 1 lanes:
      for n < 4 written out:
        r7:f32 = columns1[n]
        y[4*j + n] = r7
)"},
  };
  for (const Row& row : rows) EXPECT_EQ(last_kernel(in_columns(row.program())), trimmed(row.after)) << row.name;
}
// A row of 400 kB is read twice. 1024 groups would have 400 MB of them under way, and so a block of threads takes a
// row.
TEST(MapToGrid, RowsThatAreReadAgainFitIntoTheCache) {
  auto program = [](const char* shape) {
    const Tensor x = parameter("x", shape);
    return observe(einsum("i,j; i => i,j", x, einsum("i,j => i", x)).named("y"));
  };
  auto lanes = [&](const char* shape, const Gpu& gpu) {
    const Target target = gpu_target(gpu);
    return map_to_grid(fuse_for_gpu(lowered_for_gpu(program(shape), target), target), target).kernels.back().grid.lanes;
  };
  EXPECT_EQ(lanes("32768,100000", {}), 1024);
  EXPECT_EQ(lanes("32768,1000", {}), 32);
  Gpu gpu;
  gpu.rows_in_cache = int64_t(1) << 40;
  EXPECT_EQ(lanes("32768,100000", gpu), 32);
}

TEST(MapToGrid, AThreadTakesOneColumn) {
  const std::vector<Refusal> rows = {
      {"an odd number of them", [] { return observe(einsum("i,j => j", parameter("a", "1024,65")).named("y")); }},
      {"rows begin at odd places", [] { return observe(einsum("i,1^j => j", parameter("a", "1024,65")).named("y")); }},
      {"too few rows for the lanes", [] { return observe(einsum("i,j => j", parameter("a", "96,64")).named("y")); }},
      {"too few columns for the GPU", [] { return observe(einsum("i,j => j", parameter("a", "1024,8")).named("y")); }},
      {"a position is kept", [] { return observe(argmax("i,j => j", parameter("a", "1024,64")).named("y")); }},
  };
  for (const Refusal& row : rows)
    EXPECT_FALSE(last_kernel(in_columns(row.program())).find("columns1") != std::string::npos) << row.reason;
}

TEST(MapToGrid, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char* after;
  };
  const Row rows[] = {
      {"a thread for each element", [] { return observe(exp(parameter("a", "64,1024")).named("y")); }, R"(
kernel y
  blocks of 256 threads, 32-bit indices
  for o0 < 64 grid:
    for o1 < 1024 grid:
      r0:f32 = a[1024*o0 + o1]
      r1:f32 = exp(r0)
      y[1024*o0 + o1] = r1
)"},
      {"the lanes of a group add a row",
       [] { return observe(einsum("i,j => i", parameter("a", "4096,65")).named("y")); },
       R"(
kernel y
  groups of 32 threads
  blocks of 256 threads, 8192 bytes of shared memory, 32-bit indices
  for i < 4096 grid:
    r1:f32 := 0
    r2:f32 := 0
    for j < 65 lanes:
      r0:f32 = a[65*i + j]
      r2 += r0
    r3:f32 = sum across lanes of r2
    r1 += r3
    for lane < 1 lanes:
      y[i] = r1
)"},
      {"neighbouring threads add neighbouring columns",
       [] { return observe(einsum("i,j => j", parameter("a", "1024,64")).named("y")); }, R"(
kernel y
  groups of 32 threads, spread
  blocks of 256 threads, 8192 bytes of shared memory, 32-bit indices
  for j < 64 grid:
    r1:f32 := 0
    r2:f32 := 0
    for i < 1024 lanes:
      r0:f32 = a[j + 64*i]
      r2 += r0
    r3:f32 = sum across lanes of r2
    r1 += r3
    for lane < 1 lanes:
      y[j] = r1
)"},
      {"also if all columns are multiplied by the same numbers, which are neighbours along the rows",
       [] {
         return observe(
             einsum("i,j; i; i => j", parameter("a", "1024,64"), parameter("b", "1024"), parameter("c", "1024"))
                 .named("y"));
       },
       R"(
kernel y
  groups of 32 threads, spread
  blocks of 256 threads, 8192 bytes of shared memory, 32-bit indices
  for j < 64 grid:
    r5:f32 := 0
    r6:f32 := 0
    for i < 1024 lanes:
      r0:f32 = a[j + 64*i]
      r1:f32 = b[i]
      r2:f32 = mul(r0, r1)
      r3:f32 = c[i]
      r6 += r2 * r3 fused
    r7:f32 = sum across lanes of r6
    r5 += r7
    for lane < 1 lanes:
      y[j] = r5
)"},
      {"two outer loops are two kernels: only the end of a kernel is a barrier for all groups",
       [] { return observe(einsum("i^1,j => 1^i,j", parameter("a", "8,16")).named("y")); }, R"(
kernel y
  blocks of 64 threads, 32-bit indices
  for e < 128 grid:
    r0:f32 = 0
    y[e] = r0
kernel y
  blocks of 64 threads, 32-bit indices
  for i < 7 grid:
    for j < 16 grid:
      r1:f32 = a[16*i + j]
      y[16*i + j + 16] = r1
)"},
      {"a table looks for its indices", table_gradient, R"(
kernel y
  blocks of 64 threads, 32-bit indices
  for e < 1792 grid:
    r0:f32 = 0
    y[e] = r0
kernel y
  groups of 128 threads
  blocks of 256 threads, 8192 bytes of shared memory, 32-bit indices
  for v < 28 grid:
    for d0 < 64 grid:
      r4:f32 := 0
      r5:f32 := 0
      for b0 < 1024 lanes:
        r1:i32 = data[b0]
        r2:i64 = cast r1 to i64
        if r2 - v >= 0 and v - r2 >= 0:
          r3:f32 = g[64*b0 + d0]
          r5 += r3
      r6:f32 = sum across lanes of r5
      r4 += r6
      for lane < 1 lanes:
        y[28*d0 + v] += r4
)"},
      {"a product", [] { return product("256,64", "64,384"); }, R"(
kernel y
  groups of 256 threads
  blocks of 256 threads, 40960 bytes of shared memory, 32-bit indices
  tiles of 32 x 32 of 256 rows, 384 columns, 64 terms
  panels of 32 terms, no tensor cores, 3 stages, 1 slice; left along terms, 16 bytes a copy; right along columns, 16 bytes a copy
  for once < 1 grid:
    for i < 256 rows:
      for o < 384 columns:
        r3:f32 := 0
        for k < 64 terms:
          r0:f32 = x[64*i + k]
          r1:f32 = w[o + 384*k]
          r3 += r0 * r1 fused
        y[384*i + o] = r3
)"},
      {"a product whose border is padded",
       [] {
         return observe(
             einsum("b,i<1+k,c; k,c,o => b,i,o", parameter("x", "4,40,16"), parameter("w", "3,16,32")).named("y"));
       },
       R"(
kernel y
  groups of 256 threads
  blocks of 256 threads, 40960 bytes of shared memory, 32-bit indices
  tiles of 32 x 32 of 160 rows, 32 columns, 48 terms
  panels of 32 terms, no tensor cores, 3 stages, 1 slice; left along terms, 16 bytes a copy, guarded; right along columns, 16 bytes a copy
  for once < 1 grid:
    for b < 4 rows:
      for i < 40 rows:
        for o < 32 columns:
          r3:f32 := 0
          for k < 3 terms:
            for c < 16 terms:
              if i + k - 1 >= 0 and 40 - i - k >= 0:
                r0:f32 = x[640*b + 16*i + 16*k + c - 16]
                r1:f32 = w[o + 512*k + 32*c]
                r3 += r0 * r1 fused
          y[1280*b + 32*i + o] = r3
)"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(loops(mapped(row.program())), trimmed(row.after));
  }
}

TEST(MapToGrid, BlocksOfThreadsShareALargeTable) {
  EXPECT_EQ(last_kernel(mapped(table_gradient(), {.multiprocessors = 3, .most_matched = 1000})), trimmed(R"(
kernel y
  groups of 1024 threads
  blocks of 1024 threads, 8192 bytes of shared memory, 32-bit indices
  for once < 1 grid by 10 blocks:
    for v < 28 rows:
      for d0 < 64 columns:
        r4:f32 := 0
        for b0 < 1024 terms:
          r1:i32 = data[b0]
          r2:i64 = cast r1 to i64
          if r2 - v >= 0 and v - r2 >= 0:
            r3:f32 = g[64*b0 + d0]
            r4 += r3
        y[28*d0 + v] += r4
)"));
}

TEST(MapToGrid, LanesWaitForWhatOthersHaveStored) {
  auto barriers = [](const std::vector<Tensor>& results) {
    const loop::Module before = fuse_for_gpu(lowered_for_gpu(observe(results)), gpu_target());
    EXPECT_EQ(before.kernels.size(), 1u) << loops(before);
    const loop::Module after = map_to_grid(before, gpu_target());
    loop::verify(after);
    int out = 0;
    loop::for_each_of<loop::Barrier>(loop::statements(after.kernels[0]), [&](const loop::Barrier&) { ++out; });
    return out;
  };
  const Tensor x = parameter("x", "64,512"), e = exp(x).named("e");
  EXPECT_EQ(barriers({e, einsum("i,j => i", e)}), 1) << "the sum reads what other lanes have stored";
  EXPECT_EQ(barriers({einmax("i,j => i", x), einsum("i,j => i", x)}), 0) << "nothing is stored before it is read";
}

TEST(MapToGrid, NoLanes) {
  const Refusal rows[] = {
      {"a short sum", [] { return observe(einsum("i,j => i", parameter("a", "64,15"))); }},
      {"the first of the largest: one thread must see all",
       [] { return observe(argmax("i,j => i", parameter("a", "8,640"))); }},
  };
  for (const Refusal& row : rows)
    for (const loop::Kernel& kernel : mapped(row.program()).kernels) EXPECT_EQ(kernel.grid.lanes, 1) << row.reason;
}

TEST(MapToGrid, NotInTiles) {
  ASSERT_TRUE(in_tiles(mapped(product("256,64", "64,384"))));
  const Refusal rows[] = {
      {"too few rows", [] { return product("7,64", "64,1024"); }},
      {"too few columns", [] { return product("1024,64", "64,7"); }},
      {"too few terms", [] { return product("256,7", "7,256"); }},
      {"too few multiplications", [] { return product("16,16", "16,16"); }},
      {"few sums of many terms, which lanes share", [] { return product("16,8192", "8192,16"); }},
      {"a maximum",
       [] { return observe(einmax("i,k; k,o => i,o", parameter("x", "256,64"), parameter("w", "64,256"))); }},
      {"integers",
       [] {
         return observe(einsum("i,k; k,o => i,o", cast(parameter("x", "256,64"), DType::i32),
                               cast(parameter("w", "64,256"), DType::i32)));
       }},
      {"the border belongs to both factors",
       [] {
         return observe(einsum("i<1+k; o<1+k => i,o", parameter("x", "64"), parameter("w", "64"), {{"k", 32}}));
       }},
  };
  for (const Refusal& row : rows) {
    const loop::Module module = mapped(row.program());
    EXPECT_FALSE(in_tiles(module)) << row.reason << '\n' << loops(module);
  }
}

TEST(MapToGrid, TilesAreAsLargeAsThereAreEnoughOf) {
  struct Row {
    const char *left, *right;
    int64_t tile, slices;
  };
  for (const Row& row : {Row{"4096,256", "256,4096", 64, 1}, Row{"128,784", "784,512", 32, 2},
                         Row{"64,1024", "1024,64", 32, 8}, Row{"64,64", "64,64", 32, 1}}) {
    const loop::Module module = mapped(product(row.left, row.right));
    ASSERT_EQ(module.kernels.back().contractions.size(), 1u);
    const loop::Contraction& c = module.kernels.back().contractions[0];
    EXPECT_EQ(c.tile_rows, row.tile) << row.left;
    EXPECT_EQ(c.tile_columns, row.tile) << row.left;
    EXPECT_EQ(c.slices, row.slices) << row.left;
    EXPECT_EQ(module.kernels.back().grid.threads, row.tile == 64 ? 128 : 256) << row.left;
    EXPECT_LE(module.kernels.back().grid.shared_bytes, Gpu{}.shared_bytes) << row.left;
  }
}

// Every thread count is one that a GPU can run, whatever the sizes.
TEST(MapToGrid, BlocksHaveWholeGroups) {
  for (const char* shape : {"1,17", "3,5000", "200,33", "5000,129", "100000,64", "2,1000000"})
    for (const char* spec : {"i,j => i", "i,j => j", "i,j => "}) {
      const loop::Module module =
          mapped(observe(einsum(caravan::spec(spec, Source::here()), parameter("a", shape)).named("y")));
      for (const loop::Kernel& kernel : module.kernels) {
        const loop::Grid& grid = kernel.grid;
        EXPECT_GE(grid.lanes, 1) << spec << ' ' << shape;
        EXPECT_EQ(grid.threads % grid.lanes, 0) << spec << ' ' << shape;
        EXPECT_LE(grid.threads, Gpu{}.most_threads) << spec << ' ' << shape;
      }
    }
}

}  // namespace
}  // namespace caravan::schedule
