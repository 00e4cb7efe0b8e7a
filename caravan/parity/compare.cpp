#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "caravan/base/error.h"
#include "caravan/data/json_text.h"
#include "caravan/parity/parity.h"

namespace caravan::parity {

namespace {

constexpr double kTiny = 1e-6;  // below it a tensor has no scale of its own

// The kinds of results in the order of a report, with the largest difference of each.
struct Kind {
  std::string prefix;
  double limit;
};
const Kind kKinds[] = {
    {"losses", 1e-4}, {"grad.", 1e-4}, {"final.", 2e-3}, {"final_buffer.", 2e-3}, {"eval_output", 2e-3}};

const Kind& kind_of(const std::string& name) {
  for (const Kind& kind : kKinds)
    if (name.starts_with(kind.prefix)) return kind;
  throw InternalError("there is no limit for the result `" + name + "`");
}

// The largest magnitude; NaN if there is one.
template <class Magnitude>
double largest(int64_t size, const Magnitude& magnitude) {
  double out = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double value = std::fabs(magnitude(i));
    if (std::isnan(value)) return value;
    out = std::max(out, value);
  }
  return out;
}

double scale(const Array& theirs) {
  const double out = largest(theirs.size(), [&](int64_t i) { return theirs.at(i); });
  return out < kTiny ? 1 : out;
}

}  // namespace

Difference difference(const std::string& name, const Array& ours, const Array& theirs) {
  const double absolute = largest(theirs.size(), [&](int64_t i) { return ours.at(i) - theirs.at(i); });
  return {name, absolute, absolute / scale(theirs), kind_of(name).limit};
}

bool Report::passed() const {
  return std::all_of(differences.begin(), differences.end(), [](const Difference& d) { return d.passed(); });
}

double Report::worst() const {
  double out = 0;
  for (const Difference& d : differences)
    if (const double share = d.relative / d.limit; !std::isnan(out) && !(share <= out))
      out = share;  // NaN is the worst
  return out;
}

Report compare(const Arrays& ours, const Arrays& theirs) {
  for (const auto& [name, unused] : theirs)
    if (!ours.count(name)) throw ConfigError(fmt::format("the model has no {}.", data::shown(name)));
  Report out;
  for (const Kind& kind : kKinds) {
    for (const auto& [name, a] : ours) {
      if (&kind_of(name) != &kind) continue;
      const auto b = theirs.find(name);
      if (b == theirs.end())
        throw ConfigError(fmt::format("it has no tensor `{}`, so nothing can be compared with it.", name));
      if (a.shape().sizes() != b->second.shape().sizes())
        throw ConfigError(fmt::format("`{}` has the shape [{}], but the model gives [{}].", name,
                                      fmt::join(b->second.shape().sizes(), ", "), fmt::join(a.shape().sizes(), ", ")));
      out.differences.push_back(difference(name, a, b->second));
    }
  }
  const Array &a = ours.at("losses"), &b = theirs.at("losses");
  double largest = 0;  // of the finite ones
  for (double v : b.values())
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  const double allowed = kind_of("losses").limit * (largest < 1e-6 ? 1 : largest);
  for (int64_t step = 0; step < a.size() && !out.losses_part_at; ++step) {
    const double ours_now = a.at(step), theirs_now = b.at(step);
    const bool same = ours_now == theirs_now || (std::isnan(ours_now) && std::isnan(theirs_now));
    if (!same && !(std::fabs(ours_now - theirs_now) <= allowed)) out.losses_part_at = step;
  }
  return out;
}

}  // namespace caravan::parity
