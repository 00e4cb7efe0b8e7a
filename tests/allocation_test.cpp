// A step allocates nothing: counted at malloc itself, so that it holds for operator new, for the C library and for
// compiled code.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <atomic>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static std::atomic<long> allocations{0}, large_bytes{0};
static void count(size_t n) {
  ++allocations;
  if (n >= 1'000'000) large_bytes += long(n);
}
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t n) { return count(n), __libc_malloc(n); }
void* calloc(size_t n, size_t m) { return count(n * m), __libc_calloc(n, m); }
void* realloc(void* p, size_t n) { return count(n), __libc_realloc(p, n); }
void* memalign(size_t alignment, size_t n) { return count(n), __libc_memalign(alignment, n); }
void* aligned_alloc(size_t alignment, size_t n) { return count(n), __libc_memalign(alignment, n); }
int posix_memalign(void** out, size_t alignment, size_t n) {
  count(n);
  return *out = __libc_memalign(alignment, n), *out ? 0 : 12;
}
}

namespace caravan {
namespace {

// What a piece of work allocates, after it was done once.
template <class Work>
long allocations_of(Work work) {
  work();
  const long before = allocations;
  work();
  return allocations - before;
}

TEST(Allocation, IsCounted) {
  EXPECT_GE(allocations_of([] { delete new std::string(100, 'x'); }), 2);
  EXPECT_GE(allocations_of([] { free(aligned_alloc(64, 640)); }), 1);
  EXPECT_EQ(allocations_of([] {}), 0);
}

TEST(Allocation, AStepOnTheProcessorAllocatesNothing) {
  auto moons = data::half_moons({.points = 80, .noise = 0.1, .seed = 1});
  Index batch("batch", 8), step("step");
  Tensor x = moons.points.batches(10)[batch], y = moons.labels.batches(10)[batch];
  Tensor w1 = param("w1"), b1 = param("b1", {.output = {16}}), w2 = param("w2");
  Tensor kept = bernoulli("dropout", 0.9, {.like = w1(x), .step = step});
  Tensor loss = sum(relu(1 - y * w2(relu(w1(x) + b1) * kept))) / 10;
  Context ctx({.seed = 1, .device = "cpu"});
  Routine train = ctx.compile(train_step(loss, adam({.lr = linear_decay(step, 240, 0.05)}), clip_by_global_norm(5)));

  IndexValues at = {{batch, 0}, {step, 0}};  // the caller's
  EXPECT_EQ(allocations_of([&] { train.run(at), at[0].second = 3, at[1].second = 11; }), 0);
  EXPECT_EQ(allocations_of([&] { train.run_steps(20, at); }), 0);
  EXPECT_LT(train.read(loss).item(), 2);
}

TEST(Allocation, NorDoThreads) {
  Tensor w = param("w", {.output = {256}}), x = tensor(Array(parse_shape("256|256")));
  Tensor loss = mean(square(w(x) + 1));
  Context ctx({.seed = 1, .device = "cpu", .threads = 2});
  Routine train = ctx.compile(train_step(loss, sgd({.lr = 0.1})));
  EXPECT_EQ(allocations_of([&] { train.run(); }), 0);
  EXPECT_EQ(allocations_of([&] { train.run_steps(5); }), 0);
}

TEST(Allocation, NorDoesATokenThatIsGenerated) {
  const nn::Gpt gpt({.vocab = 11, .ctx = 32, .dim = 8, .heads = 2, .layers = 1});
  Context ctx({.seed = 1, .device = "cpu", .threads = 1});
  ctx.compile(observe(gpt(tensor(Array({.batch = {1, 2}}, std::vector<int32_t>{1, 2})))));
  Generator generate(ctx, gpt, {.capacity = 32});
  std::vector<long> counts(20, 0);
  size_t tokens = 0;
  GenerateOptions options{.tokens = 20, .sampling = {.top_k = 5, .top_p = 0.9, .repetition_penalty = 1.1}};
  options.each = [&](int64_t, int32_t) { return counts[tokens++] = allocations, true; };
  generate({1, 2, 3}, options);
  ASSERT_EQ(tokens, 20u);
  EXPECT_EQ(counts.back() - counts[2], 0);  // the first tokens compile
}

// Initial values are drawn where the state lies.
TEST(Allocation, AStateIsAllThatItsInitialValuesNeed) {
  Tensor w = param("w", {.input = {600}, .output = {600}});  // less would not count, and more would not be on the heap
  Context ctx({.seed = 1, .device = "cpu"});
  const long before = large_bytes;
  ctx.compile(observe(sum(w)));
  EXPECT_EQ(large_bytes - before, 4 * 600 * 600);
}

}  // namespace
}  // namespace caravan
#else
TEST(Allocation, AStepOnTheProcessorAllocatesNothing) {
  GTEST_SKIP() << "malloc is the sanitizer's here, or not glibc's";
}
#endif
