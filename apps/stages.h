// The stages of a recipe's training step on its way to code, as text: what `inspect` prints and `--dump` writes.
#pragma once

#include <string>
#include <vector>

#include "apps/output_folder.h"
#include "apps/recipes/recipe.h"
#include "caravan/plan/plan.h"

namespace caravan::app {

// How the code of a plan is compiled. The names of its texts in the cache of compiled code follow from that.
struct Code {
  ContextOptions options{};
  std::vector<std::string> sources{};  // paths of the texts that were compiled; empty: none was, and names are computed
};

// Of one routine: what runs, with the states that its Context had when it was compiled.
class Stages {
 public:
  // `options` are those of the routine's Context.
  Stages(const Recipe& recipe, const Routine& step, const ContextOptions& options)
      : recipe_(recipe), step_(step), plan_(step.plan()), code_{options, step.report().sources} {}

  std::string text(const std::string& stage) const;  // ConfigError naming those there are
  std::string graphviz() const;                      // with the values and gradients of the first step
  void dump(const OutputFolder& folder) const;       // every stage in a file

 private:
  const Recipe& recipe_;
  const Routine step_;
  const plan::Plan& plan_;  // of the step
  const Code code_;
};

std::vector<std::string> stage_names();

// The stages that follow from a plan alone. ConfigError naming those there are.
std::vector<std::string> plan_stage_names();
std::string stage_of(const plan::Plan& plan, const std::string& stage, const Code& code);
// ConfigError if `--measure` is given with another stage than `kernels`.
void check_measured_stage(bool measure, const std::string& stage);
std::string pass_log(const plan::Plan& plan);  // one line a pass: milliseconds, and whether it changed anything

// What `--trace` writes: the stages of a routine as one JSON text, with the values that a Context has at a step.
std::string traced(const Recipe& recipe, Context& ctx, int64_t step, const Routine& routine);

}  // namespace caravan::app
