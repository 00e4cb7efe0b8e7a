// Gradients are ordinary tensors of the same language, of any order, built before any shape is known.
//
// The gradient of an accumulation y[L(i)] (+)= body(a[A(i)], ...) by the operand in slot A is the same relation with
// slot A written:   da[A(i)] += body's pullback of g[L(i)],   where g is the cotangent of y. Nothing is inferred again.
// What differs between accumulators (the winner of a max, the other factors of a product) is in the accumulator's row.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "caravan/tensor/tensor.h"

namespace caravan {

// What is asked for beside the gradient itself.
struct GradOptions {
  bool allow_unused = false;  // zeros for a tensor that y does not depend on; otherwise that is refused
  Tensor cotangent{};         // what the elements of y count for, of y's shape; without it y must be one number
};

// The gradient of y by one tensor, or by several: auto [dx, dy] = grad(loss, x, y). y is one number; for others, write
// grad(sum(y), x), grad(mean(y), x), or give a cotangent.
std::vector<Tensor> grad(const Tensor& y, const std::vector<Tensor>& xs, const GradOptions& options = {},
                         Source where = Source::here());
Tensor grad(const Tensor& y, const Tensor& x, const GradOptions& options = {}, Source where = Source::here());

std::array<Tensor, 2> grad(const Tensor& y, const Tensor& x0, const Tensor& x1, const GradOptions& options = {},
                           Source where = Source::here());
std::array<Tensor, 3> grad(const Tensor& y, const Tensor& x0, const Tensor& x1, const Tensor& x2,
                           const GradOptions& options = {}, Source where = Source::here());
std::array<Tensor, 4> grad(const Tensor& y, const Tensor& x0, const Tensor& x1, const Tensor& x2, const Tensor& x3,
                           const GradOptions& options = {}, Source where = Source::here());

// The parameters that the gradient of y reaches, as parameters(y) orders them.
std::vector<Tensor> reached_parameters(const Tensor& y);

// `u` applied to the Jacobian dy/dx: the shape of x.
Tensor vjp(const Tensor& y, const Tensor& x, const Tensor& u, Source where = Source::here());
// The Jacobian applied to v: the shape of y.
Tensor jvp(const Tensor& y, const Tensor& x, const Tensor& v, Source where = Source::here());
// The Hessian applied to v: the shape of x.
Tensor hvp(const Tensor& loss, const Tensor& x, const Tensor& v, Source where = Source::here());

// A function whose gradient is a rule of the user's: custom_gradient(f, rule)(x...) is f(x...); its cotangent g gives
// rule(g, x...) to the x, a tensor or a std::vector of one per x.
template <class Function, class Rule>
auto custom_gradient(Function f, Rule rule, Source where = Source::here());

// Makes the gradients of all inputs from the cotangent g of a value.
using GradientRule = std::function<std::vector<Tensor>(const Tensor& g, const std::vector<Tensor>& inputs)>;
// What custom_gradient is made of: `value` as it is, whose gradient goes to `inputs` by the rule.
Tensor attach_gradient(Operand value, std::vector<Tensor> inputs, GradientRule rule);

template <class Function, class Rule>
auto custom_gradient(Function f, Rule rule, Source where) {
  return [f, rule, where](const auto&... x) {
    return attach_gradient(Operand(f(x...), where), {x...}, [rule](const Tensor& g, const std::vector<Tensor>& inputs) {
      return [&]<size_t... i>(std::index_sequence<i...>)->std::vector<Tensor> { return {rule(g, inputs[i]...)}; }
      (std::make_index_sequence<sizeof...(x)>());
    });
  };
}

}  // namespace caravan
