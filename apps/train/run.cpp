#include "apps/train/run.h"

namespace caravan::app {

Ended run(const Prepared& p, const Evaluation& evaluation, Keeper& keeper) {
  Ended out;
  std::optional<NumberCheck> check;
  if (p.options.check_numbers) check.emplace(p.recipe, p.ctx, p.wanted);
  Training training(p.recipe, p.step, p.start.history);
  Watch watch(p, training);
  training.check = check ? &*check : nullptr;
  training.save_every = p.options.save_every;
  training.save = [&] { keeper.keep_meanwhile(training.history); };
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
  out.history = training.history;
  out.seconds = training.seconds;
  const bool cut_off = out.how == Training::End::interrupted || out.how == Training::End::failed;
  if (out.how != Training::End::not_finite) out.kept = keeper.keep(out.history, cut_off);
  out.problems.insert(out.problems.end(), out.kept.problems.begin(), out.kept.problems.end());
  return out;
}

}  // namespace caravan::app
