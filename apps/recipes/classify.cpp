#include "apps/recipes/classify.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/data/loader.h"

namespace caravan::app {

int64_t Predictions::said(size_t i) const {
  const std::vector<float>& p = probabilities[i];
  return std::max_element(p.begin(), p.end()) - p.begin();
}
double Predictions::confidence(size_t i) const {
  return *std::max_element(probabilities[i].begin(), probabilities[i].end());
}
double Predictions::accuracy() const { return 1 - double(wrong().size()) / double(probabilities.size()); }
std::vector<size_t> Predictions::wrong() const {
  std::vector<size_t> out;
  for (size_t i = 0; i < probabilities.size(); ++i)
    if (said(i) != truth(i)) out.push_back(i);
  std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return confidence(a) > confidence(b); });
  return out;
}

namespace {

constexpr int64_t kAtOnce = 100;

int64_t batches_of(const Array& examples) { return (examples.shape().batch[0].size + kAtOnce - 1) / kAtOnce; }

}  // namespace

Predictor::Predictor(const Context& ctx, Model probabilities, const Array& inputs, const Array& labels)
    : ctx_(ctx),
      probabilities_(std::move(probabilities)),
      inputs_(inputs),
      labels_(labels),
      batch_("test_batch", batches_of(inputs)) {}

Predictions Predictor::predict() {
  if (!routine_) {
    answer_ = probabilities_(data::whole_batches(inputs_, kAtOnce)[batch_]);
    routine_ = ctx_.compile(observe(answer_));
  }
  Predictions out{inputs_, labels_, {}};
  for (int64_t b = 0; b < batches_of(inputs_); ++b) {
    routine_->run({{batch_, b}});
    const Array values = routine_->read(answer_);
    const int64_t classes = values.size() / kAtOnce;
    for (int64_t i = 0; i < kAtOnce && b * kAtOnce + i < labels_.size(); ++i) {
      std::vector<float>& p = out.probabilities.emplace_back();
      for (int64_t c = 0; c < classes; ++c) p.push_back(float(values.at(i * classes + c)));
    }
  }
  return out;
}

plot::Confusion confusion(const Predictions& predictions, const std::string& title, std::vector<std::string> classes) {
  const size_t count = predictions.probabilities[0].size();
  for (size_t c = classes.size(); c < count; ++c) classes.push_back(std::to_string(c));
  std::vector<double> said;
  for (size_t i = 0; i < predictions.probabilities.size(); ++i) said.push_back(double(predictions.said(i)));
  return plot::confusion(title, std::move(classes), predictions.labels, Array::vector(said));
}

std::string confusion_text(const plot::Confusion& confusion, const Screen& screen) {
  return plot::text(confusion, screen.width, [&](const std::string& count, bool right) {
    return screen.styled(right ? Style::green : Style::red, count);
  });
}

std::string examples_text(const Predictions& predictions, const Screen& screen) {
  const size_t count = std::min(size_t(screen.width - 6) / 5, size_t(20));
  std::string truth, said, sure;
  for (size_t i = 0; i < std::min(count, predictions.probabilities.size()); ++i) {
    const bool right = predictions.said(i) == predictions.truth(i);
    truth += fmt::format("{:>5}", predictions.truth(i));
    said += screen.styled(right ? Style::green : Style::red, fmt::format("{:>5}", predictions.said(i)));
    sure += fmt::format("{:>4.0f}%", 100 * predictions.confidence(i));
  }
  return fmt::format("truth{}\nsaid {}\nsure {}\n", truth, said, sure);
}

}  // namespace caravan::app
