// Seeing inside: graphs, shapes, gradients beside their numeric values.
#pragma once

#include <iosfwd>

#include "caravan/runtime/context.h"

namespace caravan {

// Prints one line for each node: number, what it is, its operands, value and gradient of `root` by it.
//     [3] add <- [1; 2]: data=5, grad=3
void print_graph(std::ostream& out, const Tensor& root, Context& ctx, const IndexValues& values = {});
void print_graph(std::ostream& out, const Tensor& root);            // without values
void print_shapes(std::ostream& out, const Program& program);       // prints every tensor with its inferred shape
void print_constraints(std::ostream& out, const Program& program);  // prints the constraints that inference solves
// Prints the program with its shapes, as accumulations.
void print_assignments(std::ostream& out, const Program& program);
// The same as they were when a routine was compiled, with the shapes of the states that the Context had then. A program
// alone may not say them.
void print_shapes(std::ostream& out, const Routine& routine);
void print_constraints(std::ostream& out, const Routine& routine);
void print_assignments(std::ostream& out, const Routine& routine);
std::string graphviz(const Tensor& root);  // the graph as text for `dot -Tsvg`
// The same with the axes, the value and the gradient of `root` in each box.
std::string graphviz(const Tensor& root, Context& ctx, const IndexValues& values = {});
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);    // prints what a tensor is, not its value
std::ostream& operator<<(std::ostream& out, const Program& program);  // its assignments, unsolved: `w := w - ..`

// Gradients compared with differences.
struct GradientCheck {
  // One element of one parameter.
  struct Element {
    std::string parameter;                        // its name
    int64_t index = 0;                            // of the element, in memory order
    double numeric = 0, analytic = 0, error = 0;  // error: |numeric - analytic| / max(1, |numeric|, |analytic|)
  };
  std::vector<Element> elements;                                             // all that were compared
  double worst = 0;                                                          // the largest error among them
  bool passed(double tolerance = 1e-6) const { return worst <= tolerance; }  // whether no error is above the tolerance
};
std::ostream& operator<<(std::ostream& out, const GradientCheck& check);  // prints both side by side

// How finely and how much is compared.
struct CheckOptions {
  double step = 1e-3;              // the distance of the five points of a difference; its error is O(step^4)
  int64_t max_per_parameter = 64;  // the largest number of elements that are compared, evenly spread
  IndexValues indices{};           // at which the loss is computed
};
// Compares grad(loss, parameters) with differences of loss. Parameters are put back as they were.
GradientCheck check_gradients(const Tensor& loss, const std::vector<Tensor>& parameters, Context& ctx,
                              const CheckOptions& options = {});

}  // namespace caravan
