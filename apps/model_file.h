// A checkpoint of a recipe: its states, how it was asked for, how far it is, and the losses it has shown.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "apps/recipes/recipe.h"
#include "caravan/data/safetensors.h"

namespace caravan::app {

// What a run has shown so far. It goes into the file, so that a run which is continued ends like one never stopped.
struct History {
  int64_t step = 0;                // done
  std::vector<double> reports;     // the mean loss of each stretch of `schedule.report` steps
  std::vector<double> accuracies;  // the recipe's measure after each epoch, where it has one
  std::vector<double> right;       // the mean of `recipe.right` in each stretch, where the recipe has it
  double stretch = 0;              // sum of the losses since the last report
  double stretch_right = 0;        // sum of `recipe.right` since the last report
  int64_t stretch_steps = 0;       // and of how many steps
  double epoch = 0;                // sum of the losses of the epoch that is not finished
  double last_epoch = std::numeric_limits<double>::quiet_NaN();  // sum of the last one that is
  double last_loss = 0;                                          // of the last step

  // What is called the loss of a run: the mean of its last stretch.
  double loss() const { return reports.empty() ? stretch / double(stretch_steps) : reports.back(); }
  double epoch_loss() const { return last_epoch == last_epoch ? last_epoch : epoch; }
};

struct ModelRun {
  Schedule schedule;
  History history;
  Wishes wishes{};             // those that are no part of the schedule are written
  std::string data, data_sum;  // where the points came from, and the recipe's checksum of them
  std::string vocabulary{};    // of a language model; empty: it is none
  int64_t parts = 0;           // in which sums over the batch are added up (--parts); 0: as on the devices there are
  bool split_states = false;   // each device keeps a part of what the optimiser remembers (--split-states)
  bool as_declared = false;    // states are written in their declared precision, not in the device's, if it is wider
};

struct ModelFile {
  std::string path, recipe;
  Request request;  // every wish but epochs is filled in; its places are the caller's
  History history;
  int64_t report = 0;  // the schedule's
  int64_t parts = 0;   // in which sums over the batch are added up; 0: none were asked for
  bool split_states = false;
  std::string data, data_sum;
  std::string device;    // that computed the last step, "cpu"; empty: a file from before this was written down
  data::Tensors states;  // parameters, moments, running statistics
};

std::string model_content(const std::string& recipe, const ModelRun& run, const Context& ctx);
// The file appears complete, or not at all and the old one stays.
void write_model(const std::string& path, const std::string& recipe, const ModelRun& run, const Context& ctx);
ModelFile read_model(const std::string& path, const data::Places& places);  // ConfigError where it is not such a file

// Whether every state of the program is in the file in the precision that the program declares for it. The interpreter
// keeps and writes f64 for all.
bool is_as_declared(const data::Tensors& states, const Context& ctx);

// What a state has that is no number to go on with: "the state `w1` has nan"; empty: all are finite.
std::string nonfinite_state(const Context& ctx);

// A part of a trained model, ready to run on inputs `n | ...`, n at a time.
class LoadedPart {
 public:
  // `part` may be "": the whole.
  LoadedPart(const ModelFile& file, const std::string& part, int64_t n, const ContextOptions& options);
  std::vector<Array> run(const Array& x);  // one for each layer

  const Part& part() const { return part_; }
  const std::vector<Part::Layer>& layers() const { return layers_; }
  const Tensor& input() const { return input_; }
  Context& context() { return ctx_; }

 private:
  Part part_;
  Context ctx_;
  Tensor input_;
  std::vector<Part::Layer> layers_;
  std::optional<Routine> routine_;
};

}  // namespace caravan::app
