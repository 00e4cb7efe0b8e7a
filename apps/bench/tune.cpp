// caravan tune: finds numbers with which workloads are faster on this machine, and writes them to a tuning file.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>

#include "apps/bench/tuner.h"
#include "apps/commands.h"
#include "apps/interruption.h"
#include "apps/json_line.h"
#include "apps/output_folder.h"
#include "apps/progress.h"
#include "apps/terminal.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/plan/profile.h"
#include "caravan/target/target.h"

namespace caravan::app {

namespace {

// Large and small products, and training steps that have little beside them and much.
const std::vector<std::string> kUsualWorkloads = {"gemm-1024", "gemm-128x784x100-nt", "names-mlp-b1024", "mnist-mlp",
                                                  "lenet"};

struct Tuned {
  Tuning tuning;
  std::vector<bench::Trial> trials;
  std::optional<bench::Comparison> gain;  // over the built-in numbers; none if it was not measured
};

std::string tuning_content(const Tuned& tuned, const Target& target, const std::vector<std::string>& workloads) {
  char date[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::string out = fmt::format("# Written by `caravan tune` on {}, for\n# {}.\n# Measured: {}.\n", date,
                                to_string(target), joined(workloads));
  if (tuned.gain)
    out += fmt::format("# Steps are {:.3f} times as fast as with the built-in numbers (geometric mean).\n",
                       tuned.gain->speed);
  else if (Interruption::asked())
    out += "# It was stopped before it had tried all numbers.\n";
  else
    out += "# The built-in numbers are the fastest that were found.\n";
  return out + to_string(tuned.tuning, built_in_tuning(target.vector_bytes));
}

std::string line(const bench::Trial& t) {
  return fmt::format("{:<20} {:>13} {:>13}  {:>6.3f}{}\n", t.number, t.from, t.to, t.comparison.speed,
                     t.kept ? "  kept" : "");
}
// The numbers that were tried and never had an effect.
std::vector<std::string> without_effect(const std::vector<bench::Trial>& trials) {
  std::vector<std::string> out;
  for (const bench::Trial& t : trials) {
    const bool any = std::any_of(trials.begin(), trials.end(), [&](const bench::Trial& other) {
      return other.number == t.number && !other.comparison.rows.empty();
    });
    if (!any && (out.empty() || out.back() != t.number)) out.push_back(t.number);
  }
  return out;
}

std::string gain_table(const bench::Comparison& gain) {
  std::string out = fmt::format("\n{:<20} {:>13} {:>13}   speed\n", "", "built in, us", "tuned, us");
  for (const bench::Comparison::Row& row : gain.rows)
    out += fmt::format("{:<20} {:>13} {:>13}  {:>6.3f}\n", row.name, plan::microseconds_text(row.before),
                       plan::microseconds_text(row.after), row.speed);
  return out + fmt::format("{:<48}  {:>6.3f}\n", "geometric mean of all", gain.speed);
}

nlohmann::ordered_json to_json(const Tuned& tuned) {
  using Json = nlohmann::ordered_json;
  Json out{{"trials", Json::array()}, {"tuning", Json::object()}, {"speed", nullptr}, {"results", Json::array()}};
  for (const bench::Trial& t : tuned.trials) {
    Json trial{{"number", t.number}, {"from", t.from}, {"to", t.to}, {"speed", nullptr}, {"kept", t.kept}};
    if (!t.comparison.rows.empty()) trial["speed"] = t.comparison.speed;
    out["trials"].push_back(trial);
  }
  for (const TuningNumber& number : tuning_numbers()) out["tuning"][number.name] = tuned.tuning.*number.number;
  if (!tuned.gain) return out;
  out["speed"] = tuned.gain->speed;
  for (const bench::Comparison::Row& row : tuned.gain->rows)
    out["results"].push_back({{"name", row.name},
                              {"built_in_microseconds", row.before},
                              {"tuned_microseconds", row.after},
                              {"speed", row.speed}});
  return out;
}

}  // namespace

std::vector<std::string> tuning_names() {
  std::vector<std::string> out;
  for (const TuningNumber& number : tuning_numbers()) out.emplace_back(number.name);
  return out;
}

int tune_command(const TuneRequest& request, const Settings& settings) {
  const std::vector<bench::Entry> entries =
      bench::find_all(request.names.empty() ? kUsualWorkloads : request.names, false);
  const std::string path = request.output.empty() ? user_tuning_path() : request.output;
  if (path.empty())
    throw ConfigError("there is no folder for the tuning file, because HOME is not set; give --output FILE.");
  const int threads = int(settings.threads());
  const Target target = host(threads);
  const std::string used = tuning_path();
  const Interruption interruption;

  Tuned tuned;
  std::optional<Progress> progress;
  const bench::TuneOptions options{.seconds = request.seconds,
                                   .threads = threads,
                                   .numbers = request.numbers,
                                   .stop = [] { return Interruption::asked(); },
                                   .trying =
                                       [&](const bench::Trial& t) {
                                         progress->at(int64_t(t.index),
                                                      {fmt::format("{} {} -> {}", t.number, t.from, t.to)});
                                       },
                                   .tried =
                                       [&](const bench::Trial& t) {
                                         progress->clear();
                                         if (!request.json && !t.comparison.rows.empty())
                                           std::cout << line(t) << std::flush;
                                         tuned.trials.push_back(t);
                                       }};
  std::vector<std::string> names;
  std::vector<bench::NamedWorkload> workloads;
  for (const bench::Entry& entry : entries)
    names.push_back(entry.name), workloads.push_back({entry.name, entry.make({})});
  bench::Tuner tuner(std::move(workloads), options);
  const OutputFile file(path, "--output");

  progress.emplace(int64_t(tuner.numbers().size()), ProgressOptions{.json = request.json});
  const Screen screen = output_screen();
  if (!request.json)
    std::cout << screen.fact("target", to_string(target))
              << screen.fact("start", used.empty() ? "the built-in numbers" : used)
              << screen.fact("measured", joined(names))
              << fmt::format("\n{:<20} {:>13} {:>13}   speed\n", "number", "from", "to") << std::flush;
  tuned.tuning = tuner.run(target.tuning);
  if (const Tuning built_in = built_in_tuning(target.vector_bytes); tuned.tuning != built_in)
    tuned.gain = tuner.compare(built_in, tuned.tuning);
  progress->clear();

  file.write(tuning_content(tuned, target, names));
  const std::string absolute = std::filesystem::absolute(path).lexically_normal();
  if (request.json) {
    nlohmann::ordered_json out{{"target", to_string(target)}, {"threads", target.threads}, {"workloads", names}};
    out.update(to_json(tuned));
    out["file"] = absolute;
    std::cout << json_line(out);
  } else {
    if (const std::vector<std::string> none = without_effect(tuned.trials); !none.empty())
      std::cout << '\n' << wrapped("These change no code here: " + joined(none) + ".", screen.width) << '\n';
    if (tuned.gain) std::cout << gain_table(*tuned.gain);
    if (tuned.tuning == target.tuning && !Interruption::asked())
      std::cout << fmt::format("\nNo change was faster by more than {:.0f} %.\n", 100 * bench::kLeastGain);
    std::cout << '\n' << screen.fact("written", absolute);
    if (tuning_path() == absolute)
      std::cout << screen.fact("", "All programs that you run use it from now on.");
    else
      std::cout << screen.command("next", "export CARAVAN_TUNING=" + absolute);
  }
  return Interruption::asked() ? Interruption::exit_code() : int(kDone);
}

}  // namespace caravan::app
