#include "caravan/tensor/call.h"

#include <utility>

namespace caravan {

namespace {

thread_local CallRef current_call;

// Of the call as the user wrote it; a call without a line belongs to the one that contains it.
Source line_of(const std::vector<CallArgument>& arguments) {
  const Source own = arguments.empty() ? Source() : arguments[0].value.where;
  return own.known() ? own : Source::call();
}

}  // namespace

Call::Call(CallRef record, Source where) : before_(std::exchange(current_call, std::move(record))), at_(where) {}
Call::~Call() { current_call = std::move(before_); }
CallRef Call::current() { return current_call; }

Call Call::function(std::string name, std::vector<CallArgument> arguments, CallRecord::Advice advice) {
  const Source where = line_of(arguments);
  if (current_call) return Call(current_call, where);
  return layer(std::move(name), std::move(arguments), std::move(advice));
}
Call Call::layer(std::string name, std::vector<CallArgument> arguments, CallRecord::Advice advice,
                 std::vector<CallRecord::Promise> promises) {
  const Source where = line_of(arguments);
  return Call(std::make_shared<const CallRecord>(CallRecord{std::move(name), where, std::move(arguments),
                                                            std::move(advice), std::move(promises), current_call}),
              where);
}

}  // namespace caravan
