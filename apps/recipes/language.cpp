#include "apps/recipes/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/figures.h"
#include "apps/model_file.h"
#include "apps/recipes/text_data.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/printable.h"
#include "caravan/base/random.h"
#include "caravan/generate/generator.h"
#include "caravan/tensor/functions.h"
#include "caravan/train/checkpoint.h"
#include "caravan/train/precision.h"

namespace caravan::app {

namespace {

constexpr int64_t kSamples = 20, kSampleTokens = 30;  // of names
constexpr int64_t kLongestName = 100;

// A random position below n for each example of a step.
Tensor drawn(int64_t n, int64_t batch, const Index& step) {
  Tensor at = floor(uniform("examples", {.batch = {batch}, .step = step}) * tunable(double(n), "examples"));
  return cast(min(at, tunable(double(n - 1), "last")), DType::i32);
}

// `n, ..|` as a table `n -> ..`, from which `gather` takes examples. Memory has the outputs first.
Array table_of(const Array& examples) {
  const std::vector<int64_t> sizes = examples.shape().sizes();
  const int64_t n = sizes[0], each = examples.size() / n;
  std::vector<int32_t> ids(size_t(examples.size()));
  examples.copy_to(std::span(ids));
  std::vector<int32_t> turned(ids.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t t = 0; t < each; ++t) turned[size_t(t * n + i)] = ids[size_t(i * each + t)];
  if (sizes.size() == 1) return Array({.input = {n}}, turned);
  return Array({.input = {n}, .output = {each}}, turned);
}

struct Drawn {
  Tensor inputs, targets;
};
// Examples of a step, each drawn from all.
Drawn drawn_examples(const data::Sequences& all, int64_t batch, const Index& step) {
  const Tensor at = drawn(all.targets.shape().sizes()[0], batch, step);
  auto of = [&](const Array& ids) {
    const Tensor rows = gather(table_of(ids), at);
    return place(ids.shape().batch.size() == 1 ? rows : einsum("b | t => b, t |", rows), "data");
  };
  return {of(all.inputs), of(all.targets)};
}
// Windows of a text that begin anywhere.
Drawn drawn_windows(const Array& text, int64_t length, int64_t batch, const Index& step) {
  const Tensor first = drawn(text.size() - length, batch, step);
  const Tensor at =
      einsum("b | => b, t |", first, {{"t", length}}) + einsum("t => t |", cast(iota(length), DType::i32));
  return {place(gather(text, at), "data"), place(gather(text, at + 1), "data")};
}

// The mean loss of a character on each part of the data. All parts are one array of batches, so that one program is
// compiled; what fills up the last batch of a part does not count.
class NllMeter {
 public:
  NllMeter(const Context& ctx, const TextModel& model, const std::vector<TextPart>& parts) : ctx_(ctx), model_(model) {
    const int64_t length = model.context, targets = model.window ? 1 : length;
    const int64_t rows = std::clamp<int64_t>(8192 / length, 16, 1024);
    for (const TextPart& part : parts) {
      const data::Sequences& s = part.examples;
      const int64_t n = s.targets.shape().sizes()[0], batches = (n + rows - 1) / rows;
      Range range{int64_t(targets_.size()) / (rows * targets), batches, 0};
      append(inputs_, s.inputs, batches * rows * length, 0);
      append(targets_, s.targets, batches * rows * targets, data::kNoTarget);
      for (int64_t i = 0; i < s.targets.size(); ++i) range.characters += s.targets.at(i) != data::kNoTarget;
      ranges_.push_back(range);
    }
    rows_ = rows;
  }

  double operator()(size_t part) {
    if (!routine_) compile();
    const Range& range = ranges_[part];
    double sum = 0;
    for (int64_t b = 0; b < range.batches; ++b) {
      routine_->run({{*batch_, range.first + b}}, {});
      sum += routine_->read(sum_, {}).item();
    }
    return sum / double(range.characters);
  }

 private:
  struct Range {
    int64_t first, batches, characters;
  };
  static void append(std::vector<int32_t>& to, const Array& from, int64_t count, int32_t filler) {
    const size_t begin = to.size();
    to.resize(begin + size_t(count), filler);
    from.copy_to(std::span(to).subspan(begin, size_t(from.size())));
  }
  void compile() {
    const int64_t length = model_.context, all = int64_t(inputs_.size()) / (rows_ * length);
    batch_.emplace("judged_batch", all);
    const Shape sequences{.batch = {all, rows_, length}};
    const Array inputs(model_.window ? Shape{.batch = {all, rows_}, .output = {length}} : sequences, inputs_);
    const Array targets(model_.window ? Shape{.batch = {all, rows_}} : sequences, targets_);
    sum_ = nn::cross_entropy(model_.logits(inputs[*batch_], {}), targets[*batch_],
                             {.reduction = nn::Reduction::sum, .ignore = data::kNoTarget});
    routine_ = ctx_.compile(observe(sum_), {});
  }

  Context ctx_;
  TextModel model_;
  int64_t rows_ = 0;
  std::vector<int32_t> inputs_, targets_;
  std::vector<Range> ranges_;
  std::optional<Index> batch_;
  Tensor sum_{};
  std::optional<Routine> routine_;
};

std::string samples_text(const std::vector<std::string>& samples, const Language& language, const Screen& screen) {
  if (!language.names) return "A sample:\n" + printable_lines(samples[0]) + '\n';
  std::vector<std::string> shown;
  for (const std::string& one : samples) shown.push_back(printable(one));
  return fmt::format("Samples:\n{}\n", wrapped(fmt::format("{}", fmt::join(shown, ", ")), screen.width));
}

Findings findings(const TextModel& model, const TextData& data, const Language& language, NllMeter& nll, Context& ctx,
                  uint64_t seed) {
  Findings found;
  std::string table = "NLL per character\n";
  for (size_t i = 0; i < data.parts.size(); ++i) {
    const double value = nll(i);
    const std::string& name = data.parts[i].name;
    found.numbers[name + "_nll"] = value;
    table += fmt::format("  {:<10} {}\n", name, figure(value));
    if (i == 1) found.result = fmt::format("NLL {} per character on the {} part", figure(value), name);
  }
  Generator generator = language.generator(ctx);
  for (int64_t i = 0; i < language.count; ++i)
    found.samples.push_back(sample(language, generator,
                                   {.prompt = language.prompt,
                                    .tokens = language.names ? kSampleTokens : language.tokens,
                                    .seed = seed,
                                    .number = uint64_t(i)}));
  found.text = [table, language, samples = found.samples](const Screen& screen) {
    return table + '\n' + samples_text(samples, language, screen);
  };
  if (model.more) model.more(found, data, ctx);
  return found;
}

Recipe recipe_of(const TextModel& model, const TextData& data, const Schedule& schedule, const Language& language,
                 const Index& step, const Drawn& examples) {
  const nn::Phase phase = nn::training({.step = step, .precision = model.precision});
  Tensor loss = nn::cross_entropy(model.logits(examples.inputs.named("inputs"), phase),
                                  examples.targets.named("targets"), {.ignore = data::kNoTarget});
  if (model.penalty) loss = loss + model.penalty();
  loss = loss.named("loss");
  const double steps = double(schedule.steps);
  const Tensor lr = model.constant_rate
                        ? step * 0 + tunable(schedule.lr, "lr")
                        : warmup(step, std::max(1.0, std::floor(steps / 50)), cosine_decay(step, steps, schedule.lr));
  const Transform clip = model.clip > 0 ? clip_by_global_norm(model.clip) : nullptr;
  const Optimizer optimizer = chosen_optimizer(schedule, lr);
  Recipe out{
      schedule,
      loss,
      (model.precision == DType::f16 ? scaled_step(loss, optimizer, {}, clip) : train_step(loss, optimizer, clip)) &
          phase.updates(),
      Index("batch", schedule.steps_per_epoch()),
      step,
      lr};
  out.model = model.words;
  if (model.precision) out.model += fmt::format(", products in {}", name(*model.precision));
  out.data = data.source;
  out.data_sum = data.sum;
  out.stand_in = data.stand_in;
  out.vocabulary = data.tokenizer.text();
  out.evaluated = language.called;
  out.evaluate = [=, seed = schedule.seed](Context& ctx) {
    const auto nll = std::make_shared<NllMeter>(ctx, model, data.parts);
    return Evaluation{[=] { return (*nll)(1); },
                      [=]() mutable { return findings(model, data, language, *nll, ctx, seed); }};
  };
  return out;
}

Language language_of(const TextModel& model, const data::Tokenizer& tokenizer) {
  Language out{.tokenizer = tokenizer};
  const Shape one = model.window ? Shape{.batch = {1}, .output = {model.context}} : Shape{.batch = {1, model.context}};
  out.called = model.logits(Array(one, DType::i32), {});
  if (model.window) {
    out.window = model.context;
    const Window window([model](const Tensor& ids) { return model.logits(ids, {}); }, model.context,
                        tokenizer.start().value_or(0));
    out.step = window;
    out.generator = [window](const Context& ctx) { return Generator(ctx, window, {}, {}); };
  } else {
    out.longest = out.capacity = model.context;
    out.step = model.logits;
    out.generator = [model](const Context& ctx) {
      return Generator(ctx, model.logits, {.capacity = model.context}, {});
    };
  }
  return out;
}
Language name_language_of(const TextModel& model, const data::Tokenizer& letters) {
  Language out = language_of(model, letters);
  out.end = letters.end();
  out.names = true;
  out.count = kSamples, out.tokens = kLongestName;
  out.first = {*letters.start()};
  if (!model.window) --out.longest;
  return out;
}
Language text_language_of(const TextModel& model, const data::Tokenizer& characters) {
  Language out = language_of(model, characters);
  out.prompt = characters.piece(0);  // a line end, in most texts
  return out;
}

std::vector<Part> parts_of(const TextModel& model) {
  auto layers = [model](const Tensor& x) -> std::vector<Part::Layer> {
    const Tensor ids = cast(x, DType::i32);
    const Tensor logits =
        model.window ? model.logits(ids, {})
                     : einsum("..., t | v => ... | t, v", model.logits(einsum("... | t => ..., t |", ids), {}));
    return {{"logits", logits}, {"probabilities", nn::softmax(logits)}};
  };
  return {{"next", Shape{.output = {model.context}}, layers, true}};
}

// The model with the size and the precision that are wished.
TextModel wished(MakeTextModel make, int64_t symbols, const Wishes& wishes) {
  TextModel out = make(symbols, wishes);
  check_choices(find_recipe(out.recipe), wishes);
  if (wishes.precision == "bf16") out.precision = DType::bf16;
  if (wishes.precision == "f16") out.precision = DType::f16;
  return out;
}

}  // namespace

Recipe names_recipe(MakeTextModel make, const Request& request) {
  const FoundText names = find_names(request);
  const data::Tokenizer letters = letters_of(request, names);
  const TextModel model = wished(make, letters.size(), request.wishes);
  const TextData data{letters, name_parts(names, letters, model, request.seed), names.source, names.sum,
                      names.stand_in};
  const data::Sequences& train = data.parts[0].examples;
  Defaults defaults = model.defaults.value_or(find_recipe(model.recipe).defaults);
  defaults.points = train.targets.shape().sizes()[0];
  const Schedule schedule = app::schedule(request, defaults);
  const Index step("step");
  return recipe_of(model, data, schedule, name_language_of(model, letters), step,
                   drawn_examples(train, schedule.batch, step));
}
Language names_language(MakeTextModel make, const Request& request) {
  const data::Tokenizer letters = letters_of(request);
  return name_language_of(wished(make, letters.size(), request.wishes), letters);
}
std::vector<Part> names_parts(MakeTextModel make, const Request& request) {
  return parts_of(wished(make, letters_of(request).size(), request.wishes));
}

Recipe text_recipe(MakeTextModel make, const Request& request) {
  const FoundText text = find_shakespeare(request);
  const data::Tokenizer characters = characters_of(request, text);
  const TextModel model = wished(make, characters.size(), request.wishes);
  const VerseData verses = verse_data(text, characters, model);
  const TextData data{characters, verses.parts, text.source, text.sum, text.stand_in};
  Defaults defaults = model.defaults.value_or(find_recipe(model.recipe).defaults);
  defaults.points = (verses.train.size() - 1) / model.context;
  const Schedule schedule = app::schedule(request, defaults);
  const Index step("step");
  return recipe_of(model, data, schedule, text_language_of(model, characters), step,
                   drawn_windows(verses.train, model.context, schedule.batch, step));
}
Language text_language(MakeTextModel make, const Request& request) {
  const data::Tokenizer characters = characters_of(request);
  return text_language_of(wished(make, characters.size(), request.wishes), characters);
}
std::vector<Part> text_parts(MakeTextModel make, const Request& request) {
  return parts_of(wished(make, characters_of(request).size(), request.wishes));
}

void load_language(const data::Tensors& weights, const std::string& path, const Language& language, Context& ctx) {
  ctx.compile(observe(language.called), {});                            // so that the Context has the model's states
  load_checkpoint(weights, path, ctx, {.allow_unexpected = true}, {});  // the moments of its optimiser
  if (const std::string problem = nonfinite_state(ctx); !problem.empty())
    throw ConfigError(fmt::format("{} is of a model that diverged: {}.", path, problem));
}

std::string sample(const Language& language, Generator& generator, const SampleRequest& request) {
  const data::Tokenizer& tokenizer = language.tokenizer;
  data::Ids prompt = tokenizer.encode(request.prompt);
  if (language.longest > 0 && int64_t(prompt.size()) > language.longest)
    throw ConfigError(fmt::format("the prompt has {} tokens, but the model sees at most {}; give it the last part.",
                                  prompt.size(), language.longest));
  prompt.insert(prompt.begin(), language.first.begin(), language.first.end());
  if (prompt.empty() && language.longest > 0 && tokenizer.start()) prompt = {*tokenizer.start()};
  const Word4 words = random_words(request.seed, hash_name("sample"), request.number, 0);
  GenerateOptions options{.tokens = request.tokens,
                          .sampling = {.temperature = request.temperature,
                                       .top_k = request.top_k,
                                       .top_p = request.top_p,
                                       .repetition_penalty = request.repetition_penalty,
                                       .seed = uint64_t(words[0]) << 32 | words[1]},
                          .end = language.end};
  std::string text = request.prompt;
  if (request.each) request.each(text);
  options.each = [&](int64_t, int32_t id) {
    std::string piece = tokenizer.piece(id);
    if (text.empty() && language.blank_first && piece.starts_with(' ')) piece.erase(0, 1);
    text += piece;
    return !request.each || request.each(piece);
  };
  generator(prompt, options, {});
  return text;
}

}  // namespace caravan::app
