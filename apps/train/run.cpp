#include "apps/train/run.h"

#include "apps/train/ranks.h"

namespace caravan::app {

Ended run(const Prepared& p, const Evaluation& evaluation, Keeper& keeper) {
  Ended out;
  std::optional<NumberCheck> check;
  if (p.options.check_numbers) check.emplace(p.recipe, p.ctx, p.wanted);
  Training training(p.recipe, p.step, p.start.history);
  Watch watch(p, training);
  training.check = check ? &*check : nullptr;
  training.save_every = p.options.save_every;
  Context ctx = p.ctx;
  training.save = [&] {
    ctx.collect_states();
    keeper.keep_meanwhile(training.history);
  };
  training.measure = evaluation.measure;
  training.after_epoch = [&] { watch.after_epoch(); };
  training.after_report = [&] { watch.after_report(); };
  try {
    out.how = training.run(p.until);
  } catch (const std::exception& error) {
    out.how = Training::End::failed;
    out.problems.emplace_back(error.what());
  }
  watch.end();
  out.exchanged = ctx.take_exchanged();
  out.history = training.history;
  out.seconds = training.seconds;
  const bool cut_off = out.how == Training::End::interrupted || out.how == Training::End::failed;
  // After a step that failed on some devices, the others may have computed with values that never came.
  const bool unsound = out.how == Training::End::failed && p.wanted.mesh.devices() > 1;
  if (unsound) out.problems.push_back("a step was not completed on all devices." + keeper.state_of_file());
  if (out.how != Training::End::not_finite && !unsound) {
    ctx.collect_states();
    if (this_rank() == 0) out.kept = keeper.keep(out.history, cut_off);
  }
  out.problems.insert(out.problems.end(), out.kept.problems.begin(), out.kept.problems.end());
  return out;
}

}  // namespace caravan::app
