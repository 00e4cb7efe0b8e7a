#include "caravan/check/gradcheck.h"

#include "caravan/autodiff/grad.h"
#include "caravan/base/error.h"
#include "caravan/runtime/check_gradients.h"

namespace caravan {

namespace {

Tensor weighted(const Tensor& y, const std::string& stream) { return dot(y, normal(stream, {.like = y, .step = 0})); }

// The scalar whose gradient is compared.
Tensor scalar_of(const Tensor& result, const std::vector<Tensor>& by, int order) {
  Tensor first = weighted(result, "weights");
  if (order == 1) return first;
  std::vector<Tensor> gradients = grad(first, by, {.allow_unused = true});
  Tensor second;
  for (size_t k = 0; k < by.size(); ++k) {
    Tensor part = weighted(gradients[k], "direction " + std::to_string(k));
    second = second.defined() ? second + part : part;
  }
  return second;
}

}  // namespace

std::string to_string(const GradientCase& c) { return c.family + ": " + c.name + ", order " + std::to_string(c.order); }

std::vector<GradientCase> gradient_cases() {
  std::vector<GradientCase> out = op_gradient_cases();
  for (GradientCase& c : spec_gradient_cases()) out.push_back(std::move(c));
  for (GradientCase& c : block_gradient_cases()) out.push_back(std::move(c));
  return out;
}

CaseResult run(const GradientCase& c) {
  CaseResult out{c.family, c.name, c.order, 0, 0, false, ""};
  try {
    const GradientCase::Built built = c.build();
    const std::vector<Tensor> by = parameters(built.result);
    Context ctx({.device = "interp"});  // differences need double
    // Initialises also those on which a second derivative does not depend; the result gives inferred ones their shapes.
    ctx.compile(observe(by) & observe(built.result));
    const GradientCheck check =
        check_gradients(scalar_of(built.result, by, c.order), by, ctx, {.indices = built.indices});
    out.checked = int64_t(check.elements.size());
    out.worst = check.worst;
    out.passed = out.checked > 0 && check.passed(kGradientTolerance);
  } catch (const Error& error) {
    out.refusal = error.what();
  }
  return out;
}

}  // namespace caravan
