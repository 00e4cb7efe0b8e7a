// The next letter from the last one alone: a table of logits, learned by gradient descent, beside the counts.
#include <fmt/format.h>

#include <cmath>

#include "apps/figures.h"
#include "apps/recipes/language_pictures.h"
#include "caravan/base/error.h"
#include "caravan/plot/heat_map.h"

namespace caravan::app {

namespace {

struct Bigram {
  nn::Embedding table;  // a row of logits for each letter
  explicit Bigram(int64_t symbols) : table("table", {.num = symbols, .dim = symbols, .init = zeros()}) {}
  Tensor operator()(const Tensor& ids) const { return einsum("... | _, v => ... | v", table(ids)); }
};

// How often each letter follows each other one, plus one, so that no pair is impossible; row by row.
std::vector<double> pair_counts(const data::Sequences& examples, int64_t symbols) {
  std::vector<double> out(size_t(symbols * symbols), 1);
  for (int64_t i = 0; i < examples.targets.size(); ++i)
    out[size_t(int64_t(examples.inputs.at(i)) * symbols + int64_t(examples.targets.at(i)))] += 1;
  return out;
}

double counts_nll(const std::vector<double>& counts, const data::Sequences& examples, int64_t symbols) {
  std::vector<double> rows(size_t(symbols), 0);
  for (size_t i = 0; i < counts.size(); ++i) rows[i / size_t(symbols)] += counts[i];
  double sum = 0;
  for (int64_t i = 0; i < examples.targets.size(); ++i) {
    const auto row = int64_t(examples.inputs.at(i));
    sum -= std::log(counts[size_t(row * symbols + int64_t(examples.targets.at(i)))] / rows[size_t(row)]);
  }
  return sum / double(examples.targets.size());
}

// The probabilities of the model as shades, the counts of the train names as numbers.
Picture matrix_picture(const Context& ctx, const Bigram& model, const TextData& data) {
  const std::vector<std::string> letters = letter_names(data.tokenizer);
  Context look = interpreted(ctx);
  plot::HeatMap map{.title = "How likely a letter follows another, with the counts of the train names",
                    .rows = letters,
                    .columns = letters,
                    .values = look.eval(nn::softmax(model.table.weight)).values(),
                    .row_title = "after",
                    .column_title = "comes"};
  for (const double count : pair_counts(data.parts[0].examples, data.tokenizer.size()))
    map.cells.push_back(fmt::format("{}", int64_t(count) - 1));
  return {"bigrams.svg", plot::svg(map)};
}

void add_counts(Findings& found, const TextData& data) {
  const int64_t symbols = data.tokenizer.size();
  const std::vector<double> counts = pair_counts(data.parts[0].examples, symbols);
  std::string line = "The counts of the train names themselves, plus one: NLL";
  for (const TextPart& part : data.parts) {
    const double nll = counts_nll(counts, part.examples, symbols);
    found.numbers["counts_" + part.name + "_nll"] = nll;
    line += fmt::format(" {} {}{}", part.name, figure(nll), &part == &data.parts.back() ? ".\n" : ",");
  }
  found.text = [before = found.text, line](const Screen& screen) {
    return before(screen) + '\n' + wrapped(line, screen.width);
  };
}

}  // namespace

TextModel names_bigram(int64_t symbols, const Wishes& wishes) {
  const Bigram model(symbols);
  const double l2 = wishes.l2.value_or(0);
  if (!(l2 >= 0) || !std::isfinite(l2)) throw ConfigError(fmt::format("--l2 is {}; it must be 0 or more.", l2));
  TextModel out{.recipe = "names-bigram",
                .words = fmt::format("a table of {0} by {0} logits", symbols),
                .context = 1,
                .constant_rate = true};
  out.logits = [model](const Tensor& ids, const nn::Phase&) { return model(ids); };
  if (l2 > 0)
    out.penalty = [model, l2] {
      return tunable(l2, "l2") * mean("v | w => ", model.table.weight * model.table.weight);
    };
  out.more = [model](Findings& found, const TextData& data, Context& ctx) {
    add_counts(found, data);
    add_pictures(found, [=]() -> std::vector<Picture> { return {matrix_picture(ctx, model, data)}; });
  };
  return out;
}

}  // namespace caravan::app
