// What a model is made of, before anything runs:
//
//     std::cout << summary(net, "32|28,28,1");
//
//     layer                output            parameters      flops
//     conv2d conv1         32|28,28,16              160      7.2 M
//     ...
#pragma once

#include <concepts>
#include <iosfwd>
#include <string>
#include <vector>

#include "caravan/nn/layer.h"

namespace caravan {

// A row is a layer's output, with what is computed between the row before and it. So activations count for the layer
// that reads them; what follows the last layer has a row of its own.
struct ModelSummary {
  // One layer.
  struct Row {
    std::string layer;                  // "linear fc1"
    Shape output;                       // of its output
    int64_t parameters = 0, flops = 0;  // elements; operations on floats of one evaluation, a product and a sum are two
    int64_t parameter_bytes = 0, output_bytes = 0;  // the memory of both
  };
  std::vector<Row> rows;  // in the order of computation
  Row total;              // the sums of all rows
};
std::ostream& operator<<(std::ostream& out, const ModelSummary& summary);  // as a table

ModelSummary summary(const Tensor& output);  // of a model, called

template <class Model, std::same_as<Tensor>... Inputs>
requires(sizeof...(Inputs) > 0 &&
         (nn::CalledWith<Model, Inputs..., nn::Phase> || nn::CalledWith<Model, Inputs...>)) ModelSummary
    summary(const Model& model, const Inputs&... inputs) {
  if constexpr (nn::CalledWith<Model, Inputs..., nn::Phase>)
    return summary(model(inputs..., nn::Phase()));
  else
    return summary(model(inputs...));
}

Tensor input_of(const std::string& shape, DType dtype);  // "32|28,28,1"
template <class Model>
ModelSummary summary(const Model& model, const std::string& input_shape, DType dtype = DType::f32) {
  return summary(model, input_of(input_shape, dtype));
}

}  // namespace caravan
