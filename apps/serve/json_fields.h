// The fields of a request's JSON, each asked for by name with what it may be. What does not fit is a ConfigError of one
// sentence, which the client is sent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace caravan::serve {

class JsonFields {
 public:
  explicit JsonFields(const std::string& body);  // refused unless it is a JSON object

  double number(const std::string& name, double low, double high, double otherwise);
  int64_t whole(const std::string& name, int64_t low, int64_t high, int64_t otherwise);
  bool flag(const std::string& name, bool otherwise);
  std::string choice(const std::string& name, const std::vector<std::string>& choices, const std::string& otherwise);
  std::string id(const std::string& name);  // required: 8 to 64 letters, digits and dashes
  std::vector<float> numbers(const std::string& name, size_t count, double low, double high);  // required
  void no_more() const;  // every field has been asked for; an unknown one is most likely a misspelt one

 private:
  const nlohmann::json* find(const std::string& name);  // null where it is not given
  nlohmann::json body_;
  std::set<std::string> asked_;
};

}  // namespace caravan::serve
