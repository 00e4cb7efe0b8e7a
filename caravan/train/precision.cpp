#include "caravan/train/precision.h"

#include <map>

#include "caravan/autodiff/grad.h"
#include "caravan/base/error.h"
#include "caravan/tensor/call.h"
#include "caravan/tensor/functions.h"
#include "caravan/tensor/graph.h"

namespace caravan {

namespace {

bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// The parameter in f32, `w.master`, and what it holds: the parameter's own value before the first step.
struct Master {
  Tensor parameter, state, begun, value;
};
Master master_of(const Tensor& p) {
  const std::string name = p.name() + ".master";
  Tensor wide = state_like(cast(p, DType::f32), name, zeros(), p.node().where);
  Tensor begun = state(name + ".begun", 0, DType::boolean, p.node().where);
  return {p, wide, begun, where(begun, wide, cast(p, DType::f32))};
}

}  // namespace

Optimizer master_weights(const Optimizer& optimizer, Source where) {
  return Optimizer(
      [optimizer, where](const Gradients& gradients) {
        const WrittenAt at(where);
        std::vector<Master> masters;
        Gradients wide;
        for (const auto& [p, g] : gradients) {
          if (!is_narrow(p.dtype())) {
            wide.push_back({p, g});
            continue;
          }
          masters.push_back(master_of(p));
          wide.push_back({masters.back().state, cast(g, DType::f32)});
        }
        // The optimiser reads `w.master`, which has no value before the first step.
        std::vector<Tensor> from, to;
        for (const Master& m : masters) from.push_back(m.state), to.push_back(m.value);
        Program out;
        const Program inner = optimizer(wide, where);
        for (const Program::Assignment& a : inner.assignments()) {
          const Tensor value = substitute({a.value}, from, to)[0];
          out.add({a.state, value, a.where});
          for (const Master& m : masters)
            if (m.state.name() == a.state.name())
              out &= assign(m.parameter, Operand(cast(value, m.parameter.dtype()), where)) & assign(m.begun, true);
        }
        return out;
      },
      optimizer.owner(), where);
}

Program scaled_step(const Tensor& loss, const Optimizer& optimizer, const ScaleOptions& options,
                    const Transform& transform, Source where) {
  if (!(options.first > 0) || !(options.growth > 1) || options.every < 1)
    throw ConfigError("scaled_step" + where_text(where) +
                          ": the first factor must be above 0, the growth above 1, and `every` at least 1.",
                      where);
  const WrittenAt at(where);
  Tensor scale = state(options.name, options.first, DType::f32, where);
  Tensor steps = state(options.name + ".steps", 0, DType::i64, where);
  Gradients list = gradients(cast(loss, DType::f32) * scale, where);
  Tensor zero;  // 0 if all gradients are finite, otherwise NaN
  for (Gradient& g : list) {
    g.value = cast(g.value, DType::f32) / scale;
    Tensor of_one = sum(g.value * 0.0);
    zero = zero.defined() ? zero + of_one : of_one;
  }
  const Tensor finite = zero == 0;
  const Tensor grows = steps + 1 == options.every;
  Program adjust = assign(scale, caravan::where(finite, caravan::where(grows, scale * options.growth, scale),
                                                scale / options.growth)) &
                   assign(steps, caravan::where(finite && !grows, steps + 1, 0));
  return when(Operand(finite, where), optimizer(transform ? transform(list) : list, where)) & adjust & observe(loss);
}

}  // namespace caravan
