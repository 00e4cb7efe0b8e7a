// What a model is made of, before anything runs:
//
//     std::cout << summary(net, "32|28,28,1");
//
//     input is 32|28,28,1: 32 examples of 28 x 28 x 1 numbers
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
  // What the model was given.
  struct Input {
    std::string name;  // of the input or of the data
    Shape shape;       // its examples and their axes
  };
  std::vector<Input> inputs;  // in the order of their first use
  std::vector<Row> rows;      // in the order of computation
  Row total;                  // the sums of all rows
};
std::ostream& operator<<(std::ostream& out, const ModelSummary& summary);  // as a table

ModelSummary summary(const Tensor& output);  // of a model, called

template <class Model>
requires(nn::CalledWith<Model, Tensor, nn::Phase> || nn::CalledWith<Model, Tensor>) ModelSummary
    summary(const Model& model, const Tensor& input, Source where = Source::here()) {
  return summary(nn::called_at(where, model, input));
}
template <class Model>
requires(nn::CalledWith<Model, Tensor, Tensor, nn::Phase> || nn::CalledWith<Model, Tensor, Tensor>) ModelSummary
    summary(const Model& model, const Tensor& first, const Tensor& second, Source where = Source::here()) {
  return summary(nn::called_at(where, model, first, second));
}

Tensor input_of(const std::string& shape, DType dtype, Source where);  // "32|28,28,1"
template <class Model>
ModelSummary summary(const Model& model, const std::string& input_shape, DType dtype = DType::f32,
                     Source where = Source::here()) {
  return summary(model, input_of(input_shape, dtype, where), where);
}

}  // namespace caravan
