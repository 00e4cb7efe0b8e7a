// Layers of layers. A layer is anything that is called with a tensor, or with a tensor and a Phase:
//
//     Sequential net({Linear("fc1", {.output = {100}}), Relu(), Dropout("drop", 0.1), Linear("fc2", {.output = {10}})});
//     Residual block(Sequential({...}));
//     for (const Tensor& p : parameters(net)) std::cout << p.name() << '\n';     // fc1.weight, fc1.bias, ...
#pragma once

#include <concepts>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "caravan/nn/phase.h"
#include "caravan/tensor/call.h"

namespace caravan {

namespace nn {

// Whether a model can be called with these arguments and gives a tensor.
template <class Model, class... Arguments>
concept CalledWith = requires(const Model& model, const Arguments&... arguments) {
  { model(arguments...) } -> std::convertible_to<Tensor>;
};
// What can stand among layers: anything that is called with a tensor, with or without a Phase.
template <class Model>
concept LayerLike = CalledWith<Model, Operand, Phase> || CalledWith<Model, Operand> ||
    CalledWith<Model, Tensor, Phase> || CalledWith<Model, Tensor>;

// Holds anything that is called like a layer.
class Layer {
 public:
  template <LayerLike Model>
  requires(!std::is_same_v<Model, Layer>) Layer(Model model)
      : call_([m = std::move(model)](Operand x, const Phase& phase) {
          if constexpr (CalledWith<Model, Operand, Phase>)
            return m(x, phase);
          else if constexpr (CalledWith<Model, Operand>)
            return m(x);
          else if constexpr (CalledWith<Model, Tensor, Phase>)
            return m(x.tensor, phase);
          else
            return m(x.tensor);
        }) {}

  Tensor operator()(Operand x, const Phase& phase = {}) const {
    const UserCode lines_of_the_model;
    return call_(x, phase);
  }

 private:
  std::function<Tensor(Operand, const Phase&)> call_;
};

// Layers one after the other; without any, the identity.
struct Sequential {
  std::vector<Layer> layers;  // in the order in which they are called
  Sequential(std::vector<Layer> layers) : layers(std::move(layers)) {}

  Tensor operator()(Operand x, const Phase& phase = {}) const {
    for (const Layer& layer : layers) x.tensor = layer(x, phase);
    return x.tensor;
  }
};

// x + body(x).
struct Residual {
  Layer body;  // what is added to its input
  explicit Residual(Layer body) : body(std::move(body)) {}

  Tensor operator()(Operand x, const Phase& phase = {}) const { return x + Operand(body(x, phase), x.where); }
};

// Inside: the model called with tensors, as if at this line and in evaluation.
template <class Model, class... Inputs>
Tensor called_at(Source where, const Model& model, const Inputs&... inputs) {
  if constexpr (CalledWith<Model, std::conditional_t<true, Operand, Inputs>..., Phase>)
    return model(Operand(inputs, where)..., Phase());
  else if constexpr (CalledWith<Model, std::conditional_t<true, Operand, Inputs>...>)
    return model(Operand(inputs, where)...);
  else if constexpr (CalledWith<Model, Inputs..., Phase>)
    return model(inputs..., Phase());
  else
    return model(inputs...);
}

// Inside: the names of the inputs of an outline.
inline constexpr std::string_view kOutlineInputs[] = {"first input", "second input"};
// Inside: parameters or other states, in the order in which operations first use them.
std::vector<Tensor> leaves_of(const Tensor& outline, bool parameters);

// Inside: the model called with inputs of which nothing is known: the graph has its parameters and states, whatever the
// sizes. Ids are the inputs that every model accepts.
template <class Model>
Tensor outline(const Model& model, Source where) {
  Tensor x = input(std::string(kOutlineInputs[0]), {.dtype = DType::i32}, where),
         y = input(std::string(kOutlineInputs[1]), {.dtype = DType::i32}, where);
  if constexpr (CalledWith<Model, Tensor, Phase> || CalledWith<Model, Tensor>)
    return called_at(where, model, x);
  else
    return called_at(where, model, x, y);
}

}  // namespace nn

// The parameters of a layer, or of your own struct that is called like one, in the order of their first use.
template <class Model>
requires(!std::is_same_v<Model, Tensor> && !std::is_convertible_v<Model, std::vector<Tensor>>)
    std::vector<Tensor> parameters(const Model& model, Source where = Source::here()) {
  return nn::leaves_of(nn::outline(model, where), true);
}

// The states that evaluating the model reads and training it updates, such as running statistics.
template <class Model>
std::vector<Tensor> buffers(const Model& model, Source where = Source::here()) {
  return nn::leaves_of(nn::outline(model, where), false);
}

}  // namespace caravan
