// What a thread of a GPU loads and stores together.
#include "caravan/schedule/gpu_pieces.h"

#include <gtest/gtest.h>

#include "by_hand.h"
#include "caravan/schedule/gpu_neighbours.h"
#include "caravan/schedule/map_to_grid.h"
#include "schedule/for_gpu.h"

namespace caravan::schedule {
namespace {

const Target kOneMultiprocessor = small_gpu(1, 128);
loop::Module in_neighbours(const Program& program) {
  return gpu_neighbours(map_to_grid(lowered_for_gpu(program, kOneMultiprocessor), kOneMultiprocessor),
                        kOneMultiprocessor);
}

TEST(GpuPieces, BeforeAndAfter) {
  const Tensor a = parameter("a", "64,32"), narrow = param("a", Array(parse_shape("64,32"), DType::bf16));
  const std::vector<LoopRewrite> rows = {
      {"of each operand and of the result",
       [&] { return observe((a + parameter("b", "32")).named("y")); },
       {},
       R"(
kernel y
  local piece0:f32[4] in a piece
  local piece1:f32[4] in a piece
  local piece2:f32[4] in a piece
  blocks of 256 threads, 32-bit indices
  for o0 < 64 grid:
    for o1 < 8 grid:
      piece0 = 4 of a[32*o0 + 4*o1]
      piece1 = 4 of b[4*o1]
      for n < 4 written out:
        r0:f32 = piece0[n]
        r1:f32 = piece1[n]
        r2:f32 = add(r0, r1)
        piece2[n] = r2
      4 of y[32*o0 + 4*o1] = piece2
)",
       R"(
kernel y
  blocks of 256 threads, 32-bit indices
  for o0 < 64 grid:
    for o1 < 8 grid:
      for n < 4 written out:
        r0:f32 = a[32*o0 + 4*o1 + n]
        r1:f32 = b[4*o1 + n]
        r2:f32 = add(r0, r1)
        y[32*o0 + 4*o1 + n] = r2
)"},
      {"in the precision of memory",
       [&] { return observe(cast(narrow, DType::f32).named("y")); },
       {},
       R"(
kernel y
  local piece0:bf16[8] in a piece
  local piece1:f32[8] in a piece
  blocks of 256 threads, 32-bit indices
  for o0 < 64 grid:
    for o1 < 4 grid:
      piece0 = 8 of a[32*o0 + 8*o1]
      for n < 8 written out:
        r0:f32 = piece0[n]
        r1:f32 = cast r0 to f32
        piece1[n] = r1
      8 of y[32*o0 + 8*o1] = piece1
)"},
      {"not what is the same for all neighbours",
       [&] { return observe(einsum("i,j; i => i,j", a, parameter("c", "64")).named("y")); },
       {},
       R"(
kernel y
  local piece0:f32[4] in a piece
  local piece1:f32[4] in a piece
  blocks of 256 threads, 32-bit indices
  for i < 64 grid:
    for j < 8 grid:
      piece0 = 4 of a[32*i + 4*j]
      for n < 4 written out:
        r0:f32 = piece0[n]
        r1:f32 = c[i]
        r2:f32 = mul(r0, r1)
        piece1[n] = r2
      4 of y[32*i + 4*j] = piece1
)"},
      {"what a lane adds up",
       [&] { return observe(einsum("i,j => i", parameter("a", "64,512")).named("y")); },
       {},
       R"(
kernel y
  local piece0:f32[4] in a piece
  groups of 32 threads
  blocks of 256 threads, 8192 bytes of shared memory, 32-bit indices
  for i < 64 grid:
    r1:f32 := 0
    r2:f32 := 0
    for j < 128 lanes:
      piece0 = 4 of a[512*i + 4*j]
      for n < 4 written out:
        r0:f32 = piece0[n]
        r2 += r0
    r3:f32 = sum across lanes of r2
    r1 += r3
    for lane < 1 lanes:
      y[i] = r1
)"},
      {"columns",
       [&] { return observe(einsum("i,j => j", parameter("a", "1024,64")).named("y")); },
       {},
       R"(
kernel y
  local columns1:f32[4] in registers
  local columns2:f32[4] in registers
  local piece0:f32[4] in a piece
  local piece1:f32[4] in a piece
  groups of 16 threads, spread
  blocks of 128 threads, 8192 bytes of shared memory, 32-bit indices
  for j < 16 grid:
    for n < 4 written out:
      r4:f32 = 0
      columns1[n] = r4
      r5:f32 = 0
      columns2[n] = r5
    for i < 1024 lanes:
      piece0 = 4 of a[4*j + 64*i]
      for n < 4 written out:
        r0:f32 = piece0[n]
        columns2[n] += r0
    for n < 4 written out:
      r6:f32 = columns2[n]
      r3:f32 = sum across lanes of r6
      columns1[n] += r3
    for lane < 1 lanes:
      for n < 4 written out:
        r7:f32 = columns1[n]
        piece1[n] = r7
      4 of y[4*j] = piece1
)"},
  };
  expect_rewritten(gpu_pieces, rows, in_neighbours);
}

// Kernels over a, b and y of 1024 elements, whose loop over i is written out. Register 1 is an index.
loop::Module written_out(loop::Block body, int64_t extent = 4) {
  loop::Module module = by_hand({kF, DType::i64}, {looped(0, std::move(body), extent)});
  for (ir::Buffer& buffer : module.buffers) buffer.shape = parse_shape("1024");
  std::get<loop::For>(loop::statements(module.kernels[0])[0]).unroll = loop::Unroll::full;
  return module;
}
TEST(GpuPieces, WhatIsLoadedAndStoredIsOnePiece) {
  const loop::Module out = gpu_pieces(written_out({element(0, 0, kI), loop::Store{0, kI, 0}}));
  loop::verify(out);
  EXPECT_EQ(loops(out), trimmed(R"(
kernel k
  local piece0:f32[4] in a piece
  piece0 = 4 of a[0]
  for i < 4 written out:
    r0:f32 = piece0[i]
    piece0[i] = r0
  4 of a[0] = piece0
)"));
}
TEST(GpuPieces, Refusals) {
  const ir::Term further = kI + ir::Term::number(4);
  loop::Module free = written_out({element(0, 0, kI)});
  std::get<loop::For>(loop::statements(free.kernels[0])[0]).unroll = loop::Unroll::free;
  expect_refused_by_hand(
      gpu_pieces,
      {{"the loop may not be written out", free},
       {"three elements", written_out({element(0, 0, kI)}, 3)},
       {"they begin between two multiples of their number", written_out({element(0, 0, kI + ir::Term::number(2))})},
       {"another stride", written_out({element(0, 0, ir::Term::iterator(0, 4))})},
       {"a guard", written_out({loop::If{{kI + ir::Term::number(-1)}, {element(0, 0, kI)}}})},
       {"the loop finds out where they are",
        written_out({loop::Define{1, loop::IndexValue{kI}}, element(0, 0, ir::Term::load(1) * 4 + kI)})},
       {"others of the buffer are loaded", written_out({element(0, 0, further), loop::Store{0, kI, 0}})}});
}

}  // namespace
}  // namespace caravan::schedule
