// caravan ops: the op table for people and programs.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "caravan/base/error.h"
#include "caravan/ops/op.h"

namespace caravan::app {

namespace {

using Json = nlohmann::ordered_json;

const char* text_of(ResultType type) {
  switch (type) {
    case ResultType::same: return "the operands' precision";
    case ResultType::real: return "a float";
    case ResultType::logic: return "bool";
    case ResultType::select: return "the precision of b and c";
  }
  return "";
}

Json number(double value) {  // JSON has no infinities
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

Json to_json(const OpRow& row) {
  Json out{{"name", row.name}, {"arity", row.arity}, {"doc", row.doc}, {"c", row.c}};
  if (!row.c_integer.empty()) out["c_integer"] = row.c_integer;
  if (!row.infix.empty()) out["infix"] = row.infix;
  if (!row.function.empty()) out["function"] = row.function;
  out["result"] = text_of(row.result);
  for (int k = 0; k < row.arity; ++k) {
    out["pullbacks"].push_back(row.pullback[size_t(k)]);
    out["domain"].push_back({row.domain[size_t(k)].low, row.domain[size_t(k)].high});
  }
  for (const std::optional<double>& kink : row.avoid)
    if (kink) out["avoid"].push_back(*kink);
  out["commutative"] = row.commutative;
  out["associative"] = row.associative;
  out["idempotent"] = row.idempotent;
  if (row.neutral) out["neutral"] = number(*row.neutral);
  out["monotone"] = row.monotone;
  out["zero_preserving"] = row.zero_preserving;
  return out;
}

Json to_json(const AccumulatorRow& row) {
  Json out{{"name", row.name},
           {"symbol", row.symbol},
           {"doc", row.doc},
           {"neutral", number(row.neutral)},
           {"indexed_write", row.indexed_write},
           {"gradient", row.gradient}};
  for (const AccumulatorRow::Auxiliary& a : row.auxiliaries)
    if (!a.accumulator.empty()) out["auxiliaries"].push_back(fmt::format("{} of {}", a.accumulator, a.body));
  if (!row.refuse_second.empty()) out["refuse_second"] = row.refuse_second;
  return out;
}

// Every field on its own line.
std::string lines(const std::string& kind, const Json& row) {
  std::string out = fmt::format("{} {}\n", kind, row["name"].get<std::string>());
  for (const auto& [key, value] : row.items())
    if (key != "name")
      out += fmt::format("  {:<16} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  return out;
}

void show_one(const OpsOptions& options) {
  Json found = Json::object();
  std::string text;
  for (const OpRow& row : op_rows())
    if (row.name == options.name) found["op"] = to_json(row), text += lines("op", found["op"]);
  for (const AccumulatorRow& row : accumulator_rows())
    if (row.name == options.name)
      found["accumulator"] = to_json(row), text += lines("accumulator", found["accumulator"]);
  if (found.empty())
    throw ConfigError(fmt::format("there is no op or accumulator `{}`; `caravan ops` lists them.", options.name));
  std::cout << (options.json ? found.dump() + "\n" : text);
}

}  // namespace

int ops_command(const OpsOptions& options) {
  if (!options.name.empty()) {
    show_one(options);
    return kDone;
  }
  if (options.json) {
    Json out{{"ops", Json::array()}, {"accumulators", Json::array()}};
    for (const OpRow& row : op_rows()) out["ops"].push_back(to_json(row));
    for (const AccumulatorRow& row : accumulator_rows()) out["accumulators"].push_back(to_json(row));
    std::cout << out.dump() << '\n';
    return kDone;
  }
  std::cout << fmt::format("{:<10} {:<9} {}\n", "op", "operands", "meaning");
  for (const OpRow& row : op_rows())
    std::cout << fmt::format("{:<10} {:<9} {}\n", row.name,
                             std::string_view("a b c").substr(0, size_t(2 * row.arity - 1)), row.doc);
  std::cout << fmt::format("\n{:<10} {:<9} {}\n", "accumulator", "symbol", "meaning");
  for (const AccumulatorRow& row : accumulator_rows())
    std::cout << fmt::format("{:<11} {:<9} {}\n", row.name, row.symbol, row.doc);
  return kDone;
}

}  // namespace caravan::app
