#include "caravan/backend/cc/peaks.h"

#include <chrono>

#include "caravan/codegen/prelude.h"
#include "caravan/codegen/step.h"
#include "caravan/target/measuring.h"

namespace caravan::cc {

namespace {

constexpr codegen::PreludeFile kFiles[] = {
#include "caravan/backend/cc/prelude.inc"
};

class Measurement {
 public:
  Measurement(const Target& target, Pool* pool, const CompilerOptions& options)
      : target_(target), pool_(pool), chunks_(pool ? pool->threads() : 1), memory_(size_t(chunks_)) {
    CompilerOptions fused = options;
    fused.flags.push_back("-ffp-contract=fast");
    fused.progress = nullptr;
    const std::string text = codegen::cpu_prelude(false) + "#define CARAVAN_VECTOR_BYTES " +
                             std::to_string(target.vector_bytes) + "\n#define CARAVAN_SUMS " +
                             std::to_string(kMeasuredSums) + "\n" +
                             std::string(codegen::prelude_text(kFiles, "peaks.h"));
    library_ = compile({text}, fused).library;
  }

  Peaks run() {
    Peaks out;
    out.flops = best("caravan_compute", kMeasuredSums * target_.vector_bytes,
                     double(target_.vector_bytes) / 4 * kMeasuredSums * 2);
    const int64_t main_memory = std::max(kMostCopied, 4 * target_.l3);
    int64_t moved = 0;  // of a chunk, at the level before
    for (const auto& [bytes, shared] :
         {std::pair{target_.l1, false}, {target_.l2, false}, {target_.l3, true}, {main_memory, true}}) {
      if (bytes == 0) continue;
      const int64_t all = shared ? bytes : bytes * chunks_;
      if (!out.memory.empty() && all <= out.memory.back().bytes) continue;
      // Half of the cache is used. The rest is for other processes.
      const int64_t of_chunk = std::min(all / 2, kMostCopied) / chunks_ / 128 * 128;
      if (of_chunk == moved) break;  // a cache so large that main memory would not be reached
      moved = of_chunk;
      out.memory.push_back({all, std::max(best("caravan_copy", of_chunk, double(of_chunk)),
                                          best("caravan_update", of_chunk, 2 * double(of_chunk)))});
    }
    return out;
  }

 private:
  // The rate of a function in units per second: each chunk has `bytes` of memory, and an iteration makes `units`. The
  // best of a few trials of some milliseconds each.
  double best(const char* function, int64_t bytes, double units) {
    const auto chunk = reinterpret_cast<Pool::Chunk>(library_->symbol(function));
    std::vector<void*> buffers;
    for (std::vector<std::byte>& memory : memory_) {
      memory.assign(size_t(bytes + kCacheLine), std::byte{0});
      const auto at = reinterpret_cast<uintptr_t>(memory.data());
      buffers.push_back(memory.data() + (kCacheLine - at % kCacheLine) % kCacheLine);
    }
    int64_t symbols[2] = {1, bytes / 2};
    codegen::Step step;
    step.buffers = buffers.data(), step.symbols = symbols;
    auto seconds = [&] {
      const auto start = std::chrono::steady_clock::now();
      if (pool_)
        pool_->run(chunk, &step, chunks_);
      else
        chunk(&step, 0);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    while (seconds() < kMeasuredTrial && symbols[0] < (int64_t(1) << 40)) symbols[0] *= 2;
    double out = 0;
    for (int trial = 0; trial < 5; ++trial) out = std::max(out, units * double(symbols[0] * chunks_) / seconds());
    return out;
  }

  const Target& target_;
  Pool* pool_;
  int64_t chunks_;
  std::vector<std::vector<std::byte>> memory_;
  std::shared_ptr<Library> library_;
};

}  // namespace

Peaks measure_peaks(const Target& target, Pool* pool, const CompilerOptions& options) {
  return Measurement(target, pool, options).run();
}

}  // namespace caravan::cc
