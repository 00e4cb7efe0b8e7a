// Where a run is kept: in the file that was asked for, or, where that fails, in one of the user's own.
//
// What is not finite is not kept, so that a run which diverges spares the file it was to replace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/model_file.h"

namespace caravan::app {

// What became of the last save.
struct Kept {
  std::string path;                   // the file that has the run at its last step; empty: none has
  bool rescued = false;               // it is not where it was asked to be
  std::string diverged;               // why it was not written: "the last loss is nan"; empty: it is all finite
  std::vector<std::string> problems;  // of the machine, a sentence each
};

class Keeper {
 public:
  // `save` is the file asked for, or empty. `on_disk` is the step that it has already, if it is this run's.
  Keeper(std::string recipe, ModelRun run, const Context& ctx, std::string save, std::optional<int64_t> on_disk);

  // Before the work: ConfigError where the file could not be written with so many losses and accuracies more in it.
  void try_out(const History& begun, int64_t reports) const;

  // Now and then. A disk may be full for a moment: training goes on, a copy is kept elsewhere, and stderr is told
  // once. The copy goes when the file takes the run again.
  void keep_meanwhile(const History& history);

  // The last time. `in_any_case`: also where no file was asked for. Never throws.
  Kept keep(const History& history, bool in_any_case);

  std::string state_of_file() const;  // after a divergence: "It was not saved; `a.st` has the run at step 300."

 private:
  std::string content(const History& history) const;
  std::string divergence(const History& history) const;
  bool save(const std::string& content, const History& history, std::vector<std::string>& problems);
  bool rescue(const std::string& content, std::vector<std::string>& problems);

  std::string recipe_;
  ModelRun run_;
  Context ctx_;
  std::string save_;
  std::optional<int64_t> on_disk_;  // the step of this run that save_ has
  std::string rescue_;              // the file elsewhere, once there is one
  std::string told_;                // on stderr, of the last save meanwhile
};

}  // namespace caravan::app
