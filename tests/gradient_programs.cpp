#include "gradient_programs.h"

#include "caravan/check/draw.h"
#include "caravan/check/gradcheck.h"

namespace caravan {

namespace {

struct Case {
  std::string name;
  GradientCase::Built built;
  int order;
};
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const GradientCase& c : gradient_cases()) {
    const std::string name = c.family + ": " + c.name;
    if (out.empty() || out.back().name != name) out.push_back({name, c.build(), c.order});
    out.back().order = std::max(out.back().order, c.order);
  }
  return out;
}
Tensor weighted(const Tensor& y, const std::string& name) {
  return dot(y, tensor(drawn(name, to_string(Context({.device = "interp"}).shape(y)))));
}
Program value_and_gradients(const Case& c) {
  const std::vector<Tensor> by = parameters(c.built.result);
  std::vector<Tensor> seen = {c.built.result};
  const std::vector<Tensor> first = grad(weighted(c.built.result, "weights"), by, {.allow_unused = true});
  seen.insert(seen.end(), first.begin(), first.end());
  if (c.order == 2) {
    Tensor total = number(0, DType::f64);
    for (size_t k = 0; k < by.size(); ++k) total = total + weighted(first[k], "direction " + std::to_string(k));
    for (const Tensor& t : grad(total, by, {.allow_unused = true})) seen.push_back(t);
  }
  return observe(seen);
}

}  // namespace

std::vector<GradientProgram> gradient_programs() {
  std::vector<GradientProgram> out;
  for (const Case& c : cases()) out.push_back({c.name, value_and_gradients(c), c.built.indices});
  return out;
}

}  // namespace caravan
