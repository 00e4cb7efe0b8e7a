// caravan parity: PyTorch's training runs repeated, and how far apart every tensor is.
#include "caravan/parity/parity.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/progress.h"
#include "caravan/base/error.h"
#include "caravan/base/printable.h"
#include "caravan/runtime/automatic_device.h"

namespace caravan::app {

namespace {

// What is wrong with a file is said with its name.
template <class Work>
auto about(const std::string& file, const Work& work) {
  try {
    return work();
  } catch (const UserError& error) {
    throw ConfigError(fmt::format("`{}`: {}", file, error.what()), error.where());
  }
}

std::string device_for(const Settings& settings) {
  if (settings.device() != "auto") return settings.device();
  const AutomaticDevice chosen = automatic_device(settings.cache(), Compiler::passed_self_test);
  if (!chosen.why_interpreted.empty())
    std::cerr << fmt::format("caravan: the models are interpreted, which is slow, because {}.\n",
                             chosen.why_interpreted);
  return chosen.name;
}

struct Outcome {
  std::string file;
  const parity::Fixture& fixture;
  parity::Arrays ours;
  parity::Report report;
  double seconds;
};

Outcome run(const std::string& file, const parity::Fixture& fixture, const ContextOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  return about(file, [&]() -> Outcome {
    parity::Arrays ours = parity::train(fixture, options);
    const parity::Report report = parity::compare(ours, fixture.results);
    return {file, fixture, std::move(ours), report,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  });
}

std::string table(const parity::Report& report) {
  size_t width = 6;
  for (const parity::Difference& d : report.differences) width = std::max(width, printable(d.name).size());
  std::string out = fmt::format("  {:<{}} {:>10} {:>10} {:>10}\n", "tensor", width, "absolute", "relative", "limit");
  for (const parity::Difference& d : report.differences)
    out += fmt::format("  {:<{}} {:>10.1e} {:>10.1e} {:>10.0e}{}\n", printable(d.name), width, d.absolute, d.relative,
                       d.limit, d.passed() ? "" : "  FAILED");
  return out;
}

std::string verdict(const Outcome& o) {
  const parity::Report& r = o.report;
  std::string out =
      fmt::format("{}: {} steps, {} tensors, {}; the worst is at {:.2g} of its limit\n", printable(o.fixture.name),
                  o.fixture.steps, r.differences.size(), r.passed() ? "passed" : "FAILED", r.worst());
  if (const auto step = r.losses_part_at)
    out += fmt::format("  the losses part at step {}: {:.7g} here, {:.7g} in PyTorch\n", *step,
                       o.ours.at("losses").at(*step), o.fixture.results.at("losses").at(*step));
  return out;
}

// JSON has no NaN; a difference that cannot be measured is null.
nlohmann::ordered_json json(const Outcome& o) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const parity::Difference& d : o.report.differences)
    tensors.push_back({{"name", d.name},
                       {"absolute", d.absolute},
                       {"relative", d.relative},
                       {"limit", d.limit},
                       {"passed", d.passed()}});
  nlohmann::ordered_json out{{"file", o.file},
                             {"name", o.fixture.name},
                             {"steps", o.fixture.steps},
                             {"passed", o.report.passed()},
                             {"worst", o.report.worst()},
                             {"losses_part_at", nullptr},
                             {"seconds", o.seconds},
                             {"losses", o.ours.at("losses").values()},
                             {"tensors", tensors}};
  if (const auto step = o.report.losses_part_at) out["losses_part_at"] = *step;
  return out;
}

}  // namespace

int parity_command(const ParityOptions& options, const Settings& settings) {
  std::vector<parity::Fixture> fixtures;  // all are read before the first is run
  for (const std::string& file : options.files) {
    const data::Tensors tensors = data::read_safetensors(file);
    fixtures.push_back(about(file, [&] { return parity::fixture_from(tensors); }));
  }
  ContextOptions context;
  context.device = device_for(settings);
  context.quick_start = settings.quick_start();
  context.cache = settings.cache();
  context.threads = int(settings.threads());
  context.compiling = compile_notice(options.quiet);

  int failed = 0;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < fixtures.size(); ++i) {
    const Outcome outcome = run(options.files[i], fixtures[i], context);
    if (!options.json) std::cout << verdict(outcome);
    if (!options.json && !options.quiet) std::cout << table(outcome.report);
    std::cout.flush();
    failed += !outcome.report.passed();
    if (options.json) all.push_back(json(outcome));
  }
  if (options.json)
    std::cout << json_line({{"device", context.device},
                            {"threads", context.device == "interp" ? 1 : context.threads},
                            {"checked", fixtures.size()},
                            {"failed", failed},
                            {"fixtures", all}});
  return failed == 0 ? kDone : kCheckFailed;
}

}  // namespace caravan::app
