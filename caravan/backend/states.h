// The states of a device, by name. All compiling backends share this code; `Memory` is how a device holds memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "caravan/backend/runnable.h"
#include "caravan/ir/program.h"

namespace caravan::backend {

struct StateType {
  Shape shape;
  DType dtype = DType::f32;
};

// Called before a run. Throws StateError if the state has no value, or if another program has given it another size or
// precision since this one was compiled.
void check_state(const ir::Buffer& declared, const StateType& kept, bool has_value, const std::string& program);
// Throws StateError if a symbol is outside of its range.
void check_symbols(const std::vector<ir::Symbol>& symbols, const std::vector<int64_t>& values);

template <class Memory>
class States {
 public:
  struct State {
    StateType type;
    Memory memory{};
    bool filled = false;
  };

  // The state, with memory for a value of this shape and precision. If it had another size or precision, its old value
  // is dropped. `allocate(bytes)` gives memory. References stay valid.
  template <class Allocate>
  State& declare(const std::string& name, const Shape& shape, DType dtype, Allocate allocate) {
    State& s = states_[name];
    if (!s.memory || s.type.shape.elements() != shape.elements() || s.type.dtype != dtype)
      s.memory = allocate(shape.elements() * bytes(dtype)), s.filled = false;
    s.type = {shape, dtype};
    return s;
  }
  // Makes memory of the caller, with a value in it, the memory of a state.
  void lend(const std::string& name, const Shape& shape, DType dtype, Memory memory) {
    State& s = states_[name];
    s.type = {shape, dtype}, s.memory = std::move(memory), s.filled = true;
  }

  bool has(const std::string& name) const {
    auto at = states_.find(name);
    return at != states_.end() && at->second.filled;
  }
  const State& at(const std::string& name) const { return states_.at(name); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, s] : states_)
      if (s.filled) out.push_back(name);
    return out;
  }

 private:
  std::map<std::string, State> states_;
};

// The states of a device that a plan uses, of a program that outlives them.
template <class Memory>
class UsedStates {
 public:
  UsedStates() = default;
  template <class Allocate>
  UsedStates(States<Memory>& states, const ir::Program& program, const std::vector<StateUse>& uses, Allocate allocate)
      : program_(&program) {
    for (const StateUse& use : uses) {
      const ir::Buffer& buffer = program.buffers[size_t(use.leaf)];
      slots_.push_back({use, &states.declare(buffer.name, buffer.shape, buffer.dtype, allocate)});
    }
  }

  // Before a run: checks the symbols and all states, and then calls place(buffer, memory) for each state. So a failure
  // changes nothing.
  template <class Place>
  void make_ready(const std::vector<int64_t>& symbols, Place place) const {
    check_symbols(program_->symbols, symbols);
    for (const Slot& s : slots_)
      check_state(program_->buffers[size_t(s.use.leaf)], s.state->type, s.state->filled || !s.use.read, program_->name);
    for (const Slot& s : slots_) place(s.use.buffer, s.state->memory);
  }
  // After a run: the assigned states have values.
  void note_assigned() {
    for (const Slot& s : slots_)
      if (s.use.assigned) s.state->filled = true;
  }

 private:
  struct Slot {
    StateUse use;
    typename States<Memory>::State* state;
  };
  const ir::Program* program_ = nullptr;
  std::vector<Slot> slots_;
};

}  // namespace caravan::backend
