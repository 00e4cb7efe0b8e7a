#include "apps/keeper.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "apps/figures.h"
#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"

namespace caravan::app {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The user's folder for what programs keep between runs; empty where there is none.
std::string state_folder() {
  if (const std::string state = environment("XDG_STATE_HOME"); !state.empty()) return state + "/caravan/runs";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.local/state/caravan/runs";
}

// Folders for a file that its own place did not take, the first is tried first. A cache may be emptied at any time, so
// it is not one of them.
std::vector<std::string> rescue_folders() {
  std::vector<std::string> out;
  for (const std::string& folder : {state_folder(), environment("TMPDIR"), std::string("/tmp")})
    if (!folder.empty()) out.push_back(folder);
  return out;
}

// A new folder in it that is this user's alone, under a name that nobody can foresee. Empty, with a problem: there is
// none.
std::string private_folder(const std::string& within, const std::string& recipe, std::vector<std::string>& problems) {
  std::error_code error;
  if (within == state_folder()) fs::create_directories(within, error);
  std::string path = fmt::format("{}/{}-XXXXXX", within, recipe);
  if (!error && mkdtemp(path.data())) return path;
  if (!error) error = {errno, std::generic_category()};
  problems.push_back(fmt::format("no folder can be made in `{}`: {}.", within, error.message()));
  return "";
}

}  // namespace

Keeper::Keeper(std::string recipe, ModelRun run, const Context& ctx, std::string save, std::optional<int64_t> on_disk)
    : recipe_(std::move(recipe)), run_(std::move(run)), ctx_(ctx), save_(std::move(save)), on_disk_(on_disk) {}

std::string Keeper::content(const History& history) const {
  ModelRun run = run_;
  run.history = history;
  return model_content(recipe_, run, ctx_);
}

std::string Keeper::divergence(const History& history) const {
  if (!std::isfinite(history.last_loss)) return "the last loss is " + figure(history.last_loss);
  return nonfinite_state(ctx_);
}

void Keeper::try_out(const History& begun, int64_t reports) const {
  if (save_.empty()) return;
  try {
    data::try_file(save_, content(begun).size() + 2 * sizeof(double) * uint64_t(reports));
  } catch (const Error& error) {
    throw ConfigError(fmt::format("--save: {}", error.what()));
  }
}

bool Keeper::save(const std::string& content, const History& history, std::vector<std::string>& problems) {
  try {
    data::write_file(save_, content);
  } catch (const std::exception& error) {
    problems.emplace_back(error.what());
    return false;
  }
  on_disk_ = history.step;
  if (rescue_.empty()) return true;
  std::error_code ignored;  // the copy is of no use any more
  fs::remove_all(fs::path(rescue_).parent_path(), ignored);
  rescue_.clear();
  return true;
}

bool Keeper::rescue(const std::string& content, std::vector<std::string>& problems) {
  auto written = [&](const std::string& path) {
    try {
      data::write_file(path, content);
      return true;
    } catch (const std::exception& error) {
      problems.emplace_back(error.what());
      return false;
    }
  };
  if (!rescue_.empty() && written(rescue_)) return true;
  for (const std::string& within : rescue_folders()) {
    const std::string folder = private_folder(within, recipe_, problems);
    if (folder.empty()) continue;
    if (const std::string path = fmt::format("{}/{}.safetensors", folder, recipe_); written(path)) {
      rescue_ = path;
      return true;
    }
    std::error_code ignored;
    fs::remove(folder, ignored);
  }
  return false;
}

void Keeper::keep_meanwhile(const History& history) {
  if (save_.empty()) return;
  const Kept kept = keep(history, false);
  std::string told;
  for (const std::string& problem : kept.problems)
    told += fmt::format("caravan: the run goes on unsaved for now: {}\n", problem);
  if (kept.rescued) told += fmt::format("caravan: a copy is kept in {}\n", kept.path);
  if (told != told_) std::cerr << told << std::flush;
  told_ = told;
}

Kept Keeper::keep(const History& history, bool in_any_case) {
  Kept out;
  try {
    out.diverged = divergence(history);
    if (!out.diverged.empty() || (save_.empty() && !in_any_case)) return out;
    const std::string bytes = content(history);
    if (!save_.empty() && save(bytes, history, out.problems))
      out.path = save_;
    else if (rescue(bytes, out.problems))
      out.path = rescue_, out.rescued = !save_.empty();
  } catch (const std::exception& error) {  // no memory for the content of the file
    out.problems.emplace_back(error.what());
  }
  return out;
}

std::string Keeper::state_of_file() const {
  if (save_.empty()) return "";
  if (on_disk_) return fmt::format(" It was not saved; `{}` has the run at step {}.", save_, *on_disk_);
  std::error_code error;
  if (fs::exists(save_, error)) return fmt::format(" It was not saved; `{}` is what it was before the run.", save_);
  return " It was not saved; there is no file of this run.";
}

}  // namespace caravan::app
