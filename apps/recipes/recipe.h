// A recipe is a model with its data and its training step. `train` runs it, `inspect` shows its stages.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "caravan/plot/plot.h"
#include "caravan/runtime/context.h"

namespace caravan::app {

// What a user may ask of any recipe; the rest is the recipe's.
struct Wishes {
  std::optional<int64_t> epochs, steps, batch;
  std::optional<double> lr;
};

struct Schedule {
  int64_t points = 0, batch = 0, steps = 0;
  int64_t report = 0;  // steps of one value of the loss curve: an epoch, or a hundredth of the run
  double lr = 0;
  uint64_t seed = 0;
  int64_t steps_per_epoch() const { return points / batch; }
  bool by_epoch() const { return report == steps_per_epoch(); }
};

struct Recipe {
  Schedule schedule;
  Tensor loss;      // the mean over a batch
  Program program;  // one training step, which observes the loss
  Index batch, step;
  Tensor lr;  // of `step`
  // What to show, and the numbers that only this recipe has. The Context holds the state in question; pictures of the
  // plane are drawn with so many columns and rows of cells.
  std::function<void(std::ostream&, Context&)> before{}, after{};
  std::function<plot::Scatter(Context&, int, int)> boundary{};
  std::function<std::map<std::string, double>(Context&)> results{};

  IndexValues at(int64_t s) const { return {{batch, s % schedule.steps_per_epoch()}, {step, s}}; }
};

struct RecipeRow {
  std::string name, doc;
  int64_t points = 0, batch = 0, epochs = 0;
  double lr = 0;
  std::string lr_doc;    // what the rate means
  bool by_epoch = true;  // the loss curve; otherwise the run is divided into a hundred
  Recipe (*make)(const Schedule& schedule) = nullptr;
};
std::span<const RecipeRow> recipe_rows();
const RecipeRow& find_recipe(const std::string& name);  // ConfigError naming those there are

// Throws ConfigError where a wish cannot be met.
Recipe make_recipe(const std::string& name, const Wishes& wishes, uint64_t seed);

Recipe linear_recipe(const Schedule& schedule);
Recipe moons_recipe(const Schedule& schedule);
Recipe multiply_small_recipe(const Schedule& schedule);

}  // namespace caravan::app
