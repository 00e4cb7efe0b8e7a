#include "apps/train/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "apps/figures.h"
#include "apps/interruption.h"
#include "apps/json_line.h"
#include "apps/quick_code_json.h"
#include "apps/stages.h"
#include "apps/terminal.h"
#include "caravan/base/list_text.h"
#include "caravan/base/printable.h"
#include "caravan/plot/plot.h"

namespace caravan::app {

namespace {

using End = Training::End;

// The losses of a run over its steps or epochs, with the measure where there is one.
plot::Curve loss_curve(const Prepared& p, const History& history, plot::Axis axis) {
  const Schedule& s = p.recipe.schedule;
  const Measure& measure = p.row.measure;
  const bool by_epoch = s.by_epoch();
  plot::Curve out{.title = axis == plot::Axis::linear ? "Loss" : "Loss, logarithmic",
                  .x_label = by_epoch ? "epoch" : "step",
                  .values = history.reports,
                  .axis = axis,
                  .x_step = by_epoch ? 1 : s.report,
                  .x_last = by_epoch ? 0 : std::min(history.step, int64_t(history.reports.size()) * s.report),
                  .from_zero = true};
  if (history.accuracies.size() >= 2) {  // one point is no curve
    for (size_t i = 0; i < history.accuracies.size(); ++i)
      out.beside.points.push_back({double(i + 1) * double(by_epoch ? 1 : s.steps_per_epoch()),
                                   (measure.in_percent ? 100 : 1) * history.accuracies[i]});
    out.beside.name = measure.name + (measure.in_percent ? ", %" : "");
  } else if (history.right.size() >= 2) {
    for (size_t i = 0; i < history.right.size(); ++i)
      out.beside.points.push_back(
          {double(std::min(history.step, int64_t(i + 1) * s.report)) / (by_epoch ? s.report : 1),
           100 * history.right[i]});
    out.beside.name = "accuracy, %";
  }
  return out;
}

// How much of what it learned from the model answered right.
plot::Curve right_curve(const Prepared& p, const History& history) {
  plot::Curve out = loss_curve(p, history, plot::Axis::linear);
  out.title = fmt::format("Accuracy on the training {}, %", p.row.defaults.words.many);
  out.values = history.right;
  for (double& value : out.values) value *= 100;
  out.from_zero = false;
  out.beside = {};
  return out;
}

plot::Curve measure_curve(const Measure& measure, const History& history) {
  plot::Curve out{
      .title = fmt::format("{} on the {}", measure.name, measure.on), .x_label = "epoch", .values = history.accuracies};
  out.title[0] = char(std::toupper(out.title[0]));
  if (measure.in_percent) out.title += ", %";
  for (double& value : out.values) value *= measure.in_percent ? 100 : 1;
  return out;
}

plot::Curve rate_curve(const Recipe& recipe, const History& history) {
  const Schedule& s = recipe.schedule;
  Rates rates(recipe);
  plot::Curve out{.title = "Learning rate",
                  .x_label = s.by_epoch() ? "epoch" : "step",
                  .values = {},
                  .x_step = s.by_epoch() ? 1 : s.report,
                  .from_zero = true};
  for (int64_t at = 0; at < history.step; at += s.report) out.values.push_back(rates.at(at));
  if (!s.by_epoch()) out.x_last = history.step;
  return out;
}

// Steps, rates, losses and accuracies in training: at most so many, each the mean of an equal part of the curve.
nlohmann::ordered_json curve_json(const Recipe& recipe, const History& history) {
  constexpr size_t kMost = 1000;
  const size_t n = history.reports.size(), rows = std::min(n, kMost);
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  Rates rates(recipe);
  for (size_t row = 0; row < rows; ++row) {
    const size_t from = row * n / rows, to = (row + 1) * n / rows;
    auto mean = [&](const std::vector<double>& values) {
      return std::accumulate(values.begin() + int64_t(from), values.begin() + int64_t(to), 0.0) / double(to - from);
    };
    const int64_t step = std::min(history.step, int64_t(to) * recipe.schedule.report);
    out.push_back({{"step", step}, {"rate", rates.at(step - 1)}, {"loss", mean(history.reports)}});
    if (!history.right.empty()) out.back()["accuracy"] = mean(history.right);
  }
  return out;
}

void show_curve(const Prepared& p, const History& history, const Screen& screen) {
  plot::Curve curve = loss_curve(p, history, plot::Axis::logarithmic);
  const std::vector<double>& losses = curve.values;
  curve.title = "Loss on a logarithmic scale";
  const bool zeros = std::any_of(losses.begin(), losses.end(), [](double loss) { return loss == 0; });
  if (!curve.beside.points.empty())
    curve.title += fmt::format(" (•, left{}); {} (+, right)", zeros ? "; ○ is 0" : "", curve.beside.name);
  else if (zeros)
    curve.title += ", ○ is 0";
  const int beside = curve.beside.points.empty() ? 0 : 9;
  std::cout << '\n'
            << screen.drawing(plot::text(curve, std::min(screen.width, 120) - 13 - beside),
                              {{"•", Style::blue}, {"○", Style::blue}, {"+", Style::yellow}});
}

// The names of what was written.
std::vector<std::string> write_plots(const OutputFolder& folder, const Prepared& p, const History& history,
                                     const Findings& found) {
  std::vector<Picture> pictures = {{"learning_rate.svg", plot::svg(rate_curve(p.recipe, history))},
                                   {"loss.svg", plot::svg(loss_curve(p, history, plot::Axis::linear))},
                                   {"log_loss.svg", plot::svg(loss_curve(p, history, plot::Axis::logarithmic))}};
  const Measure& measure = p.row.measure;
  if (!history.accuracies.empty()) pictures.push_back({measure.file(), plot::svg(measure_curve(measure, history))});
  if (!history.right.empty()) pictures.push_back({"accuracy.svg", plot::svg(right_curve(p, history))});
  std::vector<std::string> names;
  auto write = [&](const Picture& picture) {
    folder.write(picture.file, picture.content);
    names.push_back(picture.file);
  };
  for (const Picture& picture : pictures) write(picture);
  if (found.pictures)
    for (const Picture& picture : found.pictures()) write(picture);
  return names;
}

// What one may do next; empty: nothing in particular.
std::string next_command(const Prepared& p, const Ended& ended) {
  const std::string& file = ended.kept.path;
  if (!ended.kept.diverged.empty())
    return fmt::format("{} --lr {:.4g}", command_to_begin_anew(p), p.recipe.schedule.lr / 10);
  if (ended.how == End::until) return file.empty() ? "" : command_to_go_on(p, file);
  if (!file.empty()) return fmt::format("caravan {} {}", p.row.next.empty() ? "eval" : p.row.next, quoted(file));
  return command_to_begin_anew(p) + " --save model.safetensors --plot plots";
}

nlohmann::ordered_json results(const Prepared& p, const Ended& ended, const Findings& found,
                               const std::vector<std::string>& pictures) {
  const Schedule& schedule = p.recipe.schedule;
  const History& history = ended.history;
  const RoutineReport report = p.step.report();
  constexpr const char* kEnds[] = {"finished", "until", "interrupted", "not finite", "failed"};
  nlohmann::ordered_json out{{"recipe", p.options.recipe},
                             {"device", p.ctx.device()},
                             {"threads", p.compiled() ? p.settings.threads() : 1},
                             {"seed", schedule.seed},
                             {"steps", history.step},
                             {"end", kEnds[size_t(ended.how)]},
                             {"saved", nullptr},
                             {"seconds", ended.seconds},
                             {"steps_per_second", double(history.step - p.start.history.step) / ended.seconds},
                             {"loss", history.loss()},
                             {"epoch_loss", history.epoch_loss()},
                             {"compile_seconds", p.compile_seconds}};
  if (!ended.kept.path.empty()) out["saved"] = ended.kept.path;
  if (p.compiled()) out["peak_bytes"] = report.arena_bytes;
  if (report.quick_code.used) out["quick_code"] = quick_code_json(report.quick_code);
  if (p.options.debug_kernels) out["source"] = report.sources;
  Rates rates(p.recipe);
  out["model"] = p.recipe.model;
  out["parameters"] = parameter_count(p);
  out["examples"] = schedule.points;
  out["batch"] = schedule.batch;
  out["lr"] = schedule.lr;
  out["first_rate"] = rates.at(0);
  out["last_rate"] = rates.at(schedule.steps - 1);
  out["optimizer"] = schedule.optimizer;
  out["data"] = p.recipe.data.empty() ? "made for this run from the seed" : p.recipe.data;
  if (!p.row.data.empty()) out["stand_in"] = p.recipe.stand_in;
  if (!history.accuracies.empty()) out[p.row.measure.each] = history.accuracies;
  for (const auto& [name, value] : found.numbers) out[name] = value;
  if (!found.samples.empty()) out["samples"] = found.samples;
  if (!pictures.empty()) out["plots"] = p.options.plot, out["pictures"] = pictures;
  if (p.wanted.mesh.exchanges()) {
    out["devices"] = p.wanted.mesh.devices();
    out["exchange"] = {{"seconds", ended.exchanged.seconds},
                       {"waited_seconds", ended.exchanged.waited},
                       {"hidden_share", ended.exchanged.hidden()},
                       {"bytes", ended.exchanged.bytes}};
  }
  if (const std::string next = next_command(p, ended); !next.empty()) out["next"] = next;
  out["curve"] = curve_json(p.recipe, history);
  return out;
}

// The numbers that matter, what was written where, and what one may do next.
void conclude_text(const Prepared& p, const Ended& ended, const Findings& found,
                   const std::vector<std::string>& pictures, const Screen& screen) {
  const int64_t steps = ended.history.step - p.start.history.step;
  std::string took = fmt::format("{} in {}", counted(steps, "step", "steps"), duration(ended.seconds));
  if (steps > 0 && ended.seconds > 0) took += fmt::format(", {} a second", speed(double(steps) / ended.seconds));
  std::cout << '\n' << screen.fact("speed", fmt::format("{}, on {}", took, p.ctx.device()));
  if (ended.exchanged.seconds > 0)
    std::cout << screen.fact("exchange",
                             fmt::format("{} of collectives, {:.0f}% of it hidden behind kernels",
                                         duration(ended.exchanged.seconds), 100 * ended.exchanged.hidden()));
  std::string result = fmt::format("loss {}", figure(ended.history.loss()));
  if (!found.result.empty()) result = screen.styled(Style::strong, found.result) + ", " + result;
  std::cout << screen.fact("result", result);
  if (!ended.kept.path.empty()) std::cout << screen.fact("saved", ended.kept.path);
  if (!pictures.empty()) std::cout << screen.fact("pictures", fmt::format("{}/: {}", p.options.plot, joined(pictures)));
  if (!p.options.trace.empty()) std::cout << screen.fact("trace", p.options.trace);
  if (!p.options.dump.empty()) std::cout << screen.fact("stages", p.options.dump + "/");
  if (const std::string next = next_command(p, ended); !next.empty()) std::cout << screen.command("next", next);
}

// What went wrong, and where the run is, on stderr; and the exit code that says so.
int conclude(const Prepared& p, const Ended& ended, const Keeper& keeper) {
  const Schedule& schedule = p.recipe.schedule;
  const Kept& kept = ended.kept;
  const bool cut_off = ended.how == End::interrupted || ended.how == End::failed;
  for (const std::string& problem : ended.problems) std::cerr << fmt::format("caravan: {}\n", printable_lines(problem));
  if (!kept.diverged.empty())
    std::cerr << fmt::format(
        "caravan: training diverged{}: {}; try a rate below --lr {}, or --check-numbers, which names the operation "
        "that made the first such number.{}\n",
        cut_off ? fmt::format(" before it was stopped after step {}", ended.history.step) : "", kept.diverged,
        schedule.lr, keeper.state_of_file());
  else if (kept.rescued)
    std::cerr << fmt::format("caravan: the run is kept in {} instead, after step {} of {}; to go on: {}\n", kept.path,
                             ended.history.step, schedule.steps, command_to_go_on(p, kept.path));
  else if (cut_off && !kept.path.empty())
    std::cerr << fmt::format("caravan: stopped after step {} of {}; to go on: {}\n", ended.history.step, schedule.steps,
                             command_to_go_on(p, kept.path));
  else if (kept.path.empty() && !kept.problems.empty())
    std::cerr << "caravan: no place took the run, so it is not kept.\n";
  std::cerr.flush();
  if (!ended.problems.empty()) return kMachineFailed;
  if (ended.how == End::not_finite || !kept.diverged.empty()) return kCheckFailed;
  return ended.how == End::interrupted ? Interruption::exit_code() : int(kDone);
}

}  // namespace

int report(const Prepared& p, const Evaluation& evaluation, const Outputs& outputs, Ended ended, const Keeper& keeper) {
  auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const std::exception& error) {
      ended.problems.emplace_back(error.what());
    }
  };
  const bool shown = !p.options.quiet && !p.options.json;
  const Screen screen = output_screen();
  Findings found;
  std::vector<std::string> pictures;
  if (ended.how == End::finished || ended.how == End::until) {
    attempt([&] { found = evaluation.findings(); });
    if (shown) {
      attempt([&] { show_curve(p, ended.history, screen); });
      attempt([&] {
        if (found.text) std::cout << '\n' << found.text(screen);
      });
    }
    if (outputs.plots) attempt([&] { pictures = write_plots(*outputs.plots, p, ended.history, found); });
    if (outputs.trace)
      attempt([&] {
        Context ctx = p.ctx;
        outputs.trace->write(traced(p.recipe, ctx, std::max<int64_t>(ended.history.step, 1) - 1, p.step));
      });
    if (shown) conclude_text(p, ended, found, pictures, screen);
  }
  if (p.options.json) std::cout << json_line(results(p, ended, found, pictures));
  std::cout.flush();
  return conclude(p, ended, keeper);
}

}  // namespace caravan::app
