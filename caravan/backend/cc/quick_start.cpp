#include "caravan/backend/cc/quick_start.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <map>
#include <system_error>

#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/own_folder.h"
#include "caravan/base/processors.h"

namespace caravan::cc {

namespace {

// Loops are vectorised, because steps of loops that are not take several times as long. GCC 12 compiles a transformer
// with these flags in 0.55 of the time of -O3.
constexpr const char* kQuickFlags[] = {"-O1", "-ftree-vectorize"};

// The nice value of the background: it then has about a tenth of a processor that a step uses all the time.
constexpr int kNice = 10;

// Of several flags for the level of optimisation, the compiler takes the last one.
bool is_optimised_well(const CompilerOptions& options) {
  const auto last = std::find_if(options.flags.rbegin(), options.flags.rend(),
                                 [](const std::string& flag) { return flag.starts_with("-O"); });
  return last != options.flags.rend() && (*last == "-O3" || *last == "-O2");
}

// The file that says that a program has begun quickly, and that its better code is not ready. The program is named by
// where the cache keeps its first text.
std::string mark_of(const std::string& name) { return name + ".begun"; }

bool passes_self_test(const CompilerOptions& options) {
  try {
    const SelfTest test = self_test(options);
    return test.passed && test.added.empty();
  } catch (const BackendError&) {
    return false;
  }
}

}  // namespace

bool pays_to_start_quickly(const codegen::Units& units, const CompilerOptions& options, double seconds) {
  const auto at_once = double(std::min<size_t>(units.texts.size(), size_t(processors().usable())));
  return is_optimised_well(options) && units.milliseconds / 1e3 / at_once >= seconds;
}

// All that are in use, by the path of their first text. Never destroyed, because some may live until the process ends.
struct QuickStart::Running {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<QuickStart>> all;

  static void end_all() {
    std::vector<std::shared_ptr<QuickStart>> left;
    {
      const std::lock_guard lock(running().mutex);
      for (const auto& [path, one] : running().all)
        if (auto found = one.lock()) left.push_back(std::move(found));
    }
    for (const auto& one : left) one->end();
  }
};
QuickStart::Running& QuickStart::running() {
  static Running* const out = [] {
    backend::own_folder_if_made();  // so that the folder of this process is removed after the background has ended
    std::atexit(Running::end_all);
    return new Running;
  }();
  return *out;
}

std::shared_ptr<QuickStart> QuickStart::begin(const std::vector<std::string>& texts, const CompilerOptions& options,
                                              std::function<void(const Compiled&)> done) {
  const std::string name = kept_texts(texts, options)[0];
  std::shared_ptr<QuickStart> out;
  {
    const std::lock_guard lock(running().mutex);
    std::erase_if(running().all, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<QuickStart>& known = running().all[name];
    out = known.lock();
    if (!out) known = out = std::shared_ptr<QuickStart>(new QuickStart);
  }
  const std::lock_guard lock(out->beginning_);
  if (out->begun_) return out;
  out->mark_ = mark_of(name);
  if (access(out->mark_.c_str(), F_OK) == 0 || !out->compile_quickly(texts, options)) return nullptr;
  out->quick_.sources = keep_texts(texts, options);
  if (out->quick_.sources.empty()) return nullptr;
  out->owner_ = getpid();
  if (backend::KernelCache(options.cache).make()) backend::write_new_file(out->mark_, "");
  CompilerOptions silent = options;
  silent.progress = nullptr;
  try {
    out->background_ = std::thread([q = out.get(), texts, silent, done] { q->compile_well(texts, silent, done); });
  } catch (const std::system_error& error) {
    out->problem_ = error.what();
    out->ready_ = true;
  }
  out->begun_ = true;
  return out;
}

bool QuickStart::compile_quickly(const std::vector<std::string>& texts, CompilerOptions options) {
  options.flags.insert(options.flags.end(), std::begin(kQuickFlags), std::end(kQuickFlags));
  auto passes = std::async(std::launch::async, [&] { return passes_self_test(options); });
  quick_ = compile(texts, options, Keep::nowhere, &commands_);
  return passes.get();
}

void QuickStart::compile_well(const std::vector<std::string>& texts, const CompilerOptions& options,
                              const std::function<void(const Compiled&)>& done) {
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread, and of the threads and processes that it starts
  try {
    better_ = compile(texts, options, Keep::in_cache, &commands_);
    unlink(mark_.c_str());
    done(*better_);
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  ready_.store(true, std::memory_order_release);
  ready_.notify_all();
}

// In a child of fork() there is no background, and the code stays what it is.
bool QuickStart::is_forked() const { return begun_ && owner_ != getpid(); }

void QuickStart::wait() const {
  if (!is_forked()) ready_.wait(false, std::memory_order_acquire);
}

void QuickStart::end() {
  if (is_forked()) return;
  commands_.end();
  if (begun_) wait();
}

QuickStart::~QuickStart() {
  end();
  if (!background_.joinable()) return;
  if (is_forked())
    background_.detach();
  else
    background_.join();
}

}  // namespace caravan::cc
