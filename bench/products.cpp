// GFLOP/s of matrix products y = a·b, a·bᵀ and aᵀ·b, and their largest error against sums in double.
//   cmake --preset release && cmake --build build/release --target caravan_command
//   g++ -std=c++20 -O2 -I. -Ibuild/release/generated bench/products.cpp -o /tmp/products -Wl,--start-group
//       $(find build/release/caravan -name '*.a') -Wl,--end-group -lfmt -lz -ldl -lpthread
//   /tmp/products [threads]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "caravan/jit/jit.h"

using namespace caravan;

namespace {

struct Product {
  int64_t m, n, k;
};
constexpr Product kProducts[] = {{1024, 1024, 1024}, {2048, 2048, 2048}, {512, 512, 512}, {128, 100, 784},
                                 {128, 512, 784},    {32, 28, 200},      {32, 200, 30},   {1, 100, 784},
                                 {1024, 1536, 384},  {256, 256, 64}};

double seconds_of(jit::Kernel& kernel, int64_t times, float* a, float* b, float* y) {
  const auto start = std::chrono::steady_clock::now();
  kernel.run_times(times, {{"a", a}, {"b", b}, {"y", y}});
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(times);
}

void measure(const Product& p, const char* form, int threads) {
  const std::string a = form[0] == 't' ? "a[k, m]" : "a[m, k]", b = form[1] == 't' ? "b[n, k]" : "b[k, n]";
  jit::Kernel kernel = jit::compile("y[m, n] += " + a + " * " + b + "   for m < " + std::to_string(p.m) + ", n < " +
                                        std::to_string(p.n) + ", k < " + std::to_string(p.k),
                                    {.threads = threads});
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(size_t(p.m * p.k)), w(size_t(p.k * p.n)), y(size_t(p.m * p.n));
  for (float& v : x) v = normal(random);
  for (float& v : w) v = normal(random);
  const double flops = 2.0 * double(p.m) * double(p.n) * double(p.k);
  const auto times = std::max<int64_t>(1, int64_t(2e8 / flops));
  std::vector<double> all;
  for (int round = 0; round < 11; ++round) all.push_back(seconds_of(kernel, times, x.data(), w.data(), y.data()));
  std::sort(all.begin(), all.end());
  double worst = 0;
  for (int64_t at = 0; at < p.m * p.n; at += std::max<int64_t>(1, p.m * p.n / 997)) {
    double sum = 0;
    for (int64_t k = 0; k < p.k; ++k)
      sum += double(x[size_t(form[0] == 't' ? k * p.m + at / p.n : at / p.n * p.k + k)]) *
             double(w[size_t(form[1] == 't' ? at % p.n * p.k + k : k * p.n + at % p.n)]);
    worst = std::max(worst, std::abs(sum - double(y[size_t(at)])));
  }
  std::printf("%5ld x %5ld x %5ld  %s  %9.2f us  %7.1f GFLOP/s  best %7.1f  error %.1e\n", long(p.m), long(p.n),
              long(p.k), form, 1e6 * all[5], flops / all[5] * 1e-9, flops / all[0] * 1e-9, worst);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  for (const Product& p : kProducts)
    for (const char* form : {"nn", "nt", "tn"}) measure(p, form, threads);
}
