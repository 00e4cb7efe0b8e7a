// Training in narrow precisions. There are two ways, which may be combined:
//
// * Products in bf16 or f16, weights in f32: the precision is an argument of the call of a model.
//
//     Phase phase = training({.step = step, .precision = DType::bf16});
//     ctx.compile(train_step(cross_entropy(model(x, phase), labels), adam({})) & phase.updates());
//
// * Weights in bf16 or f16, for half of their memory: the precision is the .dtype of the model. A step is often smaller
//   than the distance between two bf16 numbers and would be rounded away, so the optimiser keeps them in f32 beside:
//
//     nn::Gpt model({.., .dtype = DType::bf16});
//     ctx.compile(train_step(loss, master_weights(adam({}))));
//
// f16 reaches from 6e-8 to 65504, and gradients are often smaller. scaled_step multiplies the loss by a number that it
// adjusts, so that gradients are in this range, and divides them again in f32. bf16 has the range of f32 and needs
// none.
#pragma once

#include "caravan/train/optimizer.h"

namespace caravan {

// The same optimiser, which keeps every parameter that is narrower than f32 also in f32, as the state `w.master`, and
// updates that. Its other states are in f32, too, and are called `w.master.adam.mean`, ..
Optimizer master_weights(const Optimizer& optimizer, Source where = Source::here());

// How the factor of the loss is adjusted.
struct ScaleOptions {
  double first = 32768;  // the factor in the beginning
  double growth = 2;     // it grows by this after `every` steps without an overflow, and shrinks by it after one
  int64_t every = 2000;  // steps
  std::string name = "loss_scale";  // the state that holds the factor; NAME.steps counts the steps since it changed
};
// train_step with a factor on the loss. A step in which a gradient is not finite changes no parameter and no moment.
// The loss that is observed is the loss itself.
Program scaled_step(const Tensor& loss, const Optimizer& optimizer, const ScaleOptions& options = {},
                    const Transform& transform = nullptr, Source where = Source::here());

}  // namespace caravan
