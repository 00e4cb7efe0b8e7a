#include "caravan/nn/phase.h"

#include <algorithm>

#include "caravan/base/error.h"

namespace caravan::nn {

Phase training(const PhaseOptions& options) {
  Phase out = evaluation(options);
  out.updates_ = std::make_shared<std::vector<Program::Assignment>>();
  return out;
}
Phase evaluation(const PhaseOptions& options) {
  Phase out;
  out.options_ = options;
  return out;
}
Phase decoding(const DecodingOptions& options) {
  if (options.at && (options.at->range() < 1 || options.at->range() > options.capacity))
    throw ConfigError("a decoding phase" + where_text(Source::call()) + ": the index `" + options.at->name() +
                          "` needs a range, at most the capacity: Index(\"at\", " + std::to_string(options.capacity) +
                          ").",
                      Source::call());
  if (options.prompt < 0 || options.prompt > options.capacity || (options.prompt == 0) != options.at.has_value())
    throw ConfigError(
        "a decoding phase" + where_text(Source::call()) + " needs the length of a prompt, at most its capacity of " +
            std::to_string(options.capacity) +
            ", or the position of a token: decoding({.capacity = n, .prompt = m}), decoding({.capacity = n, "
            ".at = index}).",
        Source::call());
  Phase out = training({.precision = options.precision});
  out.decoding_ = std::make_shared<const DecodingOptions>(options);
  return out;
}

const Operand& Phase::step(const std::string& layer) const {
  if (options_.step) return *options_.step;
  throw ConfigError("`" + layer + "`" + where_text(Source::call()) +
                        " draws random numbers in training and needs a step: training({.step = step}).",
                    Source::call());
}

Tensor Phase::in_precision(Operand x) const {
  return options_.precision && x.tensor.dtype() != *options_.precision ? cast(x, *options_.precision) : x.tensor;
}

Tensor Phase::now(const Tensor& state) const {
  for (const Program::Assignment& a : *updates_)
    if (a.state.name() == state.name()) return a.value;
  return state;
}
void Phase::update(const Tensor& state, Operand value) const {
  std::erase_if(*updates_, [&](const Program::Assignment& a) { return a.state.name() == state.name(); });
  updates_->push_back({state, value.tensor, value.where});
}
Program Phase::updates() const {
  Program out;
  if (updates_)
    for (const Program::Assignment& a : *updates_) out.add(a);
  return out;
}

Tensor at_least_f32(Operand x) {
  return x.tensor.dtype() == DType::f32 || x.tensor.dtype() == DType::f64 ? x.tensor : cast(x, DType::f32);
}

}  // namespace caravan::nn
