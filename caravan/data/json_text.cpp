#include "caravan/data/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "caravan/base/printable.h"

namespace caravan::data {

namespace {

// Hears the text as a sequence of events, so that nothing is built from a text that is refused.
class Listener : public nlohmann::json_sax<nlohmann::json> {
 public:
  Listener(size_t deepest, size_t longest_list) : deepest_(deepest), longest_list_(longest_list) {}
  const std::string& problem() const { return problem_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(int64_t) override { return value(); }
  bool number_unsigned(uint64_t) override { return value(); }
  bool number_float(double, const std::string&) override { return value(); }
  bool string(std::string&) override { return value(); }
  bool binary(nlohmann::json::binary_t&) override { return value(); }
  bool start_object(size_t) override { return value() && open(false); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return value() && open(true); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    return open_.back().names.insert(name).second || refuse(fmt::format("has the name {} twice", shown(name)));
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(fmt::format("is not valid JSON at byte {}", byte));
  }

 private:
  bool refuse(const std::string& problem) {
    problem_ = problem;
    return false;
  }
  bool value() {
    if (open_.empty() || !open_.back().list) return true;
    return ++open_.back().values <= longest_list_ ||
           refuse(fmt::format("has a list of more than {} values", longest_list_));
  }
  bool open(bool list) {
    open_.push_back({list, 0, {}});
    return open_.size() <= deepest_ || refuse(fmt::format("is nested deeper than {} levels", deepest_));
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  struct Level {
    bool list;                    // or an object
    size_t values;                // of a list, so far
    std::set<std::string> names;  // of an object
  };
  size_t deepest_, longest_list_;
  std::vector<Level> open_;
  std::string problem_;
};

}  // namespace

std::optional<std::string> json_problem(std::string_view text, size_t deepest, size_t longest_list) {
  // The parser ends at a zero byte and skips a byte order mark.
  if (const size_t at = text.find('\0'); at != text.npos) return fmt::format("is not valid JSON at byte {}", at + 1);
  if (text.starts_with("\xef\xbb\xbf")) return "is not valid JSON at byte 1";
  Listener listener(deepest, longest_list);
  if (nlohmann::json::sax_parse(text, &listener)) return std::nullopt;
  return listener.problem();
}

std::string shown(std::string_view text) { return fmt::format("`{}`", printable(text, 80)); }

}  // namespace caravan::data
