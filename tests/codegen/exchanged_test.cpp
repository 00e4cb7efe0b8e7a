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
  Gpu gpu;
  gpu.library_products = true, gpu.called_f32 = {1000, 0}, gpu.one_block_work = 0;
  return to_cuda(plan::make_plan(to_ir(program), gpu_target(gpu)).scheduled, CudaForm::launches).texts[0];
}

// One lane stores the gradient of a row's sum of exponentials, and all lanes load it after a barrier. With
// `__restrict__`, NVIDIA's compiler moved the load before the barrier, and a language model did not learn.
TEST(Exchanged, WhatOneLaneStoresForOthersIsNotRestricted) {
  const Tensor x = parameter("x", "4096|64"), w = parameter("w", "64->65");
  const Tensor labels = tensor(Array(parse_shape("4096|"), DType::i32));
  const std::string text = cuda_of(train_step(nn::cross_entropy(w(x), labels, {.ignore = -100}), sgd({.lr = 0.1})));
  EXPECT_CONTAINS(text, "(const float* CARAVAN_RESTRICT d_sum, const int32_t* CARAVAN_RESTRICT ");
  EXPECT_CONTAINS(text, ", float* d_einsum, ");
}

// The lanes of a group store the elements of a row, and each lane loads again what it has stored itself.
TEST(Exchanged, WhatALaneStoresForItselfIsRestricted) {
  const Tensor x = parameter("x", "4096|512"), e = exp(x).named("e");
  const Tensor y = (e / einsum("... | i => ... |", e)).named("y");
  const std::string text = cuda_of(observe(e) & observe(y));
  EXPECT_CONTAINS(text, "caravan_across<32, ");
  EXPECT_CONTAINS(text, "(const float* CARAVAN_RESTRICT x, float* CARAVAN_RESTRICT e, ");
}

// One thread stores and loads the same elements: no other one changes them.
TEST(Exchanged, WhatOneThreadChangesIsRestricted) {
  const Tensor w = parameter("w", "4096,512"), g = parameter("g", "4096,512");
  EXPECT_CONTAINS(cuda_of(assign(w, w - 0.1 * g)), "float* CARAVAN_RESTRICT w, ");
}

}  // namespace
}  // namespace caravan::codegen
