// caravan cache: the folder of compiled kernels, shown or emptied.
#include <fmt/format.h>

#include <iostream>

#include "apps/cache_text.h"
#include "apps/commands.h"
#include "apps/figures.h"
#include "apps/json_line.h"

namespace caravan::app {

using backend::KernelCache;

namespace {

std::string kernels(int64_t count) { return count == 1 ? "1 kernel" : fmt::format("{} kernels", count); }

}  // namespace

std::string cache_text(const KernelCache& cache) {
  const KernelCache::Content content = cache.content();
  const std::string most = cache.limit() == 0 ? "" : fmt::format(" of at most {} MB", cache.limit() / 1'000'000);
  const std::string where = cache.folder().empty() ? "" : " in " + cache.folder();
  return fmt::format("{}, {}{}{}", kernels(content.kernels), megabytes(content.bytes), most, where);
}

std::string cache_problem_text(const KernelCache& cache) {
  if (cache.problem().empty()) return "";
  return fmt::format("not used, because {}; each process compiles for itself", cache.problem());
}

nlohmann::ordered_json cache_json(const KernelCache& cache) {
  const KernelCache::Content content = cache.content();
  return {{"folder", cache.folder()},
          {"kernels", content.kernels},
          {"bytes", content.bytes},
          {"limit", cache.limit()},
          {"problem", cache.problem()}};
}

int cache_command(const CacheOptions& options, const Settings& settings) {
  const KernelCache cache(settings.cache());
  const KernelCache::Content removed = options.clear ? cache.clear() : KernelCache::Content{};
  if (options.json) {
    nlohmann::ordered_json out = cache_json(cache);
    if (options.clear) out["removed"] = {{"kernels", removed.kernels}, {"bytes", removed.bytes}};
    std::cout << json_line(out);
    return kDone;
  }
  if (options.clear) {
    std::cout << fmt::format("Removed {}, {}, from {}.\n", kernels(removed.kernels), megabytes(removed.bytes),
                             cache.folder());
    return kDone;
  }
  std::cout << cache_text(cache) << '\n';
  if (!cache.problem().empty()) std::cout << cache_problem_text(cache) << '\n';
  return kDone;
}

}  // namespace caravan::app
