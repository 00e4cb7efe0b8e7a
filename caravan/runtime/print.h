// Prints what there is before a program runs: graphs, shapes, constraints, assignments.
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

}  // namespace caravan
