// caravan train: runs a recipe's step, shows how the loss falls and what came out.
#include "apps/commands.h"
#include "apps/interruption.h"
#include "apps/train/ranks.h"
#include "apps/train/report.h"

namespace caravan::app {

int train_command(const TrainOptions& asked, const Settings& settings) {
  TrainOptions options = asked;
  if (this_rank() != 0) {  // the first process reports and writes
    options.quiet = true, options.json = false;
    options.plot.clear(), options.dump.clear(), options.trace.clear(), options.save.clear();
    be_silent();
  }
  const Prepared prepared = prepare(options, settings);
  Keeper keeper = keeper_of(prepared);
  const Outputs outputs = open_outputs(prepared, keeper);
  const Interruption interruption;  // until all is said: output that nobody reads must not hide where the run is
  introduce(prepared);
  Context ctx = prepared.ctx;
  const Evaluation evaluation = prepared.recipe.evaluate(ctx);
  Ended ended = run(prepared, evaluation, keeper);
  const int code = report(prepared, evaluation, outputs, std::move(ended), keeper);
  wait_for_ranks();
  return code == kDone && Interruption::signal() == SIGPIPE ? Interruption::exit_code() : code;
}

}  // namespace caravan::app
