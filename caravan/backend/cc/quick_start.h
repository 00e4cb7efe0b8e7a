// Code for a program that takes long to compile: the program begins on code that was compiled quickly, while better
// code is compiled in the background. Every level of optimisation gives the same bits (compile.h), so a program may
// change over between any two steps.
//
// The background has low priority. What it has compiled goes to the cache; quickly compiled code does not. The texts
// are in the cache from the beginning, under the names that they keep. If nobody needs the program any more, or the
// process ends, the compiler is ended and its files are removed, but for the texts, which are removed after a day. The
// next process then does not begin quickly: it waits for the better code, so that the cache has it from then on. (An
// empty file in the cache, which is removed after a day, tells it that.)
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "caravan/backend/cc/compile.h"
#include "caravan/codegen/c.h"

namespace caravan::cc {

// Whether a program should begin on quickly compiled code: the compiler is asked for more optimisation than that, and
// would take at least `seconds` on the processors that this process may use, by an estimate.
bool pays_to_start_quickly(const codegen::Units& units, const CompilerOptions& options, double seconds);

class QuickStart {
 public:
  // Compiles the texts quickly, and begins to compile them as the options say. `done` is called with the result, on
  // another thread. Callers with the same texts and options share one QuickStart, as long as one of them has it.
  // Returns null if the program has begun quickly before, if quickly compiled code would be wrong (self_test.h), or if
  // no folder can take the texts.
  static std::shared_ptr<QuickStart> begin(const std::vector<std::string>& texts, const CompilerOptions& options,
                                           std::function<void(const Compiled&)> done);
  ~QuickStart();
  QuickStart(const QuickStart&) = delete;
  QuickStart& operator=(const QuickStart&) = delete;

  // Its sources are where the texts are kept, also with the better code.
  const Compiled& quick() const { return quick_; }
  bool is_ready() const { return ready_.load(std::memory_order_acquire); }  // the background has ended
  void wait() const;                                                        // until it is ready
  // These may be called once it is ready.
  const std::optional<Compiled>& better() const { return better_; }  // nothing if it could not be compiled
  const std::string& problem() const { return problem_; }            // then this says why
  double seconds() const { return seconds_; }                        // from `begin` to the end of the background

 private:
  struct Running;
  static Running& running();
  QuickStart() = default;
  bool compile_quickly(const std::vector<std::string>& texts, CompilerOptions options);
  void compile_well(const std::vector<std::string>& texts, const CompilerOptions& options,
                    const std::function<void(const Compiled&)>& done);
  void end();
  bool is_forked() const;

  std::mutex beginning_;
  std::atomic<bool> begun_{false};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int owner_ = 0;  // the process whose thread compiles
  Compiled quick_;
  std::string mark_;  // path of the file that says that the program has begun quickly
  CommandGroup commands_;
  std::thread background_;
  std::atomic<bool> ready_{false};
  std::optional<Compiled> better_;
  std::string problem_;
  double seconds_ = 0;
};

}  // namespace caravan::cc
