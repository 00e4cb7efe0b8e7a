// The graph behind the handles. A node is immutable; a graph a million nodes deep is built and dropped without
// recursion.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "caravan/base/match.h"
#include "caravan/ir/body.h"
#include "caravan/shape/relation.h"
#include "caravan/tensor/call.h"
#include "caravan/tensor/tensor.h"

namespace caravan {

// What a Dim is: a variable of inference, and the tensor whose spec first captured it (or a number).
struct Dim::State {
  std::shared_ptr<shape::DimVariable> variable;
  Tensor source;
  int64_t size = -1;
};

// One use of a relation. All nodes of one link (an operation and its gradients) share rows and iterators.
struct Link {
  shape::RelationRef relation;
  Source where;
  CallRef call{};  // of the library, if the user did not write the operation itself
};

// Who keeps a state for its own use, as an optimiser keeps its moments. Two that meet at one state would change it
// behind each other's back, so that is refused (check_owner), unless they are one by `shared_as`.
struct StateOwner {
  std::string name;       // what Context::reset calls it: an optimiser's .name, or else its kind, `adam`
  std::string shared_as;  // owners of one text here share their states on purpose; empty: with nobody
  std::string to_share;   // for the message: what the user writes to share them
  Source where;
};
using StateOwnerRef = std::shared_ptr<const StateOwner>;
bool same_owner(const StateOwnerRef& a, const StateOwnerRef& b);
// Refuses, naming both lines and the ways out, if both are owners and not the same one.
void check_owner(const std::string& state, const StateOwnerRef& has, const StateOwnerRef& wants);

struct StateNode {  // a parameter, a moment, a running mean, an input buffer
  std::string name;
  bool parameter = false;
  GivenRow batch, input, output;
  Tensor like;  // if defined, the shape is this tensor's
  Init init;
  StateOwnerRef owner{};  // null: whoever names it
};
struct DataNode {
  Array array;
};
struct NumberNode {
  double value = 0;
  bool tunable = false;  // data of a compiled program, not a constant of its text
};
struct IndexNode {
  shape::SymbolRef symbol;
};
struct SizeNode {
  shape::DimRef dim;
};  // a captured size; Node::shape_operands holds the tensor that captures it, if known
struct IotaNode {
  GivenRow output;
};
struct RandomNode {
  std::string stream;
  int lane = 0, width = 32;
  GivenRow batch, input, output;
  Tensor like, step;
  std::shared_ptr<const Source> call;  // shared by the leaves of one draw
};
struct AccumulateNode {
  std::shared_ptr<const Link> link;
  int clause = 0, written = 0;  // which clause of the relation, which of its slots
  Accumulator accumulator{};
  bool counts_reduced = false;  // argmax, argmin: count the reduced iterators only
  std::shared_ptr<const ir::Body> body;
  struct Attached {
    Tensor tensor;
    int slot = 0;
  };
  std::vector<Attached> operands;  // those the body does not read give their shape alone
};
using NodeKind =
    std::variant<StateNode, DataNode, NumberNode, IndexNode, SizeNode, IotaNode, RandomNode, AccumulateNode>;

// What a node's cotangent g gives to `inputs`, in place of differentiating the node. Empty inputs: nothing flows.
// The rule is handed the inputs, since a substitution may have replaced them.
struct CustomGradient {
  std::vector<Tensor> inputs;
  std::function<std::vector<Tensor>(const Tensor& g, const std::vector<Tensor>& inputs)> rule;
};

// A tensor of many elements is refused: "`train_step` (main.cpp:9): the loss is `4|1`, but must be one number: .."
struct MustBeNumber {
  int operand = -1;  // which of the node's; -1: the node itself
  std::string call, what, advice;
  Source where;
};

// An axis of a tensor is divided over devices (`place`).
struct PlacedAxis {
  std::string mesh_axis;
  RowKind row = RowKind::batch;
  size_t axis = 0;  // in its row
  Source where;
};

struct Node {
  NodeKind kind;
  DType dtype = DType::f32;
  bool weak = false;   // a C++ number: takes the precision of what it meets
  std::string label;   // a name, an op or "einsum"
  bool named = false;  // the label says it better than the operation
  Source where;
  std::vector<Tensor> shape_operands;  // needed to know sizes, never for values
  std::shared_ptr<const CustomGradient> custom;
  std::vector<PlacedAxis> placed;              // what `place` asked for
  std::shared_ptr<const MustBeNumber> number;  // what is to be checked when shapes are known; null: nothing

  Node() = default;
  Node(const Node&) = default;  // shares operands
  ~Node();

  const AccumulateNode* accumulate() const { return std::get_if<AccumulateNode>(&kind); }
  const StateNode* state() const { return std::get_if<StateNode>(&kind); }
};

// Every tensor a node refers to: operands read or not, steps, shapes, inputs of custom gradients.
void for_each_child(const Node& node, const std::function<void(const Tensor&)>& visit);
// Only those whose values the node needs.
void for_each_read(const Node& node, const std::function<void(const Tensor&)>& visit);

// Children first; each node once. Without recursion.
std::vector<Tensor> topological(const std::vector<Tensor>& roots, bool values_only);

[[noreturn]] void refuse_undefined(Source where);  // a Tensor that stands for nothing

// --- making nodes ---
Tensor make(NodeKind kind, DType dtype, std::string label, Source where);
// An operation over a new link: operand i in slot i, the relation's result slot written. The precision is inferred from
// the body.
Tensor make_accumulate(std::shared_ptr<const Link> link, int clause, Accumulator accumulator,
                       std::shared_ptr<const ir::Body> body, std::vector<AccumulateNode::Attached> operands,
                       int written, std::string label, Source where, std::optional<DType> dtype = std::nullopt);

// The same where each element is written once, so that the precision is the body's: comparisons stay bool, bytes stay
// bytes.
Tensor make_store(std::shared_ptr<const Link> link, int clause, std::shared_ptr<const ir::Body> body,
                  std::vector<AccumulateNode::Attached> operands, int written, std::string label, Source where);
// The tensor with another slice at the position `at` of one of its axes, which is `axis` in the spec `whole_axes`;
// `slice_axes` are all others: with_slice(cache, at, key, "n", "... | d", "n, ... | d"). The index must have a range;
// or `bound` is the old slice, cache[at], which fits the index to the axis.
Tensor with_slice(const Tensor& whole, const Index& at, Operand slice, const std::string& axis,
                  const std::string& slice_axes, const std::string& whole_axes, const Tensor& bound = {});

Tensor pointwise(Op op, const std::vector<Operand>& operands);  // with broadcasting
// The op folded over tensors of equal shapes, without broadcasting: partial results, sums of cotangents.
Tensor fold_same(Op op, const std::vector<Tensor>& parts, std::string label, Source where);
Tensor add_same(const std::vector<Tensor>& parts, std::string label, Source where);
// A constant of the shape of a tensor whose value is not read.
Tensor constant_like(const Tensor& shape, double value, DType dtype, std::string label, Source where);
Tensor with_check(const Tensor& tensor, MustBeNumber check);  // the same value; a new node
// add-accumulation of the op over a spec.
Tensor accumulate(Op op, SpecRef spec, const std::vector<Operand>& operands, const Bindings& bindings);

// Do both have the same value in every run, as far as their graphs tell? For scalars such as the step of a random draw.
bool same_value(const Tensor& a, const Tensor& b);

// Which operands does the node need the values of? By operand; index tensors of slots in use included.
std::vector<bool> values_needed(const AccumulateNode& node);

// The same value; gradients are those of the rule.
Tensor with_gradient(Operand value, CustomGradient gradient, std::string label);

}  // namespace caravan
