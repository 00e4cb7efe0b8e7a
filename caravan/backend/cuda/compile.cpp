#include "caravan/backend/cuda/compile.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "caravan/backend/cuda/driver.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/base/processors.h"

namespace caravan::cuda {

namespace {

// As on the processor: no contraction, and divisions and square roots that are rounded to nearest, so that pointwise
// results have the same bits on both.
std::vector<std::string> options_for(int compute) {
  std::vector<std::string> out = {"--gpu-architecture=sm_" + std::to_string(compute),
                                  "-std=c++17",
                                  "--device-as-default-execution-space",
                                  "--fmad=false",
                                  "--ftz=false",
                                  "--prec-div=true",
                                  "--prec-sqrt=true",
                                  "--generate-line-info"};
  if (debugging()) out.back() = "--device-debug";
  return out;
}

std::string compiled(const std::string& text, const std::string& name, const std::vector<std::string>& options) {
  const Nvrtc& compiler = nvrtc();
  ProgramHandle* program = nullptr;
  if (compiler.create(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr) != 0)
    throw BackendError("CUDA's run-time compiler gives no memory for a program.");
  struct Destroy {
    const Nvrtc& compiler;
    ProgramHandle*& program;
    ~Destroy() { compiler.destroy(&program); }
  } const destroy{compiler, program};
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());
  if (compiler.compile(program, int(arguments.size()), arguments.data()) != 0) {
    size_t bytes = 0;
    compiler.log_size(program, &bytes);
    std::string log(bytes, '\0');
    compiler.log(program, log.data());
    throw BackendError("CUDA's run-time compiler refuses generated text (" + name + "). It says:\n" + log.c_str());
  }
  size_t bytes = 0;
  compiler.code_size(program, &bytes);
  std::string code(bytes, '\0');
  compiler.code(program, code.data());
  return code;
}

}  // namespace

bool debugging() {
  const char* debug = std::getenv("CARAVAN_CUDA_DEBUG");
  return debug && *debug == '1';
}

Compiled compile(const std::vector<std::string>& texts, int compute, const std::string& folder,
                 const std::vector<std::string>& more) {
  std::vector<std::string> options = options_for(compute);
  options.insert(options.end(), more.begin(), more.end());
  const Nvrtc& compiler = nvrtc();
  std::string common = std::to_string(compiler.major) + "." + std::to_string(compiler.minor);
  for (const std::string& option : options) common += '\n' + option;
  backend::KernelCache cache(folder);
  const bool kept = cache.make();

  Compiled out;
  out.codes.resize(texts.size());
  std::vector<std::string> keys;
  std::vector<size_t> missing;
  for (size_t t = 0; t < texts.size(); ++t) {
    keys.push_back(backend::digest(texts[t] + common));
    auto found = kept ? cache.read(keys[t], "cubin") : std::nullopt;
    if (found)
      out.codes[t] = std::move(*found);
    else
      missing.push_back(t);
    if (kept) out.sources.push_back(cache.folder() + "/" + keys[t] + ".cu");
  }
  out.from_cache = missing.empty();

  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  auto work = [&] {
    for (size_t m; (m = next++) < missing.size();) {
      const size_t t = missing[m];
      try {
        out.codes[t] = compiled(texts[t], kept ? out.sources[t] : keys[t] + ".cu", options);
      } catch (...) {
        const std::lock_guard lock(failing);
        failure = std::current_exception();
        return;
      }
    }
  };
  std::vector<std::thread> helpers;
  for (size_t n = 1; n < std::min(missing.size(), size_t(processors().usable())); ++n) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);

  if (!kept) return out;
  for (const size_t t : missing) {
    backend::write_new_file(out.sources[t], texts[t]);
    cache.write(keys[t], "cubin", out.codes[t]);
    cache.tidy(keys[t]);
  }
  return out;
}

}  // namespace caravan::cuda
