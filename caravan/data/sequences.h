// Examples for language models: ids that a model is given, and the ids that come next.
//
//     std::vector<std::string> names = read_lines("names.txt");
//     Tokenizer letters = characters(names, {.boundary = "."});
//     auto parts = split(names, {0.8, 0.1, 0.1}, 1);
//     auto [inputs, targets] = contexts(parts[0], letters, 3);  // "..e" -> "m", ".em" -> "m", "emm" -> "a", ..
//
// A long text is not copied once for every window of it. It is one array, `text_table`, from which a step gathers the
// windows that begin at the positions of one row of `random_starts`:
//
//     Array text = text_table(ids), starts = random_starts(text.size(), {.length = 64, .batch = 32, .steps = 1000});
//     Tensor at = einsum("b| => b,0|", starts[step]) + einsum("t => t|", iota(64));
//     Tensor inputs = gather(text, at), targets = gather(text, at + 1);  // 32,64|
#pragma once

#include <string>
#include <vector>

#include "caravan/array/array.h"
#include "caravan/data/tokenizer.h"

namespace caravan::data {

// What a model is given, and what it should say.
struct Sequences {
  Array inputs;   // ids, i32
  Array targets;  // the ids that come next, i32; kNoTarget where nothing does
};
// The target of a position that does not count: nn::cross_entropy(.., {.ignore = kNoTarget}).
inline constexpr int32_t kNoTarget = -100;

// Parts of a random order of the texts, without overlap, as `split` of arrays gives them (loader.h).
std::vector<std::vector<std::string>> split(const std::vector<std::string>& texts, const std::vector<double>& fractions,
                                            uint64_t seed);

// One example for every symbol of every text and for its end: the `length` ids before it (n|length) and its own (n|).
// Before the first symbol stand boundaries. ConfigError for a tokenizer that has no `start` and `end`.
Sequences contexts(const std::vector<std::string>& texts, const Tokenizer& tokenizer, int64_t length);

// One example for every text: `start` and its symbols (n,length|); its symbols and `end` (n,length|). The rest of a row
// is filled up, with `end` and with kNoTarget. ConfigError for a text of more than length - 1 ids.
Sequences whole_texts(const std::vector<std::string>& texts, const Tokenizer& tokenizer, int64_t length);

// The beginning of a text to learn from, and the rest, this fraction of it, to judge by.
struct TextParts {
  Ids train, validation;  // consecutive ids
};
TextParts split_text(const Ids& ids, double validation = 0.1);  // the last tenth validates

// All ids in one array, n->, from which `gather` takes the ids at given positions.
Array text_table(const Ids& ids);

// Where windows of a text begin. A window has `length` inputs; the target of each is the id after it.
struct WindowOptions {
  int64_t length = 0;      // inputs of a window
  int64_t batch = 32;      // windows of a step
  int64_t steps = 1;       // rows of the result
  uint64_t seed = 0;       // another seed, other windows
  int64_t start_step = 0;  // the step of the first row: a run that is resumed goes on exactly
};
// Random positions, steps,batch|, i32. Each depends on the seed, the step and its place in the batch alone. ConfigError
// for a text that is shorter than a window.
Array random_starts(int64_t text_size, const WindowOptions& options);
// Positions of windows that follow each other without overlap, n|, i32, for the loss of a whole text. At most `length`
// ids at its end are in none.
Array even_starts(int64_t text_size, int64_t length);

// The windows themselves, copied: starts of b,..| give inputs and targets of b,..,length|.
Sequences windows(const Ids& ids, const Array& starts, int64_t length);

}  // namespace caravan::data
