// Shape inference of a graph: constraints from everything reachable, solved as one system. The result is a table.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "caravan/ir/program.h"
#include "caravan/shape/project.h"
#include "caravan/tensor/graph.h"
#include "caravan/tensor/program.h"

namespace caravan {

using KnownShapes = std::map<std::string, Shape>;  // of states that exist already, by name

class Inference {
 public:
  // Everything reachable from the program's assignments and observed tensors. Throws ShapeError; changes nothing.
  explicit Inference(const Program& program, const KnownShapes& known = {});

  const std::vector<Tensor>& order() const { return order_; }      // children first
  const std::vector<Tensor>& results() const { return results_; }  // what the program observes and assigns
  Shape shape(const Tensor& tensor) const;
  shape::Projection projection(const AccumulateNode& node) const;
  int64_t size(const shape::DimRef& dim) const;
  const shape::System& system() const { return system_; }
  const shape::Solution& solution() const { return solution_; }

 private:
  Inference(const Program& program, const KnownShapes& known, bool explain);
  shape::OriginId add_origin(std::string text, const Link& link);
  // What does not fit as the call that the user wrote says it; empty where it has nothing to add.
  std::string in_words_of_the_call(const shape::MisfitError& error, const KnownShapes& known) const;
  // Refuses what must be one number and is not (MustBeNumber).
  void check_numbers(const std::function<std::optional<Shape>(const Tensor&)>& shape_of) const;
  // Of a tensor without the rest of the program; none where that does not tell.
  static std::optional<Shape> shape_alone(const Tensor& tensor, const KnownShapes& known);

  using Rows = std::array<shape::RowId, 3>;
  Rows rows_of(const Tensor& tensor) const { return rows_.at(&tensor.node()); }
  void add(const Tensor& tensor, const KnownShapes& known);
  void add_given(const Rows& rows, RowKind kind, const GivenRow& given, shape::OriginId origin);
  shape::Role role(const Node& node) const;

  std::vector<Tensor> order_, results_;
  std::unordered_map<const Node*, Rows> rows_;
  std::unordered_map<const Node*, shape::Role> roles_;
  std::unordered_map<const Link*, shape::Instance> instances_;
  shape::System system_;
  std::unordered_map<shape::OriginId, CallRef> calls_;  // of operations that a call of the library made
  shape::Solution solution_;
};

// The solved program: assignments over buffers. `tensors`, if given, receives the tensor of each buffer.
ir::Program to_ir(const Program& program, const Inference& inference, std::vector<Tensor>* tensors = nullptr);

// What the node computes, for messages and listings: "w1(x)", "x + y", "relu(..)", a spec.
std::string describe(const Tensor& tensor);
std::string short_name(const Tensor& tensor);  // a name, or the op's

}  // namespace caravan
