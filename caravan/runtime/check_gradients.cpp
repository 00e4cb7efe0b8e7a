#include "caravan/runtime/check_gradients.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "caravan/autodiff/grad.h"
#include "caravan/tensor/graph.h"

namespace caravan {

GradientCheck check_gradients(const Tensor& loss, const std::vector<Tensor>& params, Context& ctx,
                              const CheckOptions& options) {
  std::vector<Tensor> gradients = grad(loss, params, {.allow_unused = true});
  ctx.compile(observe(params) & observe(loss));  // parameters that the loss does not read exist too
  Routine forward = ctx.compile(observe(loss)), backward = ctx.compile(observe(gradients));
  backward.run(options.indices);
  auto total = [&] {
    forward.run(options.indices);
    double out = 0;
    for (double v : forward.read(loss).values()) out += v;  // a loss of many elements counts as their sum, as in grad
    return out;
  };
  GradientCheck out;
  for (size_t p = 0; p < params.size(); ++p) {
    const Array before = ctx.read(params[p]), analytic = backward.read(gradients[p]);
    struct PutBack {  // whatever happens
      Context& ctx;
      const Tensor& parameter;
      const Array& value;
      ~PutBack() { ctx.write(parameter, value); }
    } put_back{ctx, params[p], before};
    int64_t n = before.size(),
            stride = std::max<int64_t>(1, (n + options.max_per_parameter - 1) / options.max_per_parameter);
    for (int64_t i = 0; i < n; i += stride) {
      double x = before.at(i), h = options.step * std::max(1.0, std::abs(x));
      auto at = [&](double value) {
        Array moved = before;
        moved.set(i, value);
        ctx.write(params[p], moved);
        return total();
      };
      GradientCheck::Element e{params[p].node().label, i, 0, analytic.at(i), 0};
      e.numeric = (8 * (at(x + h) - at(x - h)) - (at(x + 2 * h) - at(x - 2 * h))) / (12 * h);
      e.error = std::abs(e.numeric - e.analytic) / std::max({1.0, std::abs(e.numeric), std::abs(e.analytic)});
      if (!std::isnan(out.worst) && !(e.error <= out.worst)) out.worst = e.error;  // NaN is the worst of all
      out.elements.push_back(e);
    }
  }
  return out;
}

std::ostream& operator<<(std::ostream& stream, const GradientCheck& check) {
  std::ostringstream out;  // leaves the stream's flags alone
  out << "parameter          index        numeric       analytic     error\n";
  for (const auto& e : check.elements)
    out << std::left << std::setw(16) << e.parameter << std::right << std::setw(8) << e.index << std::setw(15)
        << std::setprecision(8) << e.numeric << std::setw(15) << e.analytic << std::setw(10) << std::setprecision(2)
        << e.error << '\n';
  out << "worst error " << std::setprecision(3) << check.worst << '\n';
  return stream << out.str();
}

}  // namespace caravan
