#include "caravan/generate/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "caravan/base/error.h"
#include "caravan/base/random.h"

namespace caravan {

namespace {

template <class Number>
void check(bool sensible, const char* what, Number given, const char* must, Source where) {
  if (!sensible)
    throw ConfigError(fmt::format("sampling{}: {} is {}; it must be {}.", where_text(where), what, given, must), where);
}

}  // namespace

Sampler::Sampler(int64_t vocab, const SamplingOptions& options, Source where) : options_(options) {
  check(vocab > 0, "the size of the vocabulary", vocab, "1 or more", where);
  check(options.temperature >= 0 && std::isfinite(options.temperature), "the temperature", options.temperature,
        "0 (always the likeliest token) or a larger finite number", where);
  check(options.top_k >= 0, "top_k", options.top_k, "0 (all tokens) or more", where);
  check(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "above 0 and at most 1", where);
  check(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty), "the repetition penalty",
        options.repetition_penalty, "a finite number above 0; 1 changes nothing", where);
  scores_.resize(size_t(vocab)), order_.resize(size_t(vocab)), seen_.resize(size_t(vocab));
}

int32_t Sampler::operator()(std::span<const float> logits, std::span<const int32_t> before, uint64_t sequence,
                            uint64_t position) {
  CARAVAN_CHECK(logits.size() == scores_.size(), "logits of another vocabulary");
  std::copy(logits.begin(), logits.end(), scores_.begin());
  if (const float penalty = float(options_.repetition_penalty); penalty != 1) {
    std::fill(seen_.begin(), seen_.end(), false);
    for (int32_t id : before)
      if (id >= 0 && size_t(id) < seen_.size()) seen_[size_t(id)] = true;
    for (size_t i = 0; i < scores_.size(); ++i)
      if (seen_[i]) scores_[i] = scores_[i] > 0 ? scores_[i] / penalty : scores_[i] * penalty;
  }
  const auto best = std::max_element(scores_.begin(), scores_.end());  // the first of equals
  if (options_.temperature == 0) return int32_t(best - scores_.begin());

  const float largest = *best;
  for (float& s : scores_) s = float(std::exp((double(s) - largest) / options_.temperature));
  std::iota(order_.begin(), order_.end(), 0);
  size_t kept = order_.size();
  if (options_.top_k > 0 && size_t(options_.top_k) < kept) kept = size_t(options_.top_k);
  if (kept < order_.size() || options_.top_p < 1)
    std::partial_sort(order_.begin(), order_.begin() + ptrdiff_t(kept), order_.end(), [&](int32_t a, int32_t b) {
      return scores_[size_t(a)] != scores_[size_t(b)] ? scores_[size_t(a)] > scores_[size_t(b)] : a < b;
    });
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += scores_[size_t(order_[i])];
  if (options_.top_p < 1) {
    const double enough = options_.top_p * total;
    total = 0;
    for (size_t i = 0; i < kept; ++i)
      if ((total += scores_[size_t(order_[i])]) >= enough) kept = i + 1;
  }
  static const uint64_t stream = hash_name("sample");
  double left = unit_uniform(random_words(options_.seed, stream, position, sequence)[0]) * total;
  for (size_t i = 0; i + 1 < kept; ++i)
    if ((left -= scores_[size_t(order_[i])]) < 0) return order_[i];
  return order_[kept - 1];
}

}  // namespace caravan
