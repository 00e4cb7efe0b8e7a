#include "apps/train/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "apps/figures.h"
#include "apps/stages.h"
#include "apps/terminal.h"
#include "apps/train/ranks.h"
#include "caravan/plot/plot.h"
#include "caravan/plot/scale.h"
#include "caravan/runtime/devices.h"
#include "caravan/tensor/program.h"

namespace caravan::app {

Rates::Rates(const Recipe& recipe)
    : recipe_(recipe), ctx_({.device = "interp"}), routine_(ctx_.compile(observe(recipe.lr))) {}

double Rates::at(int64_t step) {
  routine_.run(recipe_.at(step));
  return routine_.read(recipe_.lr).item();
}

int64_t parameter_count(const Prepared& p) {
  Context ctx = p.ctx;
  int64_t out = 0;
  for (const Tensor& parameter : parameters(p.recipe.loss)) out += ctx.shape(parameter).elements();
  return out;
}

namespace {

std::string data_text(const Prepared& p) {
  const Schedule& s = p.recipe.schedule;
  const Words& words = p.row.defaults.words;
  const std::string all = counted(s.points, words.one, words.many);
  return p.recipe.data.empty() ? fmt::format("{}, made for this run from seed {}", all, s.seed)
                               : fmt::format("{}: {}", all, p.recipe.data);
}

std::string model_text(const Prepared& p) {
  return fmt::format("{}; {}", p.recipe.model, counted(parameter_count(p), "parameter", "parameters"));
}

std::string plan_text(const Prepared& p) {
  const Schedule& s = p.recipe.schedule;
  const Words& words = p.row.defaults.words;
  Rates rates(p.recipe);
  const double first = rates.at(0), last = rates.at(s.steps - 1);
  std::string out = counted(s.steps, "step", "steps");
  if (s.steps % s.steps_per_epoch() == 0)
    out += fmt::format(" ({})", counted(s.steps / s.steps_per_epoch(), "epoch", "epochs"));
  out += fmt::format(" of {}, {}, rate ", counted(s.batch, words.one, words.many), s.optimizer);
  if (first < 0.9 * s.lr && last < 0.9 * s.lr) return out + fmt::format("rising to {}, then falling", figure(s.lr));
  out += figure(first);
  return last == first ? out : out + fmt::format(" falling to {}", figure(last < first / 1000 ? 0 : last));
}

std::string device_text(const Prepared& p) {
  if (!p.compiled()) return "the interpreter, which is slow";
  const Target& target = p.step.plan().target;
  const bool on_gpu = target.kind == Target::Kind::cuda;
  std::string where = on_gpu ? target.processor : counted(p.settings.threads(), "thread", "threads");
  if (on_gpu && !p.ctx.device_reason().empty()) where += fmt::format(" ({})", p.ctx.device_reason());
  const int64_t devices = p.wanted.mesh.devices();
  const std::string several = devices > 1 ? fmt::format("{} devices, each ", devices) : "";
  // Workers of one process share its threads; each of several processes has as many.
  if (devices > 1 && !on_gpu) where += processes() > 1 ? " each" : " together";
  return fmt::format("{}{}, {}; ready in {}", several, p.ctx.device(), where, duration(p.compile_seconds));
}

// On standard error, whatever else is to be said.
void warn(const Prepared& p) {
  if (this_rank() != 0) return;  // the first process says it
  if (p.settings.log() >= 1) std::cerr << pass_log(p.step.plan());
  const int64_t parts = p.options.mesh.parts, kept = p.start.file ? p.start.file->parts : 0;
  if (p.start.file && parts > 0 && parts != std::max<int64_t>(kept, 1))
    std::cerr << fmt::format(
        "caravan: {} was begun {}; with --parts {} from here on, the run ends with other roundings than one that was "
        "never stopped.\n",
        p.start.file->path, kept > 0 ? fmt::format("with --parts {}", kept) : "without --parts", parts);
  if (p.recipe.stand_in) std::cerr << stand_in_message(p.row, p.recipe);
  if (p.wanted.device == "auto" && !p.compiled())
    std::cerr << fmt::format("caravan: the program is interpreted, which is slow, because {}.\n",
                             p.ctx.device_reason());
  if (p.wanted.device == "auto" && p.ctx.device() == "cpu" && !p.ctx.device_reason().empty())
    std::cerr << fmt::format("caravan: the GPU is not used: {}.\n", p.ctx.device_reason());
  if (p.wanted.device != p.settings.device() && p.start.file && p.ctx.device() == "interp")
    std::cerr << fmt::format(
        "caravan: {} was computed by the interpreter, so the run goes on with it; --device cpu "
        "changes that.\n",
        p.start.file->path);
}

}  // namespace

void introduce(const Prepared& p) {
  const TrainOptions& options = p.options;
  warn(p);
  if (options.json) return;
  if (options.debug_kernels) std::cout << fmt::format("The C of a step: {}\n", fmt::join(p.step.report().sources, " "));
  if (options.quiet) return;
  const Screen screen = output_screen();
  std::cout << wrapped(screen.styled(Style::strong, p.row.name) + ": " + p.row.doc, screen.width) << "\n\n";
  std::cout << screen.fact("data", data_text(p)) << screen.fact("model", model_text(p))
            << screen.fact("training", plan_text(p)) << screen.fact("device", device_text(p));
  if (p.start.file)
    std::cout << screen.fact("from", fmt::format("step {} of {}, as {} has it", plot::grouped(p.start.history.step),
                                                 plot::grouped(p.recipe.schedule.steps), p.start.file->path));
  std::cout << std::endl;
  if (p.recipe.before && p.start.history.step == 0) {
    Context look = interpreted(p.ctx);
    p.recipe.before(std::cout, look, screen);
  }
}

Watch::Watch(const Prepared& run, const Training& training)
    : run_(run),
      training_(training),
      progress_((run.recipe.schedule.steps + run.recipe.schedule.report - 1) / run.recipe.schedule.report,
                {.lines = 10, .quiet = run.options.quiet, .json = run.options.json}) {
  if (run.settings.log() >= 2) rates_.emplace(run.recipe);
}

void Watch::after_epoch() {
  if (run_.options.quiet || run_.options.json) return;
  progress_.clear();
  const std::vector<double>& all = training_.history.accuracies;
  std::cout << epoch_line(run_.row.measure, run_.recipe, all, all.size() - 1) << std::endl;
}

void Watch::after_report() {
  const History& history = training_.history;
  if (rates_) {
    progress_.clear();
    std::cerr << fmt::format("step {:>8}  rate {:<10.4g}  loss {:.6g}\n", history.step, rates_->at(history.step - 1),
                             history.reports.back());
  }
  if (const auto done = int64_t(history.reports.size()); progress_.wants(done)) progress_.at(done, notes());
}

std::vector<std::string> Watch::notes() const {
  const Schedule& s = run_.recipe.schedule;
  const History& history = training_.history;
  const std::string loss = "loss " + figure(history.reports.back());
  const std::string at = s.by_epoch()
                             ? fmt::format("epoch {} of {}", history.step / s.report, s.steps / s.report)
                             : fmt::format("step {} of {}", plot::grouped(history.step), plot::grouped(s.steps));
  std::vector<std::string> out = {redraws() ? loss + " " + plot::sparkline(history.reports, 6) : at + ": " + loss};
  if (!history.accuracies.empty())
    out.push_back(fmt::format("{} {}", run_.row.measure.name, run_.row.measure.text(history.accuracies.back())));
  else if (!history.right.empty())
    out.push_back("accuracy " + percent(history.right.back()));
  const auto done = double(history.step - run_.start.history.step);
  if (training_.seconds > 0) {
    const double left = training_.seconds / done * double(run_.until - history.step);
    if (left >= 0.5) out.push_back(duration(left) + " left");
    out.push_back(speed(done / training_.seconds) + "/s");  // steps; together it must fit into 80 columns
  }
  if (redraws()) out.push_back(at);
  return out;
}

std::string epoch_line(const Measure& measure, const Recipe& recipe, const std::vector<double>& values, size_t epoch) {
  std::string out =
      fmt::format("epoch {}: {} {} on the {}", epoch + 1, measure.name, measure.text(values[epoch]), measure.on);
  if (epoch < recipe.published.size())
    out += recipe.published[epoch] ? fmt::format("; the paper has {}", measure.text(*recipe.published[epoch]))
                                   : "; the paper does not say";
  return out;
}

}  // namespace caravan::app
