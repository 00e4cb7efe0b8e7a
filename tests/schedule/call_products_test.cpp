// Large products become calls of a library, with kernels before them that store computed factors, and kernels after
// them for what follows the sums.
#include "caravan/schedule/call_products.h"

#include <gtest/gtest.h>

#include "by_hand.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/forward_stores.h"
#include "caravan/schedule/fuse.h"
#include "schedule/for_gpu.h"

namespace caravan::schedule {
namespace {

Gpu with_library() {
  Gpu out;
  out.library_products = true;
  out.called_f32 = out.called_tf32 = out.called_narrow = {1000, 1};
  return out;
}
// The kernels of a program whose products are called, as the pass meets it: fused, and without stores that nobody
// reads.
loop::Module called(const Program& program, const Gpu& gpu = with_library()) {
  const Target target = gpu_target(gpu);
  const loop::Module out = call_products(forward_stores(fuse(lowered_for_gpu(program, target))), target);
  loop::verify(out);
  return out;
}
bool calls(const loop::Module& module) { return std::ranges::any_of(module.kernels, loop::library_call); }

Tensor narrow(const std::string& name, const std::string& shape, DType dtype = DType::bf16) {
  return param(name, Array(parse_shape(shape), dtype));
}
Program product(const Tensor& x, const Tensor& w) { return observe(einsum("i,k; k,o => i,o", x, w).named("y")); }
Program plain() { return product(parameter("x", "256,64"), parameter("w", "64,384")); }

TEST(CallProducts, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char* after;
  };
  const Row rows[] = {
      {"a product", plain, R"(
kernel y
  y[384*row + column] = library product of x[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
)"},
      {"both factors transposed",
       [] { return observe(einsum("k,i; o,k => i,o", parameter("x", "64,256"), parameter("w", "384,64")).named("y")); },
       R"(
kernel y
  y[384*row + column] = library product of x[row + 256*term] and w[64*column + term] for row < 256, column < 384, term < 64
)"},
      {"several loops over rows and terms that walk through memory like one",
       [] {
         return observe(
             einsum("a,b,k,l; k,l,o => a,b,o", parameter("x", "8,32,4,16"), parameter("w", "4,16,384")).named("y"));
       },
       R"(
kernel y
  y[384*row + column] = library product of x[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
)"},
      {"a batch",
       [] {
         return observe(
             einsum("b,i,k; b,k,o => b,i,o", parameter("x", "4,96,64"), parameter("w", "4,64,96")).named("y"));
       },
       R"(
kernel y
  y[9216*batch + 96*row + column] = library product of x[6144*batch + 64*row + term] and w[6144*batch + column + 96*term] for batch < 4, row < 96, column < 96, term < 64
)"},
      {"heads beside each other in memory are a batch",
       [] {
         return observe(
             einsum("s,h,d; t,h,d => h,s,t", parameter("q", "96,4,32"), parameter("k", "96,4,32")).named("y"));
       },
       R"(
kernel y
  y[9216*batch + 96*row + column] = library product of q[32*batch + 128*row + term] and k[32*batch + 128*column + term] for batch < 4, row < 96, column < 96, term < 32
)"},
      {"rows in two parts are a batch",
       [] {
         return observe(einsum("a,b,k; k,o => a,o,b", parameter("x", "8,32,64"), parameter("w", "64,96")).named("y"));
       },
       R"(
kernel y
  y[3072*batch + 32*row + column] = library product of w[row + 96*term] and x[2048*batch + 64*column + term] for batch < 8, row < 96, column < 32, term < 64
)"},
      {"what follows a sum that is stored reads it again",
       [] {
         const Tensor y = einsum("i,k; k,o => i,o", parameter("x", "256,64"), parameter("w", "64,384")).named("y");
         return observe({y, tanh(y).named("z")});
       },
       R"(
kernel y
  y[384*row + column] = library product of x[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
kernel z
  for i < 256:
    for o < 384:
      r3:f32 = y[384*i + o]
      r5:f32 = tanh(r3)
      z[384*i + o] = r5
)"},
      {"sums that are not stored get a buffer",
       [] {
         const Tensor y = einsum("i,k; k,o => i,o", parameter("x", "256,64"), parameter("w", "64,384")).named("y");
         return observe((y + parameter("b", "256,384")).named("z"));
       },
       R"(
kernel y
  y sums 5[384*row + column] = library product of x[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
kernel z
  for i < 256:
    for o < 384:
      r3:f32 = y sums 5[384*i + o]
      r5:f32 = b[384*i + o]
      r6:f32 = add(r3, r5)
      z[384*i + o] = r6
)"},
  };
  for (const Row& row : rows) EXPECT_EQ(loops(called(row.program())), trimmed(row.after)) << row.name;
}

TEST(CallProducts, ANarrowResultIsRoundedByTheLibraryIfNobodyNeedsTheSum) {
  const loop::Module module = called(product(narrow("x", "256,64"), narrow("w", "64,384")));
  EXPECT_EQ(loops(module), trimmed(R"(
kernel y
  y[384*row + column] = library product of x[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
)"));
  EXPECT_EQ(module.buffers[size_t(loop::library_call(module.kernels[0])->writes[0])].dtype, DType::bf16);
}

TEST(CallProducts, SumsThatAreOnlyUsedRoundedAreRoundedByTheLibrary) {
  const Tensor y = einsum("i,k; k,o => i,o", narrow("x", "256,64"), narrow("w", "64,384")).named("y"),
               z = (cast(y, DType::f32) + parameter("b", "384")).named("z");
  EXPECT_EQ(loops(called(observe(z))), trimmed(R"(
kernel y
  y sums 6[384*row + column] = library product of x[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
kernel z
  for i < 256:
    for o < 384:
      r3:f32 = y sums 6[384*i + o]
      r5:f32 = cast r3 to f32
      r7:f32 = b[o]
      r8:f32 = add(r5, r7)
      z[384*i + o] = r8
)"));
  const loop::Module module = called(observe({y, z}));
  EXPECT_EQ(loop::library_call(module.kernels[0])->writes[0], module.observed[0]) << loops(module);
}

// Two products of bf16(x) with w, and at this place among them a kernel that overwrites x.
loop::Module of_computed_factors(size_t overwritten_at) {
  loop::Module module = lowered_for_gpu(product(narrow("x", "256,64"), narrow("w", "64,384")));
  loop::Kernel product = module.kernels.back();
  const loop::Register rounded = loop::add_register(product, DType::f32);
  loop::for_each_of<loop::For>(loop::statements(product), [&](loop::For& f) {
    auto* load = std::get_if<loop::Define>(&f.body.front());
    auto* combine = std::get_if<loop::Combine>(&f.body.back());
    if (!load || !combine) return;
    module.buffers[size_t(std::get<loop::Load>(load->value).buffer)].dtype = DType::f32;
    combine->value = rounded;
    f.body.insert(f.body.end() - 1, loop::Define{rounded, loop::Cast{load->to, DType::bf16}});
  });
  loop::Kernel overwrites = product;
  overwrites.name = "x";
  overwrites.body = loop::Block{
      looped(0, {loop::Define{0, loop::Constant{2}}, loop::Store{loop::Memory(0), ir::Term::iterator(0), 0}}, 256)};
  module.kernels = {product, product};
  module.kernels.insert(module.kernels.begin() + std::ptrdiff_t(overwritten_at), overwrites);
  loop::verify(module);
  return call_products(module, gpu_target(with_library()));
}
TEST(CallProducts, AComputedFactorIsStoredOnceForAllProducts) {
  EXPECT_EQ(loops(of_computed_factors(2)), trimmed(R"(
kernel x as a factor 3
  for i0 < 256:
    for i1 < 64:
      r0:f32 = x[64*i0 + i1]
      r1:f32 = cast r0 to bf16
      x as a factor 3[64*i0 + i1] = r1
kernel y
  y[384*row + column] = library product of x as a factor 3[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
kernel y
  y[384*row + column] = library product of x as a factor 3[64*row + term] and w[column + 384*term] for row < 256, column < 384, term < 64
kernel x
  for i < 256:
    r0:f32 = 2
    x[i] = r0
)"));
}
TEST(CallProducts, AFactorIsStoredAgainAfterItsSourceHasChanged) {
  const loop::Module module = of_computed_factors(1);
  EXPECT_EQ(
      std::ranges::count_if(module.kernels, [](const loop::Kernel& k) { return k.name.starts_with("x as a factor"); }),
      2)
      << loops(module);
}

TEST(CallProducts, Tf32IsOfF32Alone) {
  Gpu gpu = with_library();
  gpu.tf32 = true;
  EXPECT_NE(loops(called(plain(), gpu)).find(", in tf32"), std::string::npos);
  EXPECT_EQ(loops(called(product(narrow("x", "256,64"), narrow("w", "64,384")), gpu)).find(", in tf32"),
            std::string::npos);
}

TEST(CallProducts, Refusals) {
  const struct {
    const char* reason;
    std::function<Program()> program;
  } rows[] = {
      {"it is small", [] { return product(parameter("x", "8,8"), parameter("w", "8,8")); }},
      {"precisions differ", [] { return product(parameter("x", "256,64"), narrow("w", "64,384")); }},
      {"factors are f64", [] { return product(narrow("x", "256,64", DType::f64), narrow("w", "64,384", DType::f64)); }},
      {"it is padded",
       [] {
         return observe(
             einsum("b,i<1+k,c; k,c,o => b,i,o", parameter("x", "4,40,16"), parameter("w", "3,16,32")).named("y"));
       }},
      {"rows overlap in memory",
       [] { return observe(einsum("i+k; k,o => i,o", parameter("x", "319"), parameter("w", "64,384")).named("y")); }},
      {"batches have two strides",
       [] {
         return observe(einsum("b,s,h,d; b,t,h,d => b,s,h,t", parameter("q", "4,96,4,32"), parameter("k", "4,96,4,32"))
                            .named("y"));
       }},
  };
  for (const auto& row : rows) EXPECT_FALSE(calls(called(row.program()))) << row.reason;

  Gpu without = with_library(), large = with_library(), costly = with_library();
  without.library_products = false;
  large.called_f32.least = 256 * 64 * 384 + 1;
  costly.called_f32.per_byte = 64;
  EXPECT_FALSE(calls(called(plain(), without)));
  EXPECT_FALSE(calls(called(plain(), large)));
  EXPECT_TRUE(calls(called(plain(), costly))) << "no byte is moved in addition";
  const Program followed =
      observe(tanh(einsum("i,k; k,o => i,o", parameter("x", "256,64"), parameter("w", "64,384"))).named("z"));
  EXPECT_FALSE(calls(called(followed, costly))) << "the sums would have to be stored and read";
  EXPECT_TRUE(calls(called(followed)));
}

TEST(CallProducts, TheBuiltInNumbersCallForLargeProductsAlone) {
  Gpu gpu;
  gpu.library_products = true;
  EXPECT_FALSE(calls(called(product(parameter("x", "1024,1024"), parameter("w", "1024,1024")), gpu)));
  EXPECT_TRUE(calls(called(product(parameter("x", "2048,2048"), parameter("w", "2048,2048")), gpu)));
  EXPECT_TRUE(calls(called(product(narrow("x", "2048,2048"), narrow("w", "2048,2048")), gpu)));
}

TEST(CallProducts, ACallThatDoesNotFitIsAProblem) {
  const loop::Module module = called(plain());
  auto problem = [&](auto change) {
    loop::Module changed = module;
    auto& call = std::get<loop::LibraryCall>(changed.kernels[0].body);
    change(call, std::get<loop::LibraryCall::Product>(call.function));
    return loop::problem(changed, changed.kernels[0]).value_or("");
  };
  using Call = loop::LibraryCall;
  EXPECT_EQ(problem([](Call&, Call::Product&) {}), "");
  EXPECT_NE(problem([](Call&, Call::Product& p) { p.rows = 257; }).find("reaches beyond `x`"), std::string::npos);
  EXPECT_NE(problem([](Call&, Call::Product& p) { p.right.parts[1].coefficient = 383; }).find("do not form a matrix"),
            std::string::npos);
  EXPECT_NE(problem([](Call& c, Call::Product&) { c.reads.pop_back(); }).find("takes three buffers"),
            std::string::npos);
}

// What follows a called product is a kernel of its own, until it is merged with the sum over rows that reads it.
TEST(CallProducts, WhatFollowsAProductIsMergedWithItsReaders) {
  auto program = [] {
    const Tensor y =
        (einsum("i,k; k,o => i,o", parameter("x", "256,64"), parameter("w", "64,384")) + parameter("r", "256,384"))
            .named("y");
    return observe(einsum("i,o; i => i,o", y, einsum("i,o => i", y)).named("z"));
  };
  const loop::Module before = called(program()), after = fuse_called(before, gpu_target());
  loop::verify(after);
  EXPECT_TRUE(calls(after));
  EXPECT_LT(after.kernels.size(), before.kernels.size());
  Gpu none = with_library();
  none.library_products = false;
  const loop::Module in_tiles = called(program(), none);
  EXPECT_EQ(loops(fuse_called(in_tiles, gpu_target())), loops(in_tiles));
}

}  // namespace
}  // namespace caravan::schedule
