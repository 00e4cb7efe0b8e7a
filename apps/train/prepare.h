// A run of `train` before its first step: what is asked for, with everything that it needs, and nothing written yet.
#pragma once

#include <optional>
#include <string>

#include "apps/commands.h"
#include "apps/keeper.h"
#include "apps/model_file.h"
#include "apps/output_folder.h"

namespace caravan::app {

// What is asked for, and where it begins.
struct Start {
  Request request;
  History history;
  std::optional<ModelFile> file;  // that the run goes on from
};

struct Prepared {
  const TrainOptions& options;
  const Settings& settings;
  const RecipeRow& row;
  Start start;
  Recipe recipe;
  int64_t until;  // the step that it ends after
  ContextOptions wanted;
  Context ctx;
  Routine step;
  double compile_seconds;

  bool compiled() const { return ctx.device() != "interp"; }
};
Prepared prepare(const TrainOptions& options, const Settings& settings);

Keeper keeper_of(const Prepared& run);

// What is written at the end, beside the checkpoint.
struct Outputs {
  std::optional<OutputFolder> plots;
  std::optional<OutputFile> trace;
};
// Everything that can be refused is refused here, before the first step; from here on files are written.
Outputs open_outputs(const Prepared& run, const Keeper& keeper);

// Commands for the same devices and data. A checkpoint that a run goes on from keeps its other options.
std::string command_to_go_on(const Prepared& run, const std::string& path);
std::string command_to_begin_anew(const Prepared& run);  // to which options and files to write may be added
std::string quoted(const std::string& path);             // as one would type it

}  // namespace caravan::app
