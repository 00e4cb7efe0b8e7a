// The compiler alone: loops over the program's own memory, written as text. No tensors, no gradients.
#include <caravan/jit/jit.h>

#include <cstdio>
#include <vector>
using namespace caravan;

int main() {
  std::vector<float> a(64 * 128), b(128 * 32), bias(32), y(64 * 32), best(64);
  for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7) - 3;
  for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 5) - 2;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = float(i);

  // A product with its epilogue: h stays in a register.
  jit::Kernel layer = jit::compile(R"(
    h[i, j] += a[i, k] * b[k, j]          for i < 64, j < 32, k < 128
    y[i, j] += relu(0.5 * h[i, j] + bias[j])   for i < 64, j < 32
  )");
  layer.run({{"a", a.data()}, {"b", b.data()}, {"bias", bias.data()}, {"y", y.data()}});
  jit::compile("best[i] max= y[i, j]   for i < 64, j < 32").run({{"y", y.data()}, {"best", best.data()}});

  for (const jit::Kernel::Buffer& buffer : layer.buffers()) std::printf("%s %s\n", buffer.result ? "writes" : "reads ", buffer.name.c_str());
  std::printf("y[0] begins %g %g %g, its largest is %g\n", y[0], y[1], y[2], best[0]);
  try {
    jit::compile("y[i] += a[i] * x[j]   for i < 8");
  } catch (const SpecError& error) {
    std::printf("%s\n", error.what());
  }
}
