// Initial values that are drawn on the GPU, with the bits that a processor gives them.
#pragma once

#include <string>

#include "caravan/backend/backend.h"
#include "caravan/backend/cuda/compile.h"
#include "caravan/backend/cuda/gpu.h"
#include "caravan/base/random.h"

namespace caravan::cuda {

// CUDA C++ of the kernels that draw.
std::string draw_text();

// The kernels that draw, loaded.
class Drawer {
 public:
  Drawer(const Gpu& gpu, const CompileOptions& options);
  ~Drawer();
  Drawer(const Drawer&) = delete;
  Drawer& operator=(const Drawer&) = delete;

  static bool draws(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }
  // Draws `count` elements from the first one on, after what the GPU was told before, and does not wait.
  void draw(Address to, DType dtype, int64_t count, const Drawing& drawing) const;

 private:
  const Gpu& gpu_;
  ModuleHandle* module_ = nullptr;
  FunctionHandle *f32_ = nullptr, *f64_ = nullptr;
};

}  // namespace caravan::cuda
