#include "caravan/tensor/check_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "caravan/base/error.h"
#include "caravan/tensor/graph.h"

namespace caravan {

namespace {

void check_names(const std::vector<Tensor>& order) {
  std::map<std::string, const Node*> names;  // one leaf per name
  for (const Tensor& t : order)
    if (const StateNode* s = t.node().state()) {
      auto [at, added] = names.try_emplace(s->name, &t.node());
      if (added) continue;
      const std::string first = to_string(at->second->where), second = to_string(t.node().where);
      if (first == second)
        throw StateError("two different tensors have the name `" + s->name + "`, both made at " + first +
                             "; give each parameter and state a name of its own, or make it once and use it twice.",
                         t.node().where);
      throw StateError("two different tensors have the name `" + s->name + "`: one made at " + first + ", one at " +
                           second + "; give each parameter and state a name of its own.",
                       t.node().where);
    }
}

void check_draws(const std::vector<Tensor>& order) {
  std::map<std::string, std::vector<const RandomNode*>> draws;  // by stream: one a call
  for (const Tensor& t : order)
    if (auto* random = std::get_if<RandomNode>(&t.node().kind)) {
      std::vector<const RandomNode*>& others = draws[random->stream];
      if (std::any_of(others.begin(), others.end(), [&](auto* other) { return other->call == random->call; })) continue;
      for (const RandomNode* other : others)
        if (same_value(other->step, random->step))
          throw StateError(
              "the random stream `" + random->stream + "` is drawn from at " + to_string(*other->call) + " and at " +
                  to_string(*random->call) +
                  " at the same step, which gives the same numbers; give each a stream or a step of its own, or use "
                  "one tensor in both places.",
              *random->call);
      others.push_back(random);
    }
}

void check_promises(const Program& program, const std::vector<Tensor>& order) {
  std::set<std::string> assigned;
  for (const auto& a : program.assignments()) assigned.insert(a.state.name());
  if (assigned.empty()) return;
  const CallRecord* last = nullptr;  // neighbours are often of one call
  for (const Tensor& t : order) {
    const AccumulateNode* n = t.node().accumulate();
    if (!n || !n->link->call || n->link->call.get() == last) continue;
    last = n->link->call.get();
    for (const CallRecord::Promise& promise : last->promises)
      if (assigned.count(promise.parameter) && !assigned.count(promise.state))
        throw StateError("the program trains `" + promise.parameter + "` of `" + last->name + "`" +
                             where_text(last->where) + " but leaves `" + promise.state +
                             "` as it is: " + promise.advice + ".",
                         last->where);
  }
}

}  // namespace

void check_program(const Program& program, const std::vector<Tensor>& order) {
  check_names(order);
  check_draws(order);
  check_promises(program, order);
}

}  // namespace caravan
