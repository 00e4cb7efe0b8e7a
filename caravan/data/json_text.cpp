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
  explicit Listener(size_t deepest) : deepest_(deepest) {}
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    return keys_.back().insert(name).second || refuse(fmt::format("has the name {} twice", shown(name)));
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(fmt::format("is not valid JSON at byte {}", byte));
  }

 private:
  bool refuse(const std::string& problem) {
    problem_ = problem;
    return false;
  }
  bool open() {
    keys_.emplace_back();
    return keys_.size() <= deepest_ || refuse(fmt::format("is nested deeper than {} levels", deepest_));
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  size_t deepest_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open; a list has none
  std::string problem_;
};

}  // namespace

std::optional<std::string> json_problem(std::string_view text, size_t deepest) {
  // The parser ends at a zero byte and skips a byte order mark.
  if (const size_t at = text.find('\0'); at != text.npos) return fmt::format("is not valid JSON at byte {}", at + 1);
  if (text.starts_with("\xef\xbb\xbf")) return "is not valid JSON at byte 1";
  Listener listener(deepest);
  if (nlohmann::json::sax_parse(text, &listener)) return std::nullopt;
  return listener.problem();
}

std::string shown(std::string_view text) { return fmt::format("`{}`", printable(text, 80)); }

}  // namespace caravan::data
