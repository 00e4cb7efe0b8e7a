#include "apps/recipes/language_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "caravan/autodiff/grad.h"
#include "caravan/base/printable.h"
#include "caravan/plot/heat_map.h"
#include "caravan/plot/histograms.h"
#include "caravan/plot/name_map.h"
#include "caravan/tensor/functions.h"

namespace caravan::app {

namespace {

using Rows = std::vector<std::vector<double>>;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double out = 0;
  for (size_t i = 0; i < a.size(); ++i) out += a[i] * b[i];
  return out;
}

// The direction in which the rows, whose mean is 0, vary most, by power iteration.
std::vector<double> principal_direction(const Rows& rows) {
  std::vector<double> out(rows[0].size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = 1 / double(i + 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> sum(out.size(), 0);
    for (const std::vector<double>& row : rows) {
      const double along = dot(row, out);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += along * row[i];
    }
    const double length = std::sqrt(dot(sum, sum));
    if (!(length > 0)) return out;
    for (size_t i = 0; i < sum.size(); ++i) out[i] = sum[i] / length;
  }
  return out;
}

// Takes the direction out of the rows; gives how far each lay along it.
std::vector<double> taken_out(Rows& rows, const std::vector<double>& direction) {
  std::vector<double> out;
  for (std::vector<double>& row : rows) {
    out.push_back(dot(row, direction));
    for (size_t i = 0; i < row.size(); ++i) row[i] -= out.back() * direction[i];
  }
  return out;
}

void centre(Rows& rows) {
  for (size_t i = 0; i < rows[0].size(); ++i) {
    double sum = 0;
    for (const std::vector<double>& row : rows) sum += row[i];
    for (std::vector<double>& row : rows) row[i] -= sum / double(rows.size());
  }
}

}  // namespace

std::vector<std::string> letter_names(const data::Tokenizer& tokenizer) {
  std::vector<std::string> out;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string piece = tokenizer.piece(id);
    out.push_back(piece == " " ? "␣" : piece == "\n" ? "↵" : printable(piece));
  }
  return out;
}

Picture embedding_picture(const Context& ctx, const nn::Embedding& embedding, const data::Tokenizer& tokenizer) {
  const Array weights = ctx.read(embedding.weight);  // a row for each letter
  const int64_t letters = tokenizer.size(), width = weights.size() / letters;
  Rows rows;
  for (int64_t i = 0; i < letters; ++i) {
    std::vector<double>& row = rows.emplace_back();
    for (int64_t c = 0; c < width; ++c) row.push_back(weights.at(i * width + c));
  }
  centre(rows);
  const std::vector<double> x = taken_out(rows, principal_direction(rows)),
                            y = taken_out(rows, principal_direction(rows));
  const std::vector<std::string> names = letter_names(tokenizer);
  plot::NameMap map{"The letters as the model sees them", "largest principal component", "second", {}};
  for (size_t i = 0; i < names.size(); ++i) map.places.push_back({names[i], x[i], y[i]});
  return {"embedding.svg", plot::svg(map)};
}

std::vector<Picture> hidden_pictures(const Context& ctx, const TextData& data,
                                     const std::function<Tensor(const Tensor& ids)>& hidden,
                                     const std::function<Tensor(const Tensor& hidden)>& next) {
  const data::Sequences& train = data.parts[0].examples;
  const int64_t n = std::min<int64_t>(1000, train.targets.size());
  const Tensor values = hidden(train.inputs.part(0, n));
  const Tensor gradients = grad(nn::cross_entropy(next(values), train.targets.part(0, n)), values);
  Context first = interpreted(Context({.seed = ctx.seed(), .device = "interp"})), now = interpreted(ctx);
  const std::vector<Array> before = first.eval({values, gradients}), after = now.eval({values, gradients});
  auto picture = [&](size_t i, const char* file, const char* title, const char* label) -> Picture {
    const plot::Histograms histograms{
        title, label, {{"at the first step", before[i].values()}, {"now", after[i].values()}}};
    return {file, plot::svg(histograms)};
  };
  return {picture(0, "activations.svg", "What the hidden layer gives", "tanh"),
          picture(1, "gradients.svg", "What gradients the hidden layer receives", "gradient")};
}

std::vector<Picture> attention_pictures(const Context& ctx, const nn::Gpt& gpt, const data::Tokenizer& tokenizer,
                                        const std::string& text, size_t most) {
  data::Ids ids = tokenizer.encode(text);
  if (tokenizer.start()) ids.insert(ids.begin(), *tokenizer.start());
  ids.resize(std::min(ids.size(), most));
  const auto n = int64_t(ids.size());
  Tensor x = gpt.pos(gpt.tok(Array({.batch = {1, n}}, ids)));
  for (size_t i = 0; i + 1 < gpt.blocks.size(); ++i) x = gpt.blocks[i](x);
  const nn::EncoderBlock& last = gpt.blocks.back();
  const int64_t heads = last.attn.options.heads;
  const Bindings sizes{{"h", heads}, {"k", heads}, {"v", heads}};
  const Tensor all = last.attn.qkv(last.ln1(x));
  const Tensor q = einsum("..., t | h^k^v, d => ..., t | h, d", all, sizes),
               k = einsum("..., t | h^k^v, d => ..., t | k, d", all, sizes);
  Dim d, s, t;
  Tensor scores =
      einsum("..., s | h, d; ..., t | h, d => ..., s | t -> h", q, k, {{"d", d}, {"s", s}, {"t", t}}) / sqrt(d);
  scores = where(einsum("=> s | t ->", 1, {{"s", s}, {"t", t}, {"t <= s"}}), scores, -1e30);
  const Tensor weights = einsum("_, s | t -> h => h, s, t", nn::softmax("..., s | t -> h => ..., s | 0 -> h", scores));
  Context look = interpreted(ctx);
  const std::vector<double> found = look.eval(weights).values();
  std::vector<std::string> letters;
  for (const int32_t id : ids) letters.push_back(letter_names(tokenizer)[size_t(id)]);
  std::vector<Picture> out;
  for (int64_t head = 0; head < heads; ++head) {
    const auto from = found.begin() + head * n * n;
    const plot::HeatMap map{.title = fmt::format("What head {} of the last layer looks at", head + 1),
                            .rows = letters,
                            .columns = letters,
                            .values = {from, from + n * n},
                            .row_title = "after this letter",
                            .column_title = "looks at",
                            .cell = 30};
    out.push_back({fmt::format("attention{}.svg", head + 1), plot::svg(map)});
  }
  return out;
}

void add_pictures(Findings& found, std::function<std::vector<Picture>()> more) {
  found.pictures = [before = found.pictures, more = std::move(more)] {
    std::vector<Picture> out = before ? before() : std::vector<Picture>();
    for (Picture& picture : more()) out.push_back(std::move(picture));
    return out;
  };
}

}  // namespace caravan::app
