#include "caravan/parity/fixture.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/data/json_text.h"

namespace caravan::parity {

namespace {

constexpr int64_t kMostSteps = 1'000'000;

std::string metadata(const data::Tensors& tensors, const std::string& key) {
  const auto at = tensors.metadata.find(key);
  if (at == tensors.metadata.end())
    throw ConfigError(fmt::format("it is not a parity fixture: its metadata has no `{}`.", key));
  return at->second;
}

int64_t parse_steps(const std::string& text) {
  int64_t out = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || stop != text.data() + text.size() || out < 1 || out > kMostSteps)
    throw ConfigError(
        fmt::format("`steps` is {}; it must be a whole number from 1 to {}.", data::shown(text), kMostSteps));
  return out;
}

// The rest of a name after its prefix, or nothing.
std::string after(const std::string& prefix, const std::string& name) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : "";
}

void check_batches(const Fixture& fixture, const char* name, const Array& array) {
  const std::vector<int64_t> sizes = array.shape().sizes();
  if (sizes.size() < 2 || sizes[0] != fixture.steps || array.size() == 0)
    throw ConfigError(fmt::format("`{}` has the shape [{}]; its first axis must be the {} steps, its second the batch.",
                                  name, fmt::join(sizes, ", "), fixture.steps));
}

}  // namespace

Fixture fixture_from(const data::Tensors& tensors) {
  if (const std::string version = metadata(tensors, "fixture"); version != "1")
    throw ConfigError(
        fmt::format("it is a fixture of version {}; this command knows version `1`.", data::shown(version)));
  const auto name = tensors.metadata.find("name");
  Fixture out{name == tensors.metadata.end() ? "unnamed" : name->second,
              parse_model(metadata(tensors, "model")),
              parse_loss(metadata(tensors, "loss")),
              parse_optimizer(metadata(tensors, "optimizer")),
              parse_steps(metadata(tensors, "steps")),
              tensors.array("x"),
              tensors.array("y"),
              {},
              {},
              {}};
  check_batches(out, "x", out.x);
  check_batches(out, "y", out.y);
  if (out.x.shape().sizes()[1] != out.y.shape().sizes()[1])
    throw ConfigError(
        fmt::format("`x` has batches of {} and `y` of {}.", out.x.shape().sizes()[1], out.y.shape().sizes()[1]));

  for (const auto& [full_name, unused] : tensors.list) {
    if (full_name == "x" || full_name == "y") continue;
    if (full_name.ends_with(".num_batches_tracked")) continue;  // a count that PyTorch keeps and does not use
    if (const std::string parameter = after("param.", full_name); !parameter.empty())
      out.parameters[parameter] = tensors.array(full_name);
    else if (const std::string buffer = after("buffer.", full_name); !buffer.empty())
      out.buffers[buffer] = tensors.array(full_name);
    else if (full_name == "losses" || full_name == "eval_output" || full_name.starts_with("grad.") ||
             full_name.starts_with("final.") || full_name.starts_with("final_buffer."))
      out.results[full_name] = tensors.array(full_name);
    else
      throw ConfigError(fmt::format("a fixture has no tensor {}.", data::shown(full_name)));
  }
  if (auto* gpt = std::get_if<Gpt>(&out.model)) gpt->head_bias = out.parameters.count("head.bias") != 0;
  return out;
}

}  // namespace caravan::parity
