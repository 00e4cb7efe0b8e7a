// Tensors: cheap handles on immutable nodes of a graph. Building computes nothing and knows no sizes.
//
//     Tensor x = param("x", 2.0), y = param("y", 3.0);
//     Tensor z = (x + y) * y;
//
// `+ - * /` and functions are pointwise, `w(x)` applies a linear map, `einsum` does the rest.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "caravan/array/array.h"
#include "caravan/base/handle.h"
#include "caravan/tensor/spec.h"

namespace caravan {

namespace shape {
struct Symbol;
}
struct Node;
class Operand;
class Index;

// A value that a program will compute; a cheap handle on a node of a graph.
class Tensor {
 public:
  Tensor() = default;  // stands for nothing; using it is refused
  explicit Tensor(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  // A constant; the line is where the array became one.
  Tensor(const Array& array, const char* file = __builtin_FILE(), int line = __builtin_LINE());

  // w(x), a linear map applied: contracts w's input axes with x's output axes.
  Tensor operator()(Operand x) const;
  Tensor operator[](const struct IndexHere& index) const;  // one position of the leftmost batch axis, which goes
  Tensor batches(int64_t size, Source where = Source::here()) const;  // the leftmost batch axis n becomes n/size, size
  Tensor named(std::string label) const;                              // the same value under a name that dumps show

  bool defined() const { return node_ != nullptr; }  // whether it stands for something
  // The node that it stands for; refused if there is none.
  const Node& node() const;
  const std::shared_ptr<const Node>& handle() const { return node_; }  // the node, shared; null if undefined
  DType dtype() const;                                                 // the precision of its elements
  const std::string& name() const;  // the name of a parameter or state; for others what listings call them
  bool same_as(const Tensor& other) const { return node_ == other.node_; }  // whether both are one node

 private:
  std::shared_ptr<const Node> node_;
};

// A static index: a number bound at each run, usable as a number and to slice batch axes.
class Index {
 public:
  explicit Index(std::string name, int64_t range = 0, Source where = Source::here());
  const std::string& name() const;  // as given
  int64_t range() const;            // values are 0 .. range - 1; a range of 0 allows any value from 0 on
  // What specs and programs know it by.
  const std::shared_ptr<const shape::Symbol>& symbol() const { return symbol_.shared(); }

 private:
  Handle<const shape::Symbol> symbol_;
};

// An index and the line where it is used.
struct IndexHere {
  IndexHere(const Index& index, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : index(index), where(Source::here(file, line)) {}
  Index index;   // the index
  Source where;  // the line
};

// A size captured from a spec, then usable as a number and as an extent.
class Dim {
 public:
  Dim();
  Dim(int64_t size);  // a size that is known already
  struct State;
  const std::shared_ptr<State>& state() const { return state_.shared(); }  // what copies of it share

 private:
  Handle<State> state_;
};

// An operand of an operation: a tensor or something that becomes one, and the line where it was written.
// (A template, so that a braced list of bindings never looks like an operand.)
template <class T>
concept Operandable = std::is_arithmetic_v<T> || std::is_same_v<T, Tensor> || std::is_same_v<T, Index> ||
    std::is_same_v<T, Dim> || std::is_same_v<T, Array>;

// What operators and functions take: a tensor, a number, an Index, a Dim or an Array.
class Operand {
 public:
  template <Operandable T>
  Operand(const T& value, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : Operand(value, Source::here(file, line)) {}
  template <Operandable T>
  Operand(const T& value, Source source) : where(source) {
    if constexpr (std::is_arithmetic_v<T>)
      set_number(double(value), std::is_integral_v<T>);
    else
      set(value);
  }

  Tensor tensor;  // the operand as a tensor
  Source where;   // the line

 private:
  void set_number(double value, bool integral);
  void set(const Tensor& value);
  void set(const Index& value);
  void set(const Dim& value);
  void set(const Array& value);
};

// An operand of options that may be left out: a std::optional<Operand> that knows the line where it was written.
class OptionalOperand : public std::optional<Operand> {
 public:
  OptionalOperand() = default;
  OptionalOperand(std::nullopt_t) {}
  OptionalOperand(const Operand& operand) : std::optional<Operand>(operand) {}
  template <Operandable T>
  OptionalOperand(const T& value, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : std::optional<Operand>(Operand(value, file, line)) {}
};

// What a call adds to a spec: {"h", 8} binds, {"d", dim} captures, {"a", "b"} equates, {"f", times(4, "c")} relates,
// {"j <= i"} restricts the points that count.
struct Times {
  int64_t factor;    // how many times as large
  std::string name;  // the axis that is multiplied, if by_name
  Dim dim;           // the size that is multiplied, otherwise
  bool by_name;      // which of the two
};
Times times(int64_t factor, std::string name);  // a size that is `factor` times another
Times times(int64_t factor, const Dim& dim);

// One entry of Bindings.
struct BindingArgument {
  template <class Number>
  requires std::is_integral_v<Number> BindingArgument(std::string name, Number size)
      : name(std::move(name)), kind(Kind::size), size(int64_t(size)) {}
  BindingArgument(std::string name, const Dim& dim) : name(std::move(name)), kind(Kind::dim), dim(dim) {}
  BindingArgument(std::string name, const char* same) : name(std::move(name)), kind(Kind::same), other(same) {}
  BindingArgument(std::string name, const Times& times)
      : name(std::move(name)),
        kind(times.by_name ? Kind::multiple : Kind::multiple_dim),
        size(times.factor),
        other(times.name),
        dim(times.dim) {}
  BindingArgument(const char* condition) : name(condition), kind(Kind::condition) {}

  enum class Kind : uint8_t { size, dim, same, multiple, multiple_dim, condition };  // what is said of the name
  std::string name;                                                                  // the axis, or the condition
  Kind kind;                                                                         // which of the fields below counts
  int64_t size = 0;     // its size, or the factor of a multiple
  std::string other;    // the axis that it equals or is a multiple of
  Dim dim{int64_t(0)};  // the size that is captured or multiplied
};

// A list such as {{"h", 8}, {"d", dim}}.
class Bindings {
 public:
  Bindings() = default;
  Bindings(std::initializer_list<BindingArgument> list) : list(list) {}
  std::vector<BindingArgument> list;  // in the order of writing
};

// --- operators ---
Tensor operator+(Operand a, Operand b);  // a plus b, element by element
Tensor operator-(Operand a, Operand b);  // a minus b, element by element; -a
Tensor operator*(Operand a, Operand b);  // a times b, element by element; matrix products are w(x) or einsum
Tensor operator/(Operand a, Operand b);  // a divided by b, element by element; of integers as f32
Tensor operator-(Operand a);
Tensor operator<(Operand a, Operand b);   // comparisons give bool, element by element
Tensor operator<=(Operand a, Operand b);  // true where a is at most b
Tensor operator>(Operand a, Operand b);   // true where a is above b
Tensor operator>=(Operand a, Operand b);  // true where a is at least b
Tensor operator==(Operand a, Operand b);  // true where both are equal; Tensor::same_as compares handles
Tensor operator!=(Operand a, Operand b);  // true where they differ
Tensor operator&&(Operand a, Operand b);  // true where both are not 0
Tensor operator||(Operand a, Operand b);  // true where one is not 0
Tensor operator!(Operand a);              // true where a is 0
Tensor cast(Operand a, DType dtype);      // the elements in another precision (rule 5 of ops/dtype.h)

// --- the einsum family: what is accumulated, and how ---
// The sum of products over all axes that the result lacks.
Tensor einsum(Spec<1> spec, Operand a, const Bindings& bindings = {});
Tensor einsum(Spec<2> spec, Operand a, Operand b, const Bindings& bindings = {});
Tensor einsum(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings = {});
Tensor einmax(Spec<1> spec, Operand a, const Bindings& bindings = {});  // the largest of the products, likewise
Tensor einmax(Spec<2> spec, Operand a, Operand b, const Bindings& bindings = {});
Tensor einmax(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings = {});
Tensor einmin(Spec<1> spec, Operand a, const Bindings& bindings = {});  // the smallest of the products, likewise
Tensor einmin(Spec<2> spec, Operand a, Operand b, const Bindings& bindings = {});
Tensor einmin(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings = {});
// The product of the elements, likewise.
Tensor einprod(Spec<1> spec, Operand a, const Bindings& bindings = {});
// Whether any element is not 0, likewise.
Tensor einany(Spec<1> spec, Operand a, const Bindings& bindings = {});
// Whether all elements are not 0, likewise.
Tensor einall(Spec<1> spec, Operand a, const Bindings& bindings = {});
// The largest of the sums a + b, likewise.
Tensor tropical(Spec<2> spec, Operand a, Operand b, const Bindings& bindings = {});
Tensor outer_sum(Spec<2> spec, Operand a, Operand b, const Bindings& bindings = {});  // the sum of a + b, likewise
// The position of the largest element among the reduced axes, counted row by row; the first of equals.
Tensor argmax(Spec<1> spec, Operand a, const Bindings& bindings = {});
Tensor argmin(Spec<1> spec, Operand a, const Bindings& bindings = {});  // the position of the smallest, likewise

// One after the other along an axis: concat("a; b => a^b", x, y).
Tensor concat(Spec<2> spec, Operand a, Operand b, const Bindings& bindings = {});
Tensor concat(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings = {});
Tensor concat(Spec<-1> spec, const std::vector<Tensor>& parts, const Bindings& bindings = {});
// Tensors of one shape as the positions of a new first axis.
Tensor stack(const std::vector<Tensor>& parts, RowKind kind = RowKind::output, Source where = Source::here());

// What ids name in a table `v -> ...`; with RowKind::batch in `v | ...`, where what an id names is contiguous in
// memory; with RowKind::output in `v, ...`. Ids out of range: docs/notation.md.
Tensor gather(Operand table, Operand ids, RowKind positions = RowKind::input);
// Adds values into a table `size -> ...`, or one of the others, at the places that ids name.
Tensor scatter_add(Operand values, Operand ids, int64_t size, RowKind positions = RowKind::input);

// The sum divided by the product of the sizes of all names that the result lacks, which is a count known before
// anything runs: mean("... | c => ... | 0", x). A window's kernel counts in full, also where it reaches outside.
Tensor mean(Spec<1> spec, Operand a, const Bindings& bindings = {});
// The number of elements that such a mean is over.
Tensor count(Spec<1> spec, Operand a, const Bindings& bindings = {});

// Likewise over the axes whose names the result lacks: largest("... | c => ... |", x).
Tensor sum(Spec<1> spec, Operand a, const Bindings& bindings = {});       // einsum of one operand
Tensor product(Spec<1> spec, Operand a, const Bindings& bindings = {});   // einprod
Tensor largest(Spec<1> spec, Operand a, const Bindings& bindings = {});   // einmax of one operand
Tensor smallest(Spec<1> spec, Operand a, const Bindings& bindings = {});  // einmin of one operand

// --- reductions over all axes ---
Tensor sum(Operand a);  // the sum of all elements
Tensor mean(Operand a);
Tensor product(Operand a);         // the product of all elements
Tensor largest(Operand a);         // the largest of all elements; max(a, b) compares two tensors
Tensor smallest(Operand a);        // the smallest of all elements; min(a, b) compares two tensors
Tensor dot(Operand a, Operand b);  // the sum of a * b, for equal shapes

// --- leaves ---
struct Extent {  // the size of an axis: a number, perhaps with a basis tag, or a captured size
  template <class Number>
  requires std::is_integral_v<Number> Extent(Number size, std::string basis = "")
      : size(int64_t(size)), basis(std::move(basis)) {}
  Extent(const Dim& dim) : dim(dim), captured(true) {}
  int64_t size = 0;       // the number, if it is one
  std::string basis;      // a tag: axes of different tags do not match
  Dim dim{int64_t(0)};    // the captured size
  bool captured = false;  // whether `dim` counts
};
using Extents = std::vector<Extent>;  // the sizes of several axes
struct GivenRow {                     // a row that is given, or left to inference
  GivenRow() = default;
  GivenRow(std::initializer_list<Extent> list) : given(true), extents(list) {}
  GivenRow(Extents list) : given(true), extents(std::move(list)) {}
  bool given = false;  // otherwise inference finds the axes
  Extents extents;     // the axes
};

// How a state is filled at its first use in a Context: over all its axes, from the Context's seed and the state's name.
struct Init {
  // What the numbers are.
  enum class Kind : uint8_t {
    automatic,
    constant,
    uniform,
    normal,
    kaiming_normal,
    kaiming_uniform,
    xavier_normal,
    xavier_uniform,
    values,
    none
  };
  // Kaiming-normal over all input axes; zeros without input axes (a Context can set another).
  Kind kind = Kind::automatic;
  double a = 0, b = 0;                 // constant: a; uniform: [a, b); normal: mean a, deviation b; others: gain a
  std::shared_ptr<const Array> array;  // values: these

  // `array` has no `{}`, for which GCC 12 warns in programs of users (-O3 -Wall): where an initializer after `init` may
  // throw, it believes that it destroys an `array` that does not exist. This is enough:
  //     struct Init { double a = 0; std::shared_ptr<int> array{}; };
  //     struct Options { std::string one = "1"; Init init{}; std::string two = "2"; };
  //     struct Context { explicit Context(const Options&); ~Context(); };
  //     int main() { Context c({.one = "x"}); }
};
Init zeros() noexcept;                                    // every element 0
Init ones() noexcept;                                     // every element 1
Init constant(double value) noexcept;                     // every element `value`
Init uniform_init(double low, double high);               // uniform in [low, high)
Init normal_init(double mean = 0, double deviation = 1);  // normally distributed
Init kaiming_normal(double gain = 1.4142135623730951);    // normal with deviation gain / sqrt(fan in)
Init kaiming_uniform(double gain = 1.4142135623730951);   // uniform within gain * sqrt(3 / fan in)
Init xavier_normal(double gain = 1);                      // normal with deviation gain * sqrt(2 / (fan in + fan out))
Init xavier_uniform(double gain = 1);                     // uniform within gain * sqrt(6 / (fan in + fan out))
Init from(Array array);                                   // the values of an array

// What is known of a parameter.
struct ParamOptions {
  // What is not given is inferred; the batch row of a parameter is empty unless given.
  GivenRow batch{}, input{}, output{};
  Init init{};               // the initial value
  DType dtype = DType::f32;  // the precision
};
// A named value that training changes; a Context keeps it.
Tensor param(std::string name, const ParamOptions& options = {}, Source where = Source::here());
Tensor param(std::string name, double value, Source where = Source::here());  // a scalar that starts as `value`
Tensor param(std::string name, const Array& value, Source where = Source::here());
template <int = 0>  // a template gives way to the options: GCC 12 would take {.output = {4}} for a list of numbers
// One output axis.
Tensor param(std::string name, std::initializer_list<double> values, Source where = Source::here()) {
  return param(std::move(name), Array::vector(values), where);
}

// What is known of a state.
struct StateOptions {
  GivenRow batch{}, input{}, output{};         // the axes; what is not given is inferred
  Init init{Init::Kind::none, 0, 0, nullptr};  // without one, the first use before a write is refused
  DType dtype = DType::f32;                    // the precision
};
// A named value that a Context keeps and programs assign.
Tensor state(std::string name, const StateOptions& options = {}, Source where = Source::here());
// A scalar that begins with this value: state("rate", 0.1), state("count", 0, DType::i64).
Tensor state(std::string name, double value, DType dtype = DType::f32, Source where = Source::here());
// Of the shape, the precision and, at first, the values of the array.
Tensor state(std::string name, const Array& value, Source where = Source::here());
// A state of the shape and precision of another tensor.
Tensor state_like(const Tensor& shape, std::string name, Init init, Source where = Source::here());
// A state that your program writes before a run: ctx.write(x, array).
Tensor input(std::string name, const StateOptions& options = {}, Source where = Source::here());

// Data that is part of the program.
Tensor tensor(const Array& array, std::string label = "data", Source where = Source::here());
// One output axis: tensor({1, 2, 3}) is one example of three numbers. Several examples are rows({{1, 2}, {3, 4}}).
template <int = 0>  // a template, so that {{0}, {1}} is nested for every compiler
Tensor tensor(std::initializer_list<LiteralNumber> values, Source where = Source::here()) {
  std::vector<double> list;
  for (const LiteralNumber& n : values) list.push_back(n.value);
  return tensor(Array::vector(list), "data", where);
}
// Nested lists must say what they are. Compilers print the line of a deleted function, and so its comment.
// clang-format off
Tensor tensor(LiteralRows, Source where = Source::here()) = delete;  // rows({{..}}) makes each an example, matrix({{..}}) makes two plain axes
// clang-format on
// A number of a given precision; refused if dtype cannot hold it.
Tensor number(double value, DType dtype, Source where = Source::here());
// A number that may change between runs of a program, such as a learning rate: it is data of the compiled program and
// not a constant of its text, so that another value needs no compilation. It takes the precision of what it meets, as a
// C++ number does, and so does what is computed from numbers alone. `label` is its name in listings.
Tensor tunable(double value, std::string label = "number", Source where = Source::here());
Tensor iota(Extent size, Source where = Source::here());                // 0, 1, 2, ... on one output axis
Tensor ones_like(const Tensor& shape, Source where = Source::here());   // ones of the shape and precision of a tensor
Tensor zeros_like(const Tensor& shape, Source where = Source::here());  // zeros, likewise
Tensor full_like(const Tensor& shape, double value, Source where = Source::here());  // `value`, likewise
// One position of the leftmost batch axis: what array[index] calls.
Tensor slice(const Array& array, const Index& index);

// Random values keyed by (seed, stream, step): the same on every backend and whatever else the program does. Two draws
// of one stream at one step would be equal, so a program that has them is refused; use one tensor twice if equal draws
// are wanted, or give each its own stream.
struct RandomOptions {
  GivenRow batch{}, input{}, output{};  // rows that are not given are empty; `like` gives all three
  Tensor like{};                        // a tensor of the shape that is wanted
  // A scalar, such as an Index or a state that counts: a different value, a different draw. It must be given, because
  // without one every run would draw the same numbers; .step = 0 says that this is wanted.
  OptionalOperand step{};
};
// 32 random bits in each element.
Tensor random_bits(std::string stream, const RandomOptions& options = {}, Source where = Source::here());
// Uniform in [0, 1).
Tensor uniform(std::string stream, const RandomOptions& options = {}, Source where = Source::here());
// Normally distributed with mean 0 and deviation 1.
Tensor normal(std::string stream, const RandomOptions& options = {}, Source where = Source::here());
// True with the given probability, which may differ from element to element.
Tensor bernoulli(std::string stream, Operand probability, const RandomOptions& options = {},
                 Source where = Source::here());

// --- several devices ---
// The tensor, with one of its axes divided over the devices along an axis of the mesh (ContextOptions::mesh): each
// device computes a part of it. The axis is the first batch axis, or another one of a group. What is computed from the
// tensor, and gradients, are divided accordingly. A Context without such an axis of a mesh computes as if `place` were
// not there.
Tensor place(Operand a, std::string mesh_axis, RowKind row = RowKind::batch, int axis = 0);

// --- gradients (autodiff/ has grad itself) ---
Tensor stop_gradient(Operand a);  // a, which gradients take for a constant

}  // namespace caravan
