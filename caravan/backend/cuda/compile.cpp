#include "caravan/backend/cuda/compile.h"

#include <cstdlib>
#include <mutex>
#include <vector>

#include "caravan/backend/cuda/driver.h"
#include "caravan/backend/kernel_cache.h"
#include "caravan/backend/note.h"
#include "caravan/backend/refused_text.h"
#include "caravan/base/list_text.h"
#include "caravan/base/parallel.h"
#include "caravan/base/processors.h"
#include "caravan/target/target.h"

namespace caravan::cuda {

namespace {

constexpr const char *kCode = ".cubin", *kPlan = ".plan";  // extensions of cache entries

// As on the processor: no contraction, and divisions and square roots that are rounded to nearest, so that pointwise
// results have the same bits on both.
std::vector<std::string> options_for(int compute) {
  // With `a`, a compiler also takes the instructions that only this kind of GPU has: prelude/attention.cuh uses some.
  std::vector<std::string> out = {
      "--gpu-architecture=sm_" + std::to_string(compute) + (compute == caravan::Gpu{}.together ? "a" : ""),
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
    throw backend::RefusedTextError("CUDA's run-time compiler refuses generated text.", joined(options, " "), name,
                                    log.c_str());
  }
  size_t bytes = 0;
  compiler.code_size(program, &bytes);
  std::string code(bytes, '\0');
  compiler.code(program, code.data());
  return code;
}

std::string key_of(const std::string& text, const std::vector<std::string>& options) {
  const Nvrtc& compiler = nvrtc();
  std::string all =
      backend::without_comments(text) + std::to_string(compiler.major) + "." + std::to_string(compiler.minor);
  for (const std::string& option : options) all += '\n' + option;
  return backend::digest(all);
}

std::string source_of(const backend::KernelCache& cache, const std::string& key) {
  return cache.folder() + "/" + key + ".cu";
}

}  // namespace

bool debugging() {
  const char* debug = std::getenv("CARAVAN_CUDA_DEBUG");
  return debug && *debug == '1';
}

std::string key_of(const std::string& text, int compute) { return key_of(text, options_for(compute)); }

// The text of an entry: the keys of the compiled texts, and the note.
std::optional<Kept> find_kept(const std::string& origin, int compute, const CompileOptions& wanted) {
  const backend::KernelCache cache(wanted.cache);
  const auto entry = cache.read(key_of(origin, compute), kPlan);
  if (!entry) return std::nullopt;
  backend::NoteReader keys(*entry);
  Kept out;
  keys.list([&] { out.compiled.keys.push_back(keys.name()); });
  out.note = keys.rest();
  out.compiled.from_cache = true;
  for (const std::string& key : out.compiled.keys) {
    auto code = cache.read(key, kCode);
    if (!code) return std::nullopt;
    out.compiled.codes.push_back(std::move(*code));
    out.compiled.sources.push_back(source_of(cache, key));
  }
  return out;
}
void keep(const std::string& origin, int compute, const Compiled& compiled, const std::string& note,
          const CompileOptions& wanted) {
  backend::KernelCache cache(wanted.cache);
  if (!cache.make()) return;
  backend::NoteWriter keys;
  keys.number(int64_t(compiled.keys.size()));
  for (const std::string& key : compiled.keys) keys.name(key);
  cache.write(key_of(origin, compute), kPlan, keys.text() + note);
}

Compiled compile(const std::vector<std::string>& texts, int compute, const CompileOptions& wanted) {
  std::vector<std::string> options = options_for(compute);
  options.insert(options.end(), wanted.more.begin(), wanted.more.end());
  backend::KernelCache cache(wanted.cache);
  const bool kept = cache.make();

  Compiled out;
  out.codes.resize(texts.size());
  std::vector<std::string>& keys = out.keys;
  std::vector<size_t> missing;
  for (size_t t = 0; t < texts.size(); ++t) {
    keys.push_back(key_of(texts[t], options));
    auto found = kept ? cache.read(keys[t], kCode) : std::nullopt;
    if (found)
      out.codes[t] = std::move(*found);
    else
      missing.push_back(t);
    if (kept) out.sources.push_back(source_of(cache, keys[t]));
  }
  out.from_cache = missing.empty();

  std::mutex telling;
  int done = 0;
  auto tell = [&](int more) {
    const std::lock_guard lock(telling);
    done += more;
    if (wanted.progress && !missing.empty()) wanted.progress(done, int(missing.size()));
  };
  tell(0);
  in_parallel(int64_t(missing.size()), processors().usable(), [&](int64_t m) {
    const size_t t = missing[size_t(m)];
    out.codes[t] = compiled(texts[t], kept ? out.sources[t] : keys[t] + ".cu", options);
    tell(1);
  });

  if (!kept) return out;
  for (const size_t t : missing) {
    backend::write_new_file(out.sources[t], texts[t]);
    cache.write(keys[t], kCode, out.codes[t]);
    cache.tidy(keys[t]);
  }
  return out;
}

}  // namespace caravan::cuda
