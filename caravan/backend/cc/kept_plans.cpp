#include "caravan/backend/cc/kept_plans.h"

#include <charconv>
#include <utility>

#include "caravan/backend/kernel_cache.h"

namespace caravan::cc {

namespace {
constexpr const char* kPlan = ".plan";  // extension of entries
}

// The text of an entry: "KEY TEXTS NOTE".
std::optional<Kept> find_kept(const std::string& origin, const CompilerOptions& options) {
  const auto entry = backend::KernelCache(options.cache).read(key_of(origin, options), kPlan);
  if (!entry) return std::nullopt;
  const size_t first = entry->find(' '), second = first == entry->npos ? first : entry->find(' ', first + 1);
  if (second == entry->npos) return std::nullopt;
  size_t texts = 0;
  std::from_chars(entry->data() + first + 1, entry->data() + second, texts);
  auto compiled = find_entry(entry->substr(0, first), texts, options);
  if (!compiled) return std::nullopt;
  return Kept{std::move(*compiled), entry->substr(second + 1)};
}

void keep(const std::string& origin, const Compiled& compiled, const std::string& note,
          const CompilerOptions& options) {
  backend::KernelCache cache(options.cache);
  if (!cache.make() || compiled.sources.empty() || !compiled.sources[0].starts_with(cache.folder() + "/")) return;
  cache.write(key_of(origin, options), kPlan,
              compiled.key + " " + std::to_string(compiled.sources.size()) + " " + note);
}

}  // namespace caravan::cc
