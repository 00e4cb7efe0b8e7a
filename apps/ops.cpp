// caravan ops: the op table for people and programs.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/terminal.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/names.h"
#include "caravan/base/printable.h"
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

std::string line(const char* key, const std::string& text) {
  constexpr int kIndent = 15;
  return fmt::format("  {:<12} {}\n", key, indented(wrapped(text, output_screen().width - kIndent), kIndent));
}

// An op as formulas.
std::string text_of(const OpRow& row) {
  constexpr const char* kOperands = "abc";
  std::string operands;
  for (int k = 0; k < row.arity; ++k) add_to_list(operands, std::string(1, kOperands[k]));
  std::string out = fmt::format("op {0}: y = {0}({1})\n  {2}\n\n", row.name, operands, row.doc);
  if (!row.infix.empty()) out += line("written", fmt::format("a {} b", row.infix));
  if (!row.function.empty() && row.function != row.name)
    out += line("in C++", fmt::format("{}({})", row.function, operands));
  out += line("in C", std::string(row.c));
  if (!row.c_integer.empty()) out += line("of integers", std::string(row.c_integer));
  out += line("gives", text_of(row.result));
  for (int k = 0; k < row.arity; ++k)
    out += line(k == 0 ? "gradient" : "", fmt::format("d{} = {}", kOperands[k], row.pullback[size_t(k)]));
  out += line("", "where g is the gradient of y");
  std::string facts;
  if (row.commutative) add_to_list(facts, fmt::format("{0}(a, b) = {0}(b, a)", row.name));
  if (row.associative) add_to_list(facts, "associative");
  if (row.idempotent)
    add_to_list(facts,
                row.arity == 1 ? fmt::format("{0}({0}(a)) = {0}(a)", row.name) : fmt::format("{}(a, a) = a", row.name));
  if (row.neutral) add_to_list(facts, fmt::format("{}(a, {}) = a", row.name, *row.neutral));
  if (row.monotone != 0) add_to_list(facts, row.monotone > 0 ? "never falls" : "never rises");
  if (row.zero_preserving) add_to_list(facts, fmt::format("{}(0{}) = 0", row.name, operands.substr(1)));
  if (!facts.empty()) out += line("facts", facts);
  std::string tried, kinks;
  for (int k = 0; k < row.arity; ++k)
    add_to_list(tried,
                fmt::format("{} in [{}, {}]", kOperands[k], row.domain[size_t(k)].low, row.domain[size_t(k)].high));
  for (const std::optional<double>& kink : row.avoid)
    if (kink) add_to_list(kinks, fmt::format("{}", *kink));
  return out + line("checked for", tried + (kinks.empty() ? "" : ", away from " + kinks));
}

std::string text_of(const AccumulatorRow& row) {
  std::string out = fmt::format("accumulator {}: y {} ..\n  {}\n\n", row.name, row.symbol, row.doc);
  out += line("starts with", fmt::format("{}", row.neutral));
  out += line("gradient", std::string(row.gradient));
  for (const AccumulatorRow::Auxiliary& a : row.auxiliaries)
    if (!a.accumulator.empty()) out += line("needs", fmt::format("{} of {}", a.accumulator, a.body));
  if (!row.refuse_second.empty()) out += line("once only", std::string(row.refuse_second));
  return out;
}

void show_one(const OpsOptions& options) {
  Json found = Json::object();
  std::string text;
  std::vector<std::string> known;
  for (const OpRow& row : op_rows()) {
    known.emplace_back(row.name);
    if (row.name == options.name) found["op"] = to_json(row), text += text_of(row);
  }
  for (const AccumulatorRow& row : accumulator_rows())
    if (row.name == options.name)
      found["accumulator"] = to_json(row), text += (text.empty() ? "" : "\n") + text_of(row);
  if (found.empty()) {
    const std::string meant = nearest(options.name, known);
    throw ConfigError(
        fmt::format("there is no op or accumulator `{}`; {}", printable(options.name),
                    meant.empty() ? "`caravan ops` lists them." : fmt::format("did you mean `{}`?", meant)));
  }
  std::cout << (options.json ? json_line(found) : text);
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
    std::cout << json_line(out);
    return kDone;
  }
  const int width = output_screen().width;
  auto doc = [&](std::string_view text, int indent) { return indented(wrapped(text, width - indent), indent); };
  std::cout << fmt::format("{:<10} {:<9} {}\n", "op", "operands", "meaning");
  for (const OpRow& row : op_rows())
    std::cout << fmt::format("{:<10} {:<9} {}\n", row.name,
                             std::string_view("a b c").substr(0, size_t(2 * row.arity - 1)), doc(row.doc, 21));
  std::cout << fmt::format("\n{:<11} {:<9} {}\n", "accumulator", "symbol", "meaning");
  for (const AccumulatorRow& row : accumulator_rows())
    std::cout << fmt::format("{:<11} {:<9} {}\n", row.name, row.symbol, doc(row.doc, 22));
  return kDone;
}

}  // namespace caravan::app
