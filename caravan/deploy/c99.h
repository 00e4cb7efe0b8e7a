// A trained model as one C99 file: no library but C's own, no allocation, no hidden state.
//
//     Tensor x = input("x", {.batch = {1}, .output = {784}});
//     deploy::CSource file = deploy::to_c99(ctx, x, model(x), {.name = "digits"});
//     std::ofstream("digits.c") << file.source;                 // cc -O2 -std=c99 -c digits.c
//     std::ofstream("digits.h") << file.header;                 // digits_run(image, logits, &scratch);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "caravan/runtime/context.h"

namespace caravan::deploy {

// A language model, whose input is the id of one token and whose output is the logits of the next. The file has its
// vocabulary and functions that write text, and its main writes texts: for the same seed those of a Generator, as far
// as its logits are the same.
struct CText {
  std::vector<std::string> pieces{};  // the bytes of each token
  std::vector<int32_t> first{};       // the tokens that the model is given before it writes; at least one
  std::optional<int32_t> end{};       // the token that ends a text; none: a text goes on
  int64_t context = 0;                // how many tokens the caches hold; 0 for a model that has none
  std::string prompt{};               // what main writes before each text: the text of `first`, or a part of it
  int64_t texts = 1, tokens = 100;    // what main writes if its arguments do not say it
};

// How the C file is written.
struct COptions {
  std::string name = "model";   // starts every name that the file defines: model_run, MODEL_INPUT_SIZE; a C identifier
  std::string about{};          // the first words of the file: what the model is, how well it does
  bool weights_inside = true;   // otherwise in a file beside it, which model_load reads
  std::optional<CText> text{};  // of a language model
};

// The files, as texts.
struct CSource {
  std::string source;   // complete by itself; with -DMODEL_MAIN a program
  std::string header;   // for those who call it
  std::string weights;  // contents of the file beside it; empty if they are inside, or the model has none
};

// The value of `output` as a function of `input`, a state, and of all other states it depends on, whose values in the
// Context are written down. The file adds in the order of the compiled backend (compiled with -ffp-contract=off, it has
// its bits, but for functions of <math.h>). Refused: an output that does not depend on the input, that draws random
// numbers (a training phase), that depends on a static index, or on a state without a value.
CSource to_c99(const Context& ctx, const Tensor& input, const Tensor& output, const COptions& options = {},
               Source where = Source::here());

// A model that remembers: each run also assigns states, as the updates of a decoding phase do. They are a struct of the
// caller's, `model_state`, which model_begin fills with their values in the Context. Indices of the program are further
// arguments of model_run.
CSource to_c99(const Context& ctx, const Tensor& input, const Tensor& output, const Program& updates,
               const COptions& options = {}, Source where = Source::here());

}  // namespace caravan::deploy
