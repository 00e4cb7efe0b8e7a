#include "apps/recipes/made_text.h"

#include <span>
#include <string_view>

#include "caravan/base/random.h"

namespace caravan::app {

namespace {

// Draws words from lists; the draws depend on the seed and the name alone.
class Draws {
 public:
  Draws(uint64_t seed, std::string_view name) : seed_(seed), key_(hash_name(name)) {}
  size_t below(size_t n) { return random_words(seed_, key_, 0, next_++)[0] % n; }
  std::string of(std::span<const std::string_view> words) { return std::string(words[below(words.size())]); }

 private:
  uint64_t seed_, key_, next_ = 0;
};

constexpr std::string_view kOnsets[] = {"b", "c", "d", "k", "l", "m", "n", "r", "s", "t", "v", "j", "br", "sh", "th"};
constexpr std::string_view kVowels[] = {"a", "a", "e", "i", "o", "u", "ia", "ee", "y"};
constexpr std::string_view kCodas[] = {"", "", "", "n", "l", "r", "s", "h", "m"};

constexpr std::string_view kSpeakers[] = {"MILLER", "QUEEN", "FERRYMAN", "CLERK", "SHEPHERD", "CAPTAIN"};
constexpr std::string_view kAdjectives[] = {"old", "quiet", "golden", "winter", "silver", "weary", "early", "noble"};
constexpr std::string_view kNouns[] = {"river",  "morning", "lantern", "harbour",  "garden",
                                       "letter", "bridge",  "caravan", "mountain", "wind"};
constexpr std::string_view kVerbs[] = {"carries", "remembers", "follows", "leaves", "answers", "keeps", "finds"};
constexpr std::string_view kOpenings[] = {"Now the", "And yet the", "Tell me, how the", "When the", "So the", "The"};
constexpr std::string_view kEnds[] = {".", ".", ",", ";", "!", "?"};

}  // namespace

std::vector<std::string> made_names(int64_t count, uint64_t seed) {
  Draws draws(seed, "made names");
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) {
    std::string name = draws.below(4) == 0 ? "" : draws.of(kOnsets);
    const size_t syllables = 2 + (draws.below(3) == 0 ? 1 : 0) + (draws.below(9) == 0 ? 1 : 0);
    for (size_t s = 0; s < syllables; ++s) name += (s == 0 ? "" : draws.of(kOnsets)) + draws.of(kVowels);
    out.push_back((name + draws.of(kCodas)).substr(0, 14));
  }
  return out;
}

std::string made_verses(int64_t lines, uint64_t seed) {
  Draws draws(seed, "made verses");
  std::string out;
  for (int64_t line = 0; line < lines;) {
    out += draws.of(kSpeakers) + ":\n";
    for (size_t said = 1 + draws.below(4); said > 0; --said, ++line)
      out += draws.of(kOpenings) + " " + draws.of(kAdjectives) + " " + draws.of(kNouns) + " " + draws.of(kVerbs) +
             " the " + draws.of(kNouns) + draws.of(kEnds) + "\n";
    out += "\n";
  }
  return out;
}

}  // namespace caravan::app
