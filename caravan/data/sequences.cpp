#include "caravan/data/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "caravan/base/error.h"
#include "caravan/base/random.h"
#include "caravan/data/json_text.h"
#include "caravan/data/order.h"

namespace caravan::data {

namespace {

void check_length(int64_t length) {
  if (length < 1) throw ConfigError(fmt::format("a sequence of {} ids cannot be; give a positive length.", length));
}

struct Ends {
  int32_t start, end;
};
Ends ends_of(const Tokenizer& tokenizer) {
  if (!tokenizer.start() || !tokenizer.end())
    throw ConfigError(
        "the tokenizer has no symbols for the start and the end of a text; give its characters a .boundary.");
  return {*tokenizer.start(), *tokenizer.end()};
}

std::vector<Ids> encoded(const std::vector<std::string>& texts, const Tokenizer& tokenizer) {
  const auto [start, end] = ends_of(tokenizer);
  std::vector<Ids> out;
  for (const std::string& text : texts) {
    out.push_back(tokenizer.encode(text));
    for (const int32_t id : out.back())
      if (id == start || id == end)
        throw ConfigError(
            fmt::format("the text {} contains the boundary {}, which stands before and after a text and not within it.",
                        shown(text), shown(tokenizer.piece(id))));
  }
  return out;
}

// Positions are i32.
void check_text_size(int64_t size) {
  if (size > std::numeric_limits<int32_t>::max())
    throw ConfigError(fmt::format("a text of {} ids is too long: positions in it are numbers of 32 bits.", size));
}

void check_window(int64_t text_size, int64_t length) {
  check_length(length);
  check_text_size(text_size);
  if (text_size <= length)
    throw ConfigError(
        fmt::format("a window of {} ids and the one that comes next does not fit into a text of {}; "
                    "give a longer text or shorter windows.",
                    length, text_size));
}

}  // namespace

std::vector<std::vector<std::string>> split(const std::vector<std::string>& texts, const std::vector<double>& fractions,
                                            uint64_t seed) {
  std::vector<std::vector<std::string>> out;
  for (const std::vector<int64_t>& part : split_order(int64_t(texts.size()), fractions, seed)) {
    out.emplace_back();
    for (const int64_t i : part) out.back().push_back(texts[size_t(i)]);
  }
  return out;
}

Sequences contexts(const std::vector<std::string>& texts, const Tokenizer& tokenizer, int64_t length) {
  check_length(length);
  const auto [start, end] = ends_of(tokenizer);
  Ids inputs, targets;
  for (const Ids& ids : encoded(texts, tokenizer)) {
    Ids context(size_t(length), start);
    for (size_t i = 0; i <= ids.size(); ++i) {
      const int32_t next = i < ids.size() ? ids[i] : end;
      inputs.insert(inputs.end(), context.begin(), context.end());
      targets.push_back(next);
      context.erase(context.begin());
      context.push_back(next);
    }
  }
  const size_t n = targets.size();
  return {Array({.batch = {n}, .output = {length}}, inputs), Array({.batch = {n}}, targets)};
}

Sequences whole_texts(const std::vector<std::string>& texts, const Tokenizer& tokenizer, int64_t length) {
  check_length(length);
  const auto [start, end] = ends_of(tokenizer);
  const size_t n = texts.size(), width = size_t(length);
  Ids inputs(n * width, end), targets(n * width, kNoTarget);
  const std::vector<Ids> all = encoded(texts, tokenizer);
  for (size_t i = 0; i < n; ++i) {
    const Ids& ids = all[i];
    if (ids.size() >= width)
      throw ConfigError(fmt::format("the text {} has {} ids, and a sequence of {} has room for {}; give a longer one.",
                                    shown(texts[i]), ids.size(), length, length - 1));
    inputs[i * width] = start;
    std::copy(ids.begin(), ids.end(), inputs.begin() + int64_t(i * width + 1));
    std::copy(ids.begin(), ids.end(), targets.begin() + int64_t(i * width));
    targets[i * width + ids.size()] = end;
  }
  const Shape shape{.batch = {n, length}};
  return {Array(shape, inputs), Array(shape, targets)};
}

TextParts split_text(const Ids& ids, double validation) {
  if (!(validation >= 0 && validation <= 1))
    throw ConfigError(fmt::format("a fraction of {} of a text cannot validate; give one between 0 and 1.", validation));
  const auto middle = ids.begin() + int64_t((1 - validation) * double(ids.size()));
  return {{ids.begin(), middle}, {middle, ids.end()}};
}

Array text_table(const Ids& ids) {
  check_text_size(int64_t(ids.size()));
  return Array({.input = {ids.size()}}, ids);
}

Array random_starts(int64_t text_size, const WindowOptions& options) {
  const auto& [length, batch, steps, seed, start_step] = options;
  check_window(text_size, length);
  if (batch < 1 || steps < 1 || start_step < 0)
    throw ConfigError(fmt::format("{} steps of {} windows from step {} on cannot be.", steps, batch, start_step));
  const uint64_t stream = hash_name("windows.starts"), places = uint64_t(text_size - length);
  Ids out;
  out.reserve(size_t(steps * batch));
  for (int64_t step = start_step; step < start_step + steps; ++step)
    for (int64_t i = 0; i < batch; ++i) {
      const Word4 w = random_words(seed, stream, uint64_t(step), uint64_t(i));
      out.push_back(int32_t((uint64_t(w[0]) << 32 | w[1]) % places));
    }
  return Array({.batch = {steps, batch}}, out);
}

Array even_starts(int64_t text_size, int64_t length) {
  check_window(text_size, length);
  Ids out;
  for (int64_t at = 0; at + length < text_size; at += length) out.push_back(int32_t(at));
  return Array({.batch = {out.size()}}, out);
}

Sequences windows(const Ids& ids, const Array& starts, int64_t length) {
  check_window(int64_t(ids.size()), length);
  Ids inputs, targets;
  for (const int32_t at : starts.as<int32_t>()) {
    if (at < 0 || at + length >= int64_t(ids.size()))
      throw StateError(fmt::format("a window of {} ids at {} and the id that comes next are not in a text of {}.",
                                   length, at, ids.size()));
    inputs.insert(inputs.end(), ids.begin() + at, ids.begin() + at + length);
    targets.insert(targets.end(), ids.begin() + at + 1, ids.begin() + at + 1 + length);
  }
  Shape shape = starts.shape();
  shape.batch.push_back(length);
  return {Array(shape, inputs), Array(shape, targets)};
}

}  // namespace caravan::data
