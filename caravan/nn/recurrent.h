// Recurrent layers over sequences `..., t | c` of a fixed length, unrolled. They start from zeros.
#pragma once

#include "caravan/nn/linear.h"

namespace caravan::nn {

// The sizes of a recurrent layer.
struct RecurrentOptions {
  int64_t hidden = 0, context = 0;  // context: the length of every sequence
  Init init{};                      // how the weights are initialised
  DType dtype = DType::f32;         // the precision of the parameters
};

// NAME.ih and NAME.hh hold the gates in PyTorch's order: input, forget, cell, output. Gives `..., t | hidden`.
struct Lstm {
  RecurrentOptions options;  // as given
  Linear ih, hh;             // the maps of the input and of the hidden state to the gates
  Lstm(const std::string& name, const RecurrentOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};
// Gates: reset, update, new.
struct Gru {
  RecurrentOptions options;  // as given
  Linear ih, hh;             // the maps of the input and of the hidden state to the gates
  Gru(const std::string& name, const RecurrentOptions& options, Source where = Source::here());
  Tensor operator()(Operand x, const Phase& phase = {}) const;
};

}  // namespace caravan::nn
