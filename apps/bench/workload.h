// What `caravan bench` measures: training steps of known models on made data, and products of matrices.
//
//     const bench::Workload workload = bench::find("moons")[0].make({});
//     Context ctx;
//     Routine step = ctx.compile(workload.program);
//     std::vector<double> losses = bench::losses(step, workload, 50);
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "caravan/data/safetensors.h"
#include "caravan/runtime/context.h"

namespace caravan::bench {

// Chooses the sizes of a workload: those that are measured, or small ones with which tests run the same model, in f32.
struct Sizes {
  bool small = false;
  int64_t operator()(int64_t measured, int64_t for_tests) const { return small ? for_tests : measured; }
};

// A program that is run many times, and how much one run computes.
struct Workload {
  Program program;                      // one step, which observes `result`
  Tensor result;                        // the loss of a training step, or the product
  double flops = 0;                     // multiplications and additions in the matrix products of a step
  std::optional<Index> batch{};         // which batch of the data a training step takes
  std::map<std::string, Array> data{};  // `x` and `y` of a training step: batches, then examples
  std::string optimizer{};             // of a training step, in JSON, with PyTorch's names: {"name": "sgd", "lr": 0.01}
  DType precision = DType::f32;        // to which the factors of products are rounded
  IndexValues at(int64_t step) const;  // the index of a step
};

// A workload by its name.
struct Entry {
  std::string name, doc;
  std::function<Workload(const Sizes& sizes)> make;
  bool for_gpu = false;  // too large for a processor
};
std::vector<Entry> training_steps();                             // thirteen models
std::vector<Entry> products();                                   // y = a b, a bᵀ and aᵀ b
std::vector<Entry> entries();                                    // all
std::optional<Entry> product_of_sizes(const std::string& name);  // `gemm-ROWSxTERMSxCOLUMNS`, with any sizes
// The one of this name; otherwise all that begin with it and a dash: `names` finds `names-mlp-bn` and others. A product
// may have other sizes than those of products(). ConfigError naming those there are.
std::vector<Entry> find(const std::string& name);
// What each of these finds, one after the other. Of several that one name stands for, such as `gpt-char`, those that
// are for a GPU are left out unless they are asked for, too.
std::vector<Entry> find_all(const std::vector<std::string>& names, bool for_gpu_too);

// The losses of the first steps. The routine is that of the workload's program, in a Context that has run nothing yet.
std::vector<double> losses(Routine& routine, const Workload& workload, int64_t steps);

// All that another program needs to repeat the first steps: `param.NAME` before them, `data.x` and `data.y`, and the
// `losses`; for a product the `result`. In the metadata are the `name`, the `optimizer`, the `precision` and the
// `flops`.
data::Tensors record(const std::string& name, const Workload& workload, const ContextOptions& options, int64_t steps);

}  // namespace caravan::bench
