#include "caravan/generate/generator.h"

#include <algorithm>
#include <map>
#include <string>

#include "caravan/base/error.h"
#include "caravan/tensor/functions.h"

namespace caravan {

Tensor Window::operator()(Operand ids, const nn::Phase& phase) const {
  auto logits = [&](const Tensor& window) { return einsum("... | v => ..., t | v", model_(window), {{"t", 1}}); };
  if (size_ == 1) return logits(einsum("..., t | => ... | t", ids, {{"t", 1}}));  // there is nothing to remember
  Tensor shape = einsum("..., _ | => w, ... |", ids, {{"w", size_}});
  Tensor state = state_like(shape, "window", constant(before_), ids.where);
  Tensor now = concat("first^w, ... |; ..., t | => w^t, ... |", state, ids, {{"first", 1}, {"t", 1}});
  phase.update(state, Operand(now, ids.where));
  return logits(einsum("w, ... | => ... | w", now));
}

namespace {

constexpr int64_t kShortestPrompt = 8;  // prompts are compiled for this length and its doubles

// A compiled call of the model, and the logits of the token that follows.
struct Compiled {
  Routine routine;
  Tensor logits;       // `b | vocab`
  IndexValues values;  // kept, so that a token allocates nothing
};

std::string times_text(int64_t n) { return n == 1 ? "1 token" : std::to_string(n) + " tokens"; }

}  // namespace

struct Generator::Impl {
  Context lender;
  Model model;
  Ids window;  // what the model of a window sees before the prompt; empty: a model with caches
  GeneratorOptions options;
  Source where;

  // What is compiled for so many sequences. Caches have the sizes of a batch, so each has a Context of its own.
  struct Batch {
    Context ctx;
    std::optional<Compiled> token{}, padded_token{};
    std::map<int64_t, Compiled> prompts{}, padded_prompts{};  // by length
  };
  std::map<int64_t, Batch> batches;

  Batch& batch_of(int64_t size) {
    auto at = batches.find(size);
    if (at == batches.end()) at = batches.emplace(size, Batch{lender.reader(options.threads)}).first;
    return at->second;
  }
  Compiled compiled(Context& ctx, const Tensor& logits, const nn::Phase& phase, IndexValues values) const {
    Program program = observe(logits);
    if (options.cache || !window.empty()) program &= phase.updates();
    return {ctx.compile(program, where), logits, std::move(values)};
  }
  static Tensor first_input(int64_t size) {
    return input("generate.first", {.batch = {size}, .output = Extents{}, .dtype = DType::i32});
  }

  // One token of each sequence. The tokens are indices, which cost nothing to write.
  Compiled& token(Batch& batch, int64_t size, bool padded) {
    std::optional<Compiled>& out = padded ? batch.padded_token : batch.token;
    if (out) return *out;
    Index at("at", options.capacity);
    IndexValues values{{at, 0}};
    std::vector<Tensor> ids;
    for (int64_t i = 0; i < size; ++i) {
      Index id("token." + std::to_string(i));
      values.emplace_back(id, 0);
      ids.push_back(Operand(id).tensor);
    }
    nn::DecodingOptions decoding{.capacity = options.capacity, .at = at, .precision = options.precision};
    if (padded) decoding.first = first_input(size);
    const nn::Phase phase = nn::decoding(decoding);
    Tensor given = einsum("b => b, t |", cast(stack(ids), DType::i32), {{"t", 1}});
    Tensor logits = einsum("b, _ | v => b | v", model(Operand(given, where), phase));
    out = compiled(batch.ctx, logits, phase, std::move(values));
    return *out;
  }

  // Prompts of `length` tokens, of which those after the value of `last` are of no account.
  Compiled& prompt(Batch& batch, int64_t size, int64_t length, bool padded) {
    auto& all = padded ? batch.padded_prompts : batch.prompts;
    if (auto at = all.find(length); at != all.end()) return at->second;
    Index last("last", length);
    Tensor ids = input("generate.prompt", {.batch = {size, length}, .output = Extents{}, .dtype = DType::i32});
    nn::DecodingOptions decoding{.capacity = options.capacity, .prompt = length, .precision = options.precision};
    if (padded) decoding.first = first_input(size);
    const nn::Phase phase = nn::decoding(decoding);
    Tensor logits = einsum("b, t | v => t, b | v", model(Operand(ids, where), phase))[last];
    return all.emplace(length, compiled(batch.ctx, logits, phase, {{last, 0}})).first->second;
  }
};

Generator::Generator(const Context& ctx, Model model, Ids window, const GeneratorOptions& options, Source where)
    : impl_(std::make_unique<Impl>(Impl{ctx, std::move(model), std::move(window), options, where, {}})) {
  if (options.capacity < 1 && impl_->window.empty())
    throw ConfigError("a Generator" + where_text(where) +
                          " needs .capacity, the longest sequence that its model sees (the .ctx of a Gpt).",
                      where);
}
Generator::Generator(const Context& ctx, const Window& model, const GeneratorOptions& options, Source where)
    : Generator(ctx, Model([model](const Operand& ids, const nn::Phase& phase) { return model(ids, phase); }),
                Ids(size_t(model.size()), model.before()),
                {.capacity = model.size(), .precision = options.precision, .threads = options.threads}, where) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Ids Generator::operator()(const Ids& prompt, const GenerateOptions& options, Source where) {
  return batch({prompt}, options, where)[0];
}

namespace {

// One call: sequences that grow until each has ended.
class Run {
 public:
  Run(const std::vector<Ids>& prompts, const GenerateOptions& options, Source where)
      : options_(options), where_(where), sequences_(prompts), done_(prompts.size(), false) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      sequences_[i].reserve(prompts[i].size() + size_t(options.tokens));
      starts_.push_back(prompts[i].size());
      longest_ = std::max(longest_, prompts[i].size());
    }
  }

  int64_t size() const { return int64_t(sequences_.size()); }
  size_t longest() const { return longest_; }  // of the sequences as they are now
  bool padded() const {
    return std::any_of(sequences_.begin(), sequences_.end(), [&](const Ids& s) { return s.size() != longest_; });
  }
  // Token number `t` of sequence i, if all end at the same time and begin with `before`.
  int32_t token(size_t i, size_t t, int32_t before) const {
    const size_t missing = longest_ - sequences_[i].size();
    return t < missing ? before : sequences_[i][t - missing];
  }
  size_t missing(size_t i) const { return longest_ - sequences_[i].size(); }

  // Chooses a token for each sequence. False: all have ended.
  bool choose(const Routine& routine, const Tensor& logits) {
    if (!sampler_) {
      const int64_t vocab = routine.read(logits).size() / size();
      logits_.resize(size_t(vocab * size()));
      sampler_.emplace(vocab, options_.sampling, where_);
    }
    routine.read(logits, std::span(logits_));
    const size_t vocab = logits_.size() / sequences_.size();
    for (size_t i = 0; i < sequences_.size(); ++i) {
      Ids& s = sequences_[i];
      if (done_[i]) {
        s.push_back(s.back());  // so that all go on together
        continue;
      }
      const int32_t id =
          (*sampler_)(std::span(logits_).subspan(i * vocab, vocab), s, uint64_t(i), uint64_t(s.size() - starts_[i]));
      const bool ends = options_.end && id == *options_.end;
      if (ends) done_[i] = true, ended_[i] = s.size();
      s.push_back(id);
      if (!ends && options_.each && !options_.each(int64_t(i), id)) done_[i] = true, ended_[i] = s.size();
    }
    ++longest_;
    return std::find(done_.begin(), done_.end(), false) != done_.end();
  }

  std::vector<Ids> results() {
    std::vector<Ids> out;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const size_t end = done_[i] ? ended_[i] : sequences_[i].size();
      out.emplace_back(sequences_[i].begin() + ptrdiff_t(starts_[i]), sequences_[i].begin() + ptrdiff_t(end));
    }
    return out;
  }

 private:
  const GenerateOptions& options_;
  Source where_;
  std::vector<Ids> sequences_;
  std::vector<bool> done_;
  std::vector<size_t> ended_ = std::vector<size_t>(sequences_.size());
  std::vector<size_t> starts_;
  size_t longest_ = 0;
  std::vector<float> logits_;
  std::optional<Sampler> sampler_;
};

}  // namespace

std::vector<Ids> Generator::batch(const std::vector<Ids>& prompts, const GenerateOptions& options, Source where) {
  const WrittenAt at(where);
  if (prompts.empty()) return {};
  if (options.tokens < 0) throw ConfigError("generate" + where_text(where) + ": .tokens must be 0 or more.", where);
  Run run(prompts, options, where);
  Impl& impl = *impl_;
  const size_t capacity = size_t(impl.options.capacity);
  if (impl.window.empty()) {
    for (const Ids& prompt : prompts)
      if (prompt.empty())
        throw ConfigError("generate" + where_text(where) +
                              ": a prompt needs at least one token; many vocabularies have one that begins a text.",
                          where);
    if (run.longest() > capacity)
      throw ConfigError("generate" + where_text(where) + ": the prompt has " + times_text(int64_t(run.longest())) +
                            ", but the model sees at most " + std::to_string(capacity) + "; give it the last part.",
                        where);
  }
  if (options.tokens == 0) return run.results();

  Impl::Batch& batch = impl.batch_of(run.size());
  const bool padded = impl.window.empty() && run.padded();
  const size_t size = prompts.size();

  // The logits after tokens from .. longest of every sequence, which the caches are filled with.
  auto prompt = [&](size_t from) -> Compiled& {
    const size_t length = run.longest() - from;
    int64_t compiled_length = kShortestPrompt;
    while (compiled_length < int64_t(length)) compiled_length *= 2;
    compiled_length = std::min(compiled_length, impl.options.capacity);
    Compiled& step = impl.prompt(batch, run.size(), compiled_length, padded);
    std::vector<int32_t> ids(size * size_t(compiled_length), 0), first(size, 0);
    for (size_t i = 0; i < size; ++i) {
      first[i] = int32_t(run.missing(i) > from ? run.missing(i) - from : 0);
      for (size_t t = 0; t < length; ++t) ids[i * size_t(compiled_length) + t] = run.token(i, from + t, 0);
    }
    batch.ctx.write("generate.prompt", Array({.batch = {run.size(), compiled_length}}, ids));
    if (padded) batch.ctx.write("generate.first", Array({.batch = {run.size()}}, first));
    step.values[0].second = int64_t(length) - 1;
    step.routine.run(step.values);
    return step;
  };
  auto one_token = [&](Compiled& step, size_t position, auto id_of) {
    step.values[0].second = int64_t(position);
    for (size_t i = 0; i < size; ++i) step.values[i + 1].second = id_of(i);
    step.routine.run(step.values);
  };

  if (!impl.window.empty()) {
    Compiled& step = impl.token(batch, run.size(), false);
    const int32_t before = impl.window[0];
    for (size_t k = 0; k < impl.window.size(); ++k) one_token(step, 0, [&](size_t) { return before; });
    for (size_t t = 0; t < run.longest(); ++t) one_token(step, 0, [&](size_t i) { return run.token(i, t, before); });
    for (int64_t n = 0; run.choose(step.routine, step.logits) && ++n < options.tokens;)
      one_token(step, 0, [&](size_t i) { return run.token(i, run.longest() - 1, before); });
    return run.results();
  }

  size_t from = 0;  // the first token that the caches have
  Compiled* step = &prompt(from);
  for (int64_t n = 0; run.choose(step->routine, step->logits) && ++n < options.tokens;) {
    const size_t position = run.longest() - 1 - from;
    if (position >= capacity) {
      from = run.longest() - std::max<size_t>(capacity / 2, 1);
      step = &prompt(from);
    } else if (impl.options.cache) {
      step = &impl.token(batch, run.size(), padded);
      one_token(*step, position, [&](size_t i) { return run.token(i, run.longest() - 1, 0); });
    } else {
      step = &prompt(from);
    }
  }
  return run.results();
}

}  // namespace caravan
