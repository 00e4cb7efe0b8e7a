#include "caravan/backend/cuda/draw.h"

#include <algorithm>

#include "caravan/codegen/prelude.h"
#include "caravan/target/target.h"

namespace caravan::cuda {

namespace {

constexpr codegen::PreludeFile kDrawFiles[] = {
#include "caravan/backend/cuda/prelude.inc"
#include "caravan/base/prelude.inc"
};

}  // namespace

std::string draw_text() {
  std::string out(codegen::kCudaPrelude);
  auto add = [&](std::string_view text) { out.append("\n").append(text); };
  for (const codegen::Helper& helper : codegen::kHelpers)
    if (helper.name == "caravan_random") add(helper.text);
  add("#define CARAVAN_INLINE static inline\n"
      "CARAVAN_INLINE uint64_t caravan_bits_of(double x) { return uint64_t(__double_as_longlong(x)); }\n"
      "CARAVAN_INLINE double caravan_double_of(uint64_t bits) { return __longlong_as_double(int64_t(bits)); }\n");
  add(codegen::prelude_text(kDrawFiles, "normal.h"));
  add(codegen::prelude_text(kDrawFiles, "draw.cuh"));
  return out;
}

Drawer::Drawer(const Gpu& gpu, const CompileOptions& options) : gpu_(gpu) {
  const Compiled compiled = compile({draw_text()}, gpu.target().gpu.compute, options);
  gpu_.use();
  const char* const failed = "the GPU does not load the kernels that draw initial values";
  check(gpu_.driver().module_load(&module_, compiled.codes[0].data()), failed);
  check(gpu_.driver().module_function(&f32_, module_, "caravan_draw_f32"), failed);
  check(gpu_.driver().module_function(&f64_, module_, "caravan_draw_f64"), failed);
}
Drawer::~Drawer() {
  try {
    gpu_.wait();
    gpu_.driver().module_unload(module_);
  } catch (const BackendError&) {  // after an error of the GPU nothing can be freed
  }
}

void Drawer::draw(Address to, DType dtype, int64_t count, const Drawing& drawing) const {
  Drawing d = drawing;
  int64_t normal = d.normal;
  void* arguments[] = {&to, &count, &d.seed, &d.name_hash, &normal, &d.begin, &d.width, &d.first, &d.second};
  const caravan::Gpu& gpu = gpu_.target().gpu;
  const int64_t most = gpu.multiprocessors * gpu.threads_in_flight / gpu.threads,
                blocks = std::min(most, (count + gpu.threads - 1) / gpu.threads);
  const LaunchConfig config{unsigned(blocks), 1, 1, unsigned(gpu.threads), 1, 1, 0, gpu_.stream(), nullptr, 0};
  gpu_.use();
  check(gpu_.driver().launch(&config, dtype == DType::f32 ? f32_ : f64_, arguments, nullptr),
        "the GPU does not draw initial values");
}

}  // namespace caravan::cuda
