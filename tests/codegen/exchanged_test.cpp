// Memory through which lanes of a GPU tell each other something: the compiler of the GPU must not take for granted that
// only one thread changes it.
#include <gtest/gtest.h>

#include "caravan/codegen/cuda.h"
#include "caravan/plan/plan.h"
#include "contains.h"
#include "pass_table.h"

namespace caravan::codegen {
namespace {

std::string cuda_of(const Program& program) {
  return to_cuda(plan::make_plan(to_ir(program), gpu_target()).scheduled, CudaForm::launches).texts[0];
}

// Lanes store the elements of a row, and load others of them after a barrier. With `__restrict__`, NVIDIA's compiler
// moved such loads before the barrier: a language model with dropout did not learn.
TEST(Exchanged, WhatLanesStoreAndLoadIsNotRestricted) {
  const Tensor x = parameter("x", "4096|512"), e = exp(x).named("e");
  const Tensor y = (e / einsum("... | i => ... |", e)).named("y");
  const std::string text = cuda_of(observe(e) & observe(y));
  EXPECT_CONTAINS(text, "caravan_wait<");
  EXPECT_CONTAINS(text, "(const float* CARAVAN_RESTRICT x, float* e, ");
  EXPECT_CONTAINS(text, ", float* CARAVAN_RESTRICT y, ");
}

// One thread stores and loads the same elements: no other one changes them.
TEST(Exchanged, WhatOneThreadChangesIsRestricted) {
  const Tensor w = parameter("w", "4096,512"), g = parameter("g", "4096,512");
  EXPECT_CONTAINS(cuda_of(assign(w, w - 0.1 * g)), "float* CARAVAN_RESTRICT w, ");
}

}  // namespace
}  // namespace caravan::codegen
