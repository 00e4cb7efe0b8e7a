#include "apps/recipes/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "caravan/base/error.h"

namespace caravan::app {

std::span<const RecipeRow> recipe_rows() {
  static const std::array<RecipeRow, 3> kRows = {{
      {"linear", "A line y = x w + b through noisy points: the graph, its backward pass, and w and b recovered.", 100,
       4, 20, 0.1, "Learning rate at the start; it falls to 0", true, linear_recipe},
      {"moons", "Two half moons told apart by a 2-16-16-1 network with hinge loss.", 800, 10, 80, 0.1,
       "Learning rate at the end; it falls from twice as much", true, moons_recipe},
      {"multiply-small", "The product of two numbers by a 2-5-1 network, one random pair at a time.", 200'000, 1, 1,
       0.01, "Learning rate at the start; it falls to 0", false, multiply_small_recipe},
  }};
  return kRows;
}

const RecipeRow& find_recipe(const std::string& name) {
  std::string known;
  for (const RecipeRow& row : recipe_rows()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + row.name;
  }
  throw ConfigError(fmt::format("there is no recipe `{}`; there are: {}.", name, known));
}

Recipe make_recipe(const std::string& name, const Wishes& wishes, uint64_t seed) {
  const RecipeRow& row = find_recipe(name);
  auto positive = [](const char* option, int64_t value) {
    if (value < 1) throw ConfigError(fmt::format("{} is {}; it must be at least 1.", option, value));
    return value;
  };
  Schedule out;
  out.seed = seed;
  out.points = row.points;
  out.batch = positive("--batch", wishes.batch.value_or(row.batch));
  if (row.points % out.batch != 0)
    throw ConfigError(fmt::format("--batch {} does not divide the {} points of {}.", out.batch, row.points, name));
  if (wishes.epochs && wishes.steps) throw ConfigError("--epochs and --steps exclude each other.");
  if (wishes.epochs) positive("--epochs", *wishes.epochs);
  constexpr int64_t kMost = 1'000'000'000;
  const int64_t epochs = wishes.epochs.value_or(row.epochs);
  if (epochs > kMost / out.steps_per_epoch())
    throw ConfigError(fmt::format("--epochs {} is more than {} steps.", epochs, kMost));
  out.steps = positive("--steps", wishes.steps.value_or(epochs * out.steps_per_epoch()));
  if (out.steps > kMost) throw ConfigError(fmt::format("--steps {} is more than {}.", out.steps, kMost));
  out.report = row.by_epoch ? out.steps_per_epoch() : std::max<int64_t>(1, out.steps / 100);
  out.lr = wishes.lr.value_or(row.lr);
  if (!std::isfinite(out.lr) || out.lr <= 0) throw ConfigError(fmt::format("--lr is {}; it must be positive.", out.lr));
  return row.make(out);
}

}  // namespace caravan::app
