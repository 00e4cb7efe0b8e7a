#include "apps/serve/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "caravan/base/error.h"

namespace caravan::serve {

namespace {

double within(const std::string& name, const nlohmann::json& value, double low, double high) {
  if (!value.is_number()) throw ConfigError(fmt::format("`{}` must be a number, not {}.", name, value.type_name()));
  const double out = value.get<double>();
  if (!(out >= low && out <= high))
    throw ConfigError(fmt::format("`{}` is {}; it must be from {} to {}.", name, out, low, high));
  return out;
}

}  // namespace

JsonFields::JsonFields(const std::string& body) {
  try {
    body_ = nlohmann::json::parse(body);
  } catch (const nlohmann::json::parse_error& error) {
    if (body.empty()) throw ConfigError("the body is not JSON (it is empty).");
    if (error.byte > body.size())
      throw ConfigError(fmt::format("the body is not JSON (its {} bytes end in the middle).", body.size()));
    throw ConfigError(fmt::format("the body is not JSON (at byte {} of {}).", error.byte, body.size()));
  } catch (const nlohmann::json::exception&) {  // a number such as 1e999
    throw ConfigError("the body's JSON has a number that is too large.");
  }
  if (!body_.is_object()) throw ConfigError(fmt::format("the body must be a JSON object, not {}.", body_.type_name()));
}

const nlohmann::json* JsonFields::find(const std::string& name) {
  asked_.insert(name);
  const auto found = body_.find(name);
  return found == body_.end() ? nullptr : &*found;
}

double JsonFields::number(const std::string& name, double low, double high, double otherwise) {
  const nlohmann::json* value = find(name);
  return value ? within(name, *value, low, high) : otherwise;
}

int64_t JsonFields::whole(const std::string& name, int64_t low, int64_t high, int64_t otherwise) {
  const nlohmann::json* value = find(name);
  if (!value) return otherwise;
  if (value->is_number_float()) throw ConfigError(fmt::format("`{}` must be a whole number.", name));
  return int64_t(within(name, *value, double(low), double(high)));
}

bool JsonFields::flag(const std::string& name, bool otherwise) {
  const nlohmann::json* value = find(name);
  if (!value) return otherwise;
  if (!value->is_boolean())
    throw ConfigError(fmt::format("`{}` must be true or false, not {}.", name, value->type_name()));
  return value->get<bool>();
}

std::string JsonFields::choice(const std::string& name, const std::vector<std::string>& choices,
                               const std::string& otherwise) {
  const nlohmann::json* value = find(name);
  if (!value) return otherwise;
  if (!value->is_string() || std::find(choices.begin(), choices.end(), value->get<std::string>()) == choices.end())
    throw ConfigError(fmt::format("`{}` must be one of {}.", name, fmt::join(choices, ", ")));
  return value->get<std::string>();
}

std::string JsonFields::id(const std::string& name) {
  const nlohmann::json* value = find(name);
  const std::string out = value && value->is_string() ? value->get<std::string>() : "";
  const bool fits = std::all_of(out.begin(), out.end(), [](unsigned char c) { return std::isalnum(c) || c == '-'; });
  if (out.size() < 8 || out.size() > 64 || !fits)
    throw ConfigError(fmt::format("`{}` must be text of 8 to 64 letters, digits and dashes.", name));
  return out;
}

std::vector<float> JsonFields::numbers(const std::string& name, size_t count, double low, double high) {
  const nlohmann::json* value = find(name);
  if (!value || !value->is_array()) throw ConfigError(fmt::format("`{}` must be a list of {} numbers.", name, count));
  if (value->size() != count)
    throw ConfigError(fmt::format("`{}` has {} numbers; it must have {}.", name, value->size(), count));
  std::vector<float> out;
  out.reserve(count);
  for (const nlohmann::json& element : *value)
    out.push_back(float(within(fmt::format("{}[{}]", name, out.size()), element, low, high)));
  return out;
}

void JsonFields::no_more() const {
  for (const auto& [name, value] : body_.items())
    if (!asked_.contains(name))
      throw ConfigError(fmt::format("there is no field `{}`; there are: {}.", name, fmt::join(asked_, ", ")));
}

}  // namespace caravan::serve
