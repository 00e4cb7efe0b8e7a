// The stages of a recipe's training step on its way to code, as text: what `inspect` prints and `--dump` writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/output_folder.h"
#include "apps/recipes/recipe.h"
#include "caravan/backend/cc/device.h"
#include "caravan/passes/pipeline.h"

namespace caravan::app {

class Stages {
 public:
  // Refuses, as a ConfigError, a pass that does not exist. Lowers and optimises only when a stage needs it.
  explicit Stages(const Recipe& recipe, std::vector<std::string> passes_off = {});

  std::string text(const std::string& stage) const;  // ConfigError naming those there are
  std::string graphviz() const;
  std::string pass_log() const;                 // one line a pass: milliseconds, and whether it changed anything
  void dump(const OutputFolder& folder) const;  // every stage in a file

  const loop::Module& module() const { return compiled().module; }
  std::string c() const;
  cc::MemoryPlan memory() const { return cc::plan_memory(module()); }

 private:
  const passes::Result& compiled() const;

  Tensor loss_;
  Program program_;
  passes::Options options_;
  mutable std::optional<passes::Result> compiled_;
};

std::vector<std::string> stage_names();

// What `--trace` writes: the stages as one JSON text, with the values that a Context has at a step.
std::string traced(const Recipe& recipe, Context& ctx, int64_t step, const std::vector<std::string>& passes_off);

}  // namespace caravan::app
