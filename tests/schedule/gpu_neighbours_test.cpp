// Threads of a GPU that take several neighbours at a time.
#include "caravan/schedule/gpu_neighbours.h"

#include <gtest/gtest.h>

#include "by_hand.h"
#include "caravan/schedule/map_to_grid.h"
#include "schedule/for_gpu.h"

namespace caravan::schedule {
namespace {

const Target kTwoMultiprocessors = small_gpu(2, 64);
loop::Module on_threads(const Program& program) {
  return map_to_grid(lowered_for_gpu(program, kTwoMultiprocessors), kTwoMultiprocessors);
}
loop::Module in_pieces(const Program& program) {
  const loop::Module out = gpu_neighbours(on_threads(program), kTwoMultiprocessors);
  loop::verify(out);
  return out;
}
Tensor of_bf16(const std::string& name, const std::string& shape) {
  return param(name, Array(parse_shape(shape), DType::bf16));
}

TEST(GpuNeighbours, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char* after;
  };
  const Row rows[] = {
      {"16 bytes of each", [] { return observe((parameter("a", "64,32") + parameter("b", "32")).named("y")); }, R"(
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
      {"16 bytes of the narrowest", [] { return observe(cast(of_bf16("a", "64,32"), DType::f32).named("y")); }, R"(
kernel y
  blocks of 256 threads, 32-bit indices
  for o0 < 64 grid:
    for o1 < 4 grid:
      for n < 8 written out:
        r0:f32 = a[32*o0 + 8*o1 + n]
        r1:f32 = cast r0 to f32
        y[32*o0 + 8*o1 + n] = r1
)"},
      {"lanes", [] { return observe(einsum("i,j => i", parameter("a", "64,512")).named("y")); }, R"(
kernel y
  groups of 32 threads
  blocks of 256 threads, 8192 bytes of shared memory, 32-bit indices
  for i < 64 grid:
    r1:f32 := 0
    r2:f32 := 0
    for j < 128 lanes:
      for n < 4 written out:
        r0:f32 = a[512*i + 4*j + n]
        r2 += r0
    r3:f32 = sum across lanes of r2
    r1 += r3
    for lane < 1 lanes:
      y[i] = r1
)"},
      {"fewer, if there are not more", [] { return observe(exp(parameter("a", "64,6")).named("y")); }, R"(
kernel y
  blocks of 128 threads, 32-bit indices
  for o0 < 64 grid:
    for o1 < 3 grid:
      for n < 2 written out:
        r0:f32 = a[6*o0 + 2*o1 + n]
        r1:f32 = exp(r0)
        y[6*o0 + 2*o1 + n] = r1
)"},
  };
  for (const Row& row : rows) EXPECT_EQ(loops(in_pieces(row.program())), trimmed(row.after)) << row.name;
}

TEST(GpuNeighbours, Refusals) {
  const std::vector<Refusal> rows = {
      {"an odd number of elements", [] { return observe(exp(parameter("a", "64,33")).named("y")); }},
      {"pieces begin at odd places",
       [] { return observe(einsum("i,1^j => i,j", parameter("a", "64,33")).named("y")); }},
      {"another stride", [] { return observe(einsum("i,j => j,i", parameter("a", "64,64")).named("y")); }},
      {"threads would have nothing to do", [] { return observe(exp(parameter("a", "32,4")).named("y")); }},
      {"lanes would have nothing to do",
       [] { return observe(einsum("i,j => i", parameter("a", "64,68")).named("y")); }},
      {"neighbouring threads read neighbours already",
       [] { return observe(einsum("i,j => j", parameter("a", "1024,64")).named("y")); }},
      {"a product in tiles",
       [] {
         return observe(einsum("i,k; k,o => i,o", parameter("x", "256,64"), parameter("w", "64,384")).named("y"));
       }},
  };
  for (const Refusal& row : rows)
    EXPECT_EQ(loops(in_pieces(row.program())), loops(on_threads(row.program()))) << row.reason;
}

// Kernels over a and y of 1024 elements, as a thread for each element has them.
loop::Module element_by_element(loop::Block body) {
  loop::Module module = by_hand({kF, kF}, {looped(0, std::move(body))});
  for (ir::Buffer& buffer : module.buffers) buffer.shape = parse_shape("1024");
  loop::For& loop = std::get<loop::For>(loop::statements(module.kernels[0])[0]);
  loop.extent = 1000, loop.kind = loop::LoopKind::grid, loop.chunk = 1;
  module.kernels[0].grid = {1, false, 64};
  return module;
}
TEST(GpuNeighbours, WhatIsStoredIsLoadedBeforeAtTheSamePlace) {
  auto pass = [](const loop::Module& module) { return gpu_neighbours(module, kTwoMultiprocessors); };
  const loop::Module in_place = element_by_element({element(0, 0, kI), loop::Store{0, kI, 0}});
  EXPECT_NE(loops(pass(in_place)), loops(in_place));
  expect_refused_by_hand(
      pass, {{"the next element is loaded",
              element_by_element({element(0, 0, kI + ir::Term::number(4)), loop::Store{0, kI, 0}})},
             {"it is loaded after it was stored",
              element_by_element({element(0, 1, kI), loop::Store{0, kI, 0}, element(1, 0, kI), loop::Store{2, kI, 1}})},
             {"all store to one place", element_by_element({element(0, 0, kI), loop::Store{2, kFirst, 0}})}});
}

}  // namespace
}  // namespace caravan::schedule
