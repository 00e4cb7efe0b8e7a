// caravan gradcheck: the shared list of gradient checks as a table, one row a family.
#include "caravan/check/gradcheck.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/progress.h"
#include "caravan/base/error.h"

namespace caravan::app {

namespace {

bool matches(const GradientCase& c, const std::string& filter) {
  return to_string(c).find(filter) != std::string::npos;
}

std::vector<GradientCase> selected(const std::vector<std::string>& filters) {
  std::vector<GradientCase> all = gradient_cases(), out;
  for (const std::string& filter : filters) {
    bool found = false;
    for (const GradientCase& c : all) found = found || matches(c, filter);
    if (!found)
      throw ConfigError(fmt::format(
          "no gradient check matches `{}`; `caravan gradcheck` without a filter lists the families.", filter));
  }
  for (GradientCase& c : all) {
    bool wanted = filters.empty();
    for (const std::string& filter : filters) wanted = wanted || matches(c, filter);
    if (wanted) out.push_back(std::move(c));
  }
  return out;
}

double worse(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

// One line of the table: the results of one family.
struct Family {
  std::string name;
  int cases = 0;
  int64_t elements = 0;
  std::optional<double> worst[2] = {};  // by order
  std::string failures{};

  void add(const CaseResult& r) {
    ++cases;
    elements += r.checked;
    std::optional<double>& of_order = worst[r.order - 1];
    of_order = worse(of_order.value_or(0), r.worst);
    if (!r.passed)
      failures += fmt::format("    FAILED {}, order {}: {}\n", r.name, r.order,
                              r.refusal.empty() ? fmt::format("error {:.2e}", r.worst) : r.refusal);
  }
  static std::string text(const std::optional<double>& error) {
    return !error ? "-" : *error == 0 ? "0" : fmt::format("{:.1e}", *error);
  }
  std::string line() const {
    return fmt::format("{:<20} {:>5} {:>8} {:>10} {:>10}\n{}", name, cases, elements, text(worst[0]), text(worst[1]),
                       failures);
  }
};

}  // namespace

int gradcheck_command(const GradcheckOptions& options) {
  const std::vector<GradientCase> cases = selected(options.filters);
  const auto start = std::chrono::steady_clock::now();
  int64_t failed = 0, elements = 0;
  double worst = 0;
  nlohmann::json failures = nlohmann::json::array();
  std::ostream nowhere(nullptr);

  std::ostream& out = options.json ? nowhere : std::cout;
  out << fmt::format("{:<20} {:>5} {:>8} {:>10} {:>10}\n", "family", "cases", "elements", "order 1", "order 2");
  Progress bar(int64_t(cases.size()), {.json = options.json});
  Family family;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (family.name != cases[i].family) family = {.name = cases[i].family};
    const CaseResult r = run(cases[i]);
    family.add(r);
    elements += r.checked;
    worst = worse(worst, r.worst);
    if (!r.passed) ++failed, failures.push_back(to_string(cases[i]));
    if (i + 1 == cases.size() || cases[i + 1].family != family.name) {
      bar.clear();
      out << family.line();
    }
    bar.at(int64_t(i + 1), {cases[i].family});
  }
  bar.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out << fmt::format("checked {}, failed {}, worst {:.2e}\n", cases.size(), failed, worst);
  if (options.json)
    std::cout << json_line({{"checked", cases.size()},
                            {"failed", failed},
                            {"worst", worst},
                            {"elements", elements},
                            {"seconds", seconds},
                            {"failures", failures}});
  return failed == 0 ? kDone : kCheckFailed;
}

}  // namespace caravan::app
