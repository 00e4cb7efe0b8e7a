#include "caravan/target/target.h"

#include <unistd.h>

#include <algorithm>

#include "caravan/base/processors.h"
#include "caravan/target/tuning_file.h"

namespace caravan {

namespace {

int64_t cache_bytes(int name) { return std::max<int64_t>(0, sysconf(name)); }

void use_instructions(Target& target, const Instructions& there) {
  target.vector_bytes = there.avx512 ? 64 : there.avx ? 32 : 16;
  target.vector_registers = there.avx512 ? 32 : 16;
  target.fma = there.fma;
}

void find_vectors(Target& target) {
#if defined(__x86_64__)
  use_instructions(target, {__builtin_cpu_supports("avx") != 0, __builtin_cpu_supports("avx512f") != 0,
                            __builtin_cpu_supports("fma") != 0});
#elif defined(__aarch64__)
  target.fma = true, target.vector_registers = 32;
#endif
}

}  // namespace

Target host(int threads) {
  static const Target known = [] {
    Target out;
    out.processor = processor_model().name;
    find_vectors(out);
    out.l1 = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
    out.l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
    out.l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
    out.tuning = built_in_tuning(out.vector_bytes);
    if (const std::string path = tuning_path(); !path.empty()) out.tuning = read_tuning(path, out.tuning);
    return out;
  }();
  Target out = known;
  out.threads = threads > 0 ? threads : processors().usable();
  return out;
}

Target with_at_most(const Target& target, const Instructions& allowed) {
  Target least = target, out = target;
  use_instructions(least, allowed);
  if (least.vector_bytes < target.vector_bytes) {
    out.vector_bytes = least.vector_bytes, out.vector_registers = least.vector_registers;
    if (target.tuning == built_in_tuning(target.vector_bytes)) out.tuning = built_in_tuning(least.vector_bytes);
  }
  out.fma = target.fma && allowed.fma;
  return out;
}

Target plain_c() {
  Target out;
  out.kind = Target::Kind::c99;
  out.processor = "any";
  out.vector_bytes = out.tuning.vector_bytes = bytes(DType::f32);  // one number: the language has no vectors
  return out;
}

Target gpu_target(const Gpu& gpu, const std::string& name) {
  Target out;
  out.kind = Target::Kind::cuda;
  out.processor = name.empty() ? "a GPU of compute capability " + std::to_string(gpu.compute / 10) + "." +
                                     std::to_string(gpu.compute % 10)
                               : name;
  out.vector_bytes = out.tuning.vector_bytes = bytes(DType::f32);  // one number: a thread has no vectors
  out.tuning.alignment = kGpuAlignment;
  out.fma = true;
  out.gpu = gpu;
  return out;
}

std::string to_string(const Target& t) {
  if (t.kind == Target::Kind::cuda)
    return t.processor + ", " + std::to_string(t.gpu.multiprocessors) + " multiprocessors" +
           (t.gpu.memory > 0 ? ", " + std::to_string(t.gpu.memory >> 30) + " GiB" : "");
  auto kilobytes = [](int64_t bytes) { return bytes > 0 ? std::to_string(bytes / 1024) + " KiB" : std::string("?"); };
  return t.processor + ", " + std::to_string(t.threads) + (t.threads == 1 ? " thread" : " threads") + ", vectors of " +
         std::to_string(8 * t.vector_bytes) + " bits" + (t.fma ? ", fma" : "") + ", caches " + kilobytes(t.l1) + ", " +
         kilobytes(t.l2) + ", " + kilobytes(t.l3);
}

}  // namespace caravan
