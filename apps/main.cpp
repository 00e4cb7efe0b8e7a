// The command `caravan`: parses, resolves settings, runs, and turns what is thrown into an exit code.
#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "apps/cache_text.h"
#include "apps/command_line.h"
#include "apps/commands.h"
#include "apps/terminal.h"
#include "apps/train/ranks.h"
#include "caravan/backend/communicator.h"
#include "caravan/base/error.h"
#include "caravan/base/printable.h"

namespace {

using namespace caravan::app;

int run(int argc, char** argv) {
  const Call call = parse_command_line(argc, argv);
  if (!call.text.empty()) {
    std::cout << call.text;
    return kDone;
  }
  const Settings settings = Settings::resolve(call.settings);
  if (settings.log() >= 1) {
    std::cerr << settings.to_string();
    if (const std::string why = cache_problem_text(caravan::backend::KernelCache(settings.cache())); !why.empty())
      std::cerr << "cache is " << why << '\n';
  }
  return call.run(settings);
}

int failed(ExitCode code, const std::exception& error) {
  std::cout.flush();
  // It may quote a file or a program. One write, so that lines of several processes do not mix.
  std::cerr << "caravan: " + caravan::printable_lines(error.what()) + "\n";
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const AsciiWhereNeeded ascii;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that exceeds `ulimit -f` is an error to tell, not an end
  try {
    const int code = run(argc, argv);
    if (std::cout.flush() || code != kDone) return code;
    std::cerr << "caravan: the output could not be written.\n";
    return kMachineFailed;
  } catch (const SaidByFirst&) {  // of all processes that mpirun has started, only the first says what is wrong
    return kWrongInput;
  } catch (const caravan::backend::Disagreement& error) {
    return this_rank() == 0 ? failed(kMachineFailed, error) : int(kMachineFailed);
  } catch (const caravan::UserError& error) {
    // The first process often refuses the same: then mpirun ends the others, which need not say it again.
    if (this_rank() != 0 && !have_met()) std::this_thread::sleep_for(std::chrono::seconds(2));
    return failed(kWrongInput, error);
  } catch (const std::exception& error) {
    return failed(kMachineFailed, error);
  }
}
