#include "caravan/runtime/function.h"

#include <map>
#include <mutex>

#include "caravan/base/error.h"
#include "caravan/runtime/context_impl.h"
#include "caravan/tensor/call.h"

namespace caravan {

namespace {

// Arguments of one kind: "f32 32|2; i32 32|".
std::string kind_of(const std::vector<Array>& arguments) {
  std::string out;
  for (const Array& a : arguments)
    out += (out.empty() ? "" : "; ") + std::string(name(a.dtype())) + " " + to_string(a.shape());
  return out;
}

// A call of the function with inputs of certain sizes: tensors, which belong to no Context.
struct Traced {
  std::vector<Tensor> inputs;
  Program program;
};

// Shared by a function and those that `in` makes of it, which may be of other threads.
struct Traces {
  std::function<Program(const std::vector<Tensor>&)> trace;
  Source where;
  std::mutex mutex;
  std::map<std::string, Traced> by_kind;

  const Traced& of(const std::string& kind, const std::vector<Array>& arguments) {
    const std::lock_guard lock(mutex);
    if (auto at = by_kind.find(kind); at != by_kind.end()) return at->second;
    Traced out;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Array& a = arguments[i];
      auto given = [](const Row& row) {
        Extents out;
        for (const Axis& axis : row) out.emplace_back(axis.size, axis.basis);
        return GivenRow(std::move(out));
      };
      // Functions of one Context may share inputs: each call writes what it reads.
      out.inputs.push_back(input("argument " + std::to_string(i + 1) + " (" + kind_of({a}) + ")",
                                 {.batch = given(a.shape().batch),
                                  .input = given(a.shape().input),
                                  .output = given(a.shape().output),
                                  .dtype = a.dtype()},
                                 where));
    }
    const UserCode lines_of_the_function;
    out.program = trace(out.inputs);
    return by_kind.emplace(kind, std::move(out)).first->second;
  }
};

}  // namespace

struct Function::Impl {
  Context ctx;
  std::shared_ptr<Traces> traces;
  struct Compiled {
    const Traced* traced;
    Routine routine;
  };
  std::map<std::string, Compiled> compiled{};
};

Function::Function(Context ctx, Trace trace, Source where)
    : Function(std::make_shared<Impl>(Impl{std::move(ctx), std::make_shared<Traces>()})) {
  impl_->traces->trace = std::move(trace);
  impl_->traces->where = where;
}

Function Function::in(Context other) const {
  return Function(std::make_shared<Impl>(Impl{std::move(other), impl_->traces}));
}

Source Function::made_at() const { return impl_->traces->where; }
int Function::sizes() const { return int(impl_->compiled.size()); }

std::vector<Array> Function::run(const std::vector<Array>& arguments, const IndexValues& values, Source where) {
  const WrittenAt written(where);
  const Context::Impl::Use use(*impl_->ctx.impl_);
  const std::string kind = kind_of(arguments);
  auto at = impl_->compiled.find(kind);
  if (at == impl_->compiled.end()) {
    const Traced& traced = impl_->traces->of(kind, arguments);
    at = impl_->compiled.emplace(kind, Impl::Compiled{&traced, impl_->ctx.compile(traced.program)}).first;
  }
  Impl::Compiled& now = at->second;
  for (size_t i = 0; i < arguments.size(); ++i) impl_->ctx.write(now.traced->inputs[i], arguments[i]);
  now.routine.run(values);
  std::vector<Array> out;
  for (const Tensor& t : now.traced->program.observed_as()) out.push_back(now.routine.read(t));
  return out;
}

Array Function::first_of(const std::vector<Array>& results) {
  if (results.empty())
    throw StateError(
        "a Function whose program observes nothing has no result; add `& observe(tensor)` to the program, "
        "or call .run(..).");
  return results[0];
}

void Function::refuse_count(size_t given, Source where) {
  throw StateError("a Function" + where_text(where) + " was called with " + std::to_string(given) +
                       (given == 1 ? " array" : " arrays") +
                       ", but what it was made of cannot be called with so many tensors.",
                   where);
}

}  // namespace caravan
