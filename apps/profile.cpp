// caravan profile: where the time of a recipe's training step goes.
#include "caravan/plot/profile.h"

#include <fmt/format.h>

#include <iostream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/output_folder.h"
#include "apps/profile_json.h"
#include "apps/quick_code_json.h"
#include "apps/train/ranks.h"
#include "caravan/runtime/compile_notice.h"
#include "caravan/runtime/devices.h"

namespace caravan::app {

nlohmann::ordered_json profile_json(const plan::Profile& profile) {
  using Json = nlohmann::ordered_json;
  Json out = {{"program", profile.program},
              {"target", profile.target},
              {"steps", profile.steps},
              {"step_microseconds", profile.step_microseconds},
              {"kernel_microseconds", profile.kernel_microseconds},
              {"peak_gflops", profile.peaks.flops / 1e9}};
  if (profile.exchange_microseconds > 0)
    out["exchange"] = {{"microseconds", profile.exchange_microseconds},
                       {"hidden_share", profile.hidden_exchange},
                       {"bytes", profile.exchanged_bytes}};
  for (const Peaks::Memory& level : profile.peaks.memory)
    out["peak_bandwidth"].push_back({{"bytes", level.bytes}, {"gigabytes_per_second", level.bandwidth / 1e9}});
  for (const plan::KernelProfile& k : profile.kernels)
    out["kernels"].push_back({{"number", k.number},
                              {"name", k.name},
                              {"microseconds", k.microseconds},
                              {"share", k.share},
                              {"gflops", k.gflops()},
                              {"gigabytes_per_second", k.gigabytes()},
                              {"of_peak", k.of_peak()},
                              {"flops", k.cost.flops},
                              {"read_bytes", k.cost.read_bytes},
                              {"written_bytes", k.cost.written_bytes},
                              {"loops", k.loops},
                              {"tiles", k.tiles},
                              {"from", k.from}});
  return out;
}

int profile_command(const ProfileRequest& options, const Settings& settings) {
  const bool first = this_rank() == 0;  // which alone prints and writes
  if (!first) be_silent();
  std::optional<OutputFile> picture;
  std::optional<Recipe> made;
  ContextOptions wanted{.seed = settings.seed(),
                        .device = settings.device(),
                        .threads = int(settings.threads()),
                        .quick_start = settings.quick_start(),
                        .cache = settings.cache(),
                        .memory_limit = options.memory_limit,
                        .passes_off = options.passes_off,
                        .compiling = first ? notice_on_terminal() : nullptr};
  before_all_meet([&] {
    if (first && !options.plot.empty()) picture.emplace(options.plot, "--plot");
    const RecipeRow& row = find_recipe(options.recipe);
    check_choices(row, options.wishes);
    made = row.make({options.wishes, settings.seed(), settings.data()});
    wanted.mesh = mesh_of(options.mesh, wanted.device);
    check_device(wanted);
  });
  const Recipe& recipe = *made;
  Context ctx(wanted);
  Routine step = alike([&] { return ctx.compile(recipe.program); });
  plan::Profile profile = step.profile({.steps = options.steps, .first = recipe.at(0)});
  profile.program = options.recipe;
  if (picture) picture->write(plot::svg(profile));
  const QuickCode quick = step.report().quick_code;
  if (options.json) {
    nlohmann::ordered_json out = profile_json(profile);
    if (quick.used) out["quick_code"] = quick_code_json(quick);
    std::cout << json_line(out);
  } else {
    std::cout << plan::to_string(profile, options.top);
    if (quick.changed)
      std::cout << fmt::format("Training would begin on quickly compiled code; this code was ready after {:.1f} s.\n",
                               quick.seconds);
  }
  wait_for_ranks();
  return kDone;
}

}  // namespace caravan::app
