#include "apps/recipes/digits.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/figures.h"
#include "caravan/data/gzip.h"
#include "caravan/data/loader.h"
#include "caravan/plot/sheet.h"

namespace caravan::app {

Tensor pixels(const Tensor& images) { return cast(images, DType::f32) / 255.0; }
Tensor flattened(const Tensor& x) { return einsum("... | h, w, c => ... | h&w&c", x); }

DigitBatches digit_batches(const Request& request, Defaults defaults, bool shuffled) {
  const data::Digits digits = data::find_digits(request.places, request.seed);
  defaults.points = digits.train.labels.size();
  const Schedule schedule = app::schedule(request, defaults);
  const Index batch("batch", schedule.steps_per_epoch()), step("step");
  data::Arrays both = {digits.train.images, digits.train.labels};
  if (shuffled) both = data::shuffled(both, schedule.seed);
  for (Array& array : both) array = data::whole_batches(array, schedule.batch);
  return {digits,
          schedule,
          batch,
          step,
          place(pixels(both[0][batch]).named("x"), "data"),
          place(cast(both[1][batch], DType::i32).named("labels"), "data")};
}

namespace {

plot::Sheet sheet_of(const Predictions& p, const std::vector<size_t>& which, const std::string& title) {
  std::vector<int64_t> rows;
  plot::Sheet out;
  out.title = title;
  for (const size_t i : which) {
    rows.push_back(int64_t(i));
    out.captions.push_back(p.said(i) == p.truth(i) ? fmt::format("{}", p.truth(i))
                                                   : fmt::format("{} as {}", p.truth(i), p.said(i)));
  }
  out.images = p.inputs.take(rows);
  return out;
}

// What checksum() gives for MNIST: the CRC-32 of its images and labels, train and test. It tells another data set and a
// damaged one apart from MNIST, though not one that somebody made to have the same sums; `caravan data get` compares
// SHA-256.
constexpr const char* kMnist = "f3639b56ba07e8efe4ca5f57ee8604d9";

std::string checksum(const data::Digits& digits) {
  std::string out;
  for (const data::LabelledImages* part : {&digits.train, &digits.test})
    for (const Array* bytes : {&part->images, &part->labels})
      out += fmt::format("{:08x}", data::crc32({static_cast<const char*>(bytes->data()), size_t(bytes->size())}));
  return out;
}

std::vector<size_t> first(size_t count, size_t of) {
  std::vector<size_t> out;
  for (size_t i = 0; i < std::min(count, of); ++i) out.push_back(i);
  return out;
}

Findings digit_findings(const Predictions& p) {
  Findings found;
  found.numbers = {{"test_accuracy", p.accuracy()}};
  found.result =
      fmt::format("accuracy {} on {}", percent(p.accuracy()), counted(p.labels.size(), "test image", "test images"));
  found.text = [=](const Screen& screen) {
    return fmt::format("{}\nThe first of them:\n{}", confusion_text(confusion(p, "Test images"), screen),
                       examples_text(p, screen));
  };
  found.pictures = [=]() -> std::vector<Picture> {
    std::vector<size_t> wrong = p.wrong();
    const plot::Sheet samples = sheet_of(p, first(100, p.probabilities.size()), "Test images and what is read");
    std::vector<Picture> out = {{"samples.png", plot::png(samples)}};
    out.push_back({"confusion.svg", plot::svg(confusion(p, "Test images"))});
    if (!wrong.empty()) {
      wrong.resize(std::min<size_t>(100, wrong.size()));
      out.push_back(
          {"misread.png", plot::png(sheet_of(p, wrong, "Misread: 4 as 9 is a 4 read as a 9; the surest first"))});
    }
    return out;
  };
  return found;
}

}  // namespace

void add_digit_findings(Recipe& recipe, const data::Digits& digits, const Model& probabilities,
                        const MoreFindings& more) {
  recipe.data = digits.source;
  recipe.data_sum = checksum(digits);
  recipe.stand_in = digits.drawn || (!digits.chosen && recipe.data_sum != kMnist);
  const Model model = [probabilities](const Tensor& images) { return probabilities(pixels(images)); };
  const data::LabelledImages test = digits.test;
  recipe.evaluate = [=](Context& ctx) {
    const auto predictor = std::make_shared<Predictor>(ctx, model, test.images, test.labels);
    return Evaluation{[=] { return predictor->predict().accuracy(); },
                      [=]() mutable {
                        const Predictions p = predictor->predict();
                        Findings found = digit_findings(p);
                        if (more) more(found, p, ctx);
                        return found;
                      }};
  };
}

}  // namespace caravan::app
