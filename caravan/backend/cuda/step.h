// What a GPU does in a step: launches of compiled kernels and calls of libraries, and the buffers that they touch. It
// is made from a plan, and kept in the cache beside the compiled code, so that a program that was compiled before
// starts without its plan being made again.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "caravan/backend/runnable.h"
#include "caravan/codegen/cuda.h"
#include "caravan/loop/loop.h"
#include "caravan/plan/plan.h"

namespace caravan::cuda {

// A call of a library, which takes the place of a kernel.
struct Call {
  loop::LibraryCall call;
  DType left{}, right{}, result{};  // the precisions of a product's factors and of its result
  bool operator==(const Call&) const = default;
};

struct Step {
  backend::Runnable runnable;
  codegen::CudaForm form{};
  codegen::CudaText text;        // of a step from the cache, without the texts
  std::map<size_t, Call> calls;  // by kernel
};
Step step_of(const plan::Plan& plan, codegen::CudaForm form);

// A text, and its inverse; nothing if the text is not one. It has copies and products, but no exchanges with other
// devices: those need the plan.
std::string to_text(const Step& step);
std::optional<Step> parse_step(std::string_view text);

}  // namespace caravan::cuda
