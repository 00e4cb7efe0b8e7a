// A function of arrays, compiled for the sizes that it is called with.
//
//     Function predict(ctx, net);                          // any model: what is called with tensors and gives one
//     Array one = predict(rows({{0, 1}}));                 // compiled for one example
//     Array all = predict(test_images);                    // compiled once more, for ten thousand
//
//     Optimizer optimizer = adam({.lr = 1e-3});            // outside: one optimiser for all sizes
//     Function step(ctx, [&](Tensor x, Tensor y) { return train_step(mse(net(x), y), optimizer); });
//     for (const auto& batch : data::batches({x, y}, 32)) loss = step(batch[0], batch[1]).item();   // the last is smaller
//
// The function is called once for each combination of shapes and precisions; what it makes is compiled then and kept.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "caravan/runtime/context.h"

namespace caravan {

// Refers to its Context; copies are the same function. As the Context, it is used by one thread at a time; for another
// thread there is predict.in(ctx.reader()).
class Function {
 public:
  // `f` takes tensors, perhaps a phase after them, and gives a Tensor, several, or a Program. A result of tensors is
  // observed.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Function>) Function(Context ctx, F f, Source where = Source::here())
      : Function(std::move(ctx),
                 Trace([f = std::move(f), where](const std::vector<Tensor>& x) { return traced(f, x, where); }),
                 where) {}

  // The value of the first tensor that it observes: a prediction, the loss of a training step.
  template <std::convertible_to<Array>... Arrays>
  Array operator()(const Arrays&... arguments) {
    return first_of(run({Array(arguments)...}, {}, made_at()));
  }
  // All that it observes. `values` binds the indices that it uses: step.run({x, y}, {{epoch, 3}}).
  std::vector<Array> run(const std::vector<Array>& arguments, const IndexValues& values = {},
                         Source where = Source::here());

  // The same function in another Context, such as a reader of the first (Context::reader) for another thread.
  Function in(Context other) const;
  int sizes() const;  // how many combinations it was compiled for

 private:
  using Trace = std::function<Program(const std::vector<Tensor>&)>;
  struct Impl;
  Function(Context ctx, Trace trace, Source where);
  explicit Function(std::shared_ptr<Impl> impl) : impl_("a Function", std::move(impl)) {}
  Source made_at() const;
  static Array first_of(const std::vector<Array>& results);
  [[noreturn]] static void refuse_count(size_t given, Source where);

  static Program program_of(Program program) { return program; }
  static Program program_of(const Tensor& tensor) { return observe(tensor); }
  static Program program_of(const std::vector<Tensor>& tensors) { return observe(tensors); }

  template <size_t>
  using EachTensor = const Tensor&;
  template <size_t>
  using EachOperand = Operand;
  // Models that take operands are called as if at `where`, which messages then name.
  template <class F, size_t... I>
  static Program called(const F& f, const std::vector<Tensor>& x, Source where, std::index_sequence<I...>) {
    if constexpr (std::is_invocable_v<const F&, EachOperand<I>...>)
      return program_of(f(Operand(x[I], where)...));
    else if constexpr (std::is_invocable_v<const F&, EachTensor<I>...>)
      return program_of(f(x[I]...));
    else if constexpr (!std::is_invocable_v<const F&, EachTensor<I>..., const Tensor&> && requires { f(x[I]..., {}); })
      return program_of(f(x[I]..., {}));  // a model that must be given a phase: evaluation
    else
      refuse_count(sizeof...(I), where);
  }
  template <class F>
  static Program traced(const F& f, const std::vector<Tensor>& x, Source where) {
    switch (x.size()) {
      case 1: return called(f, x, where, std::make_index_sequence<1>());
      case 2: return called(f, x, where, std::make_index_sequence<2>());
      case 3: return called(f, x, where, std::make_index_sequence<3>());
      case 4: return called(f, x, where, std::make_index_sequence<4>());
      default: refuse_count(x.size(), where);
    }
  }

  Handle<Impl> impl_;
};

}  // namespace caravan
