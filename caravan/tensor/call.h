// Calls of the library as the user wrote them. A layer or a loss is a few lines of the notation; what those lines make
// belongs to the user's call, so that messages and listings have its line and its name:
//
//     Tensor mse(Operand prediction, Operand target) {
//       const Call call = Call::function("nn::mse", {{"the prediction", prediction}, {"the target", target}});
//       return mean(square(prediction - target));  // made at the line where mse was called
//     }
//
// A layer of your own may do the same, and is then reported as those of nn/ are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "caravan/tensor/tensor.h"

namespace caravan {

// What a call was given, by the name that messages have for it.
struct CallArgument {
  std::string name;  // "the target"
  Operand value;     // what was given
};

// What is kept of a call, for messages.
struct CallRecord {
  using Shapes = std::vector<std::optional<Shape>>;  // the shapes of the arguments, as far as they are known
  // Says what does not fit and what to try, given the shapes of the arguments. Where it says nothing, the user is told
  // what inference found.
  using Advice = std::function<std::string(const Shapes&)>;
  // Inside: a program that assigns `parameter` must assign `state` too, or else `advice` is given.
  struct Promise {
    std::string parameter, state, advice;  // names, and what to try
  };

  std::string name;                            // "nn::mse", "linear fc1"
  Source where;                                // the user's line
  std::vector<CallArgument> arguments;         // what it was given
  Advice advice{};                             // what to say where they do not fit
  std::vector<Promise> promises{};             // Inside: what a program that trains it must do
  std::shared_ptr<const CallRecord> inside{};  // the call that made it, if any
};
using CallRef = std::shared_ptr<const CallRecord>;  // Inside: a call that is kept; null where there is none

// While one lives, what this thread makes belongs to the call. The line is that of the first argument.
class Call {
 public:
  // A function's name gives way to that of a call which contains it: the user wrote `nn::cross_entropy`, which calls
  // `nn::log_softmax`.
  static Call function(std::string name, std::vector<CallArgument> arguments, CallRecord::Advice advice = {});
  // A layer's name is its own also inside another layer: `linear net.1` is more exact than `mlp net`.
  static Call layer(std::string name, std::vector<CallArgument> arguments, CallRecord::Advice advice = {},
                    std::vector<CallRecord::Promise> promises = {});
  static CallRef current();  // Inside: the call that this thread is in; null outside of every call
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  friend class UserCode;
  Call(CallRef record, Source where);
  CallRef before_;
  WrittenAt at_;
};

// While one lives, every line has its own position again: where the library calls what the user wrote.
class UserCode {
 public:
  UserCode() : none_(nullptr, {}) {}

 private:
  Call none_;
};

}  // namespace caravan
