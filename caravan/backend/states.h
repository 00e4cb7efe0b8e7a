// The states of a device, by name: what every backend that compiles keeps alike, whatever its memory is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::backend {

struct StateType {
  Shape shape;
  DType dtype = DType::f32;
};

// Before a step. StateError: the state has no value; another program gave it another size or precision since this one
// was compiled.
void check_state(const ir::Buffer& declared, const StateType& kept, bool has_value, const std::string& program);
// StateError: a symbol is outside of its range.
void check_symbols(const std::vector<ir::Symbol>& symbols, const std::vector<int64_t>& values);

template <class Memory>
class States {
 public:
  struct State {
    StateType type;
    Memory memory{};
    bool filled = false;
  };

  // The state as memory for such a value; what it had before goes where the size or the precision is another.
  // `allocate(bytes)` gives memory. References stay valid.
  template <class Allocate>
  State& declare(const std::string& name, const Shape& shape, DType dtype, Allocate allocate) {
    State& s = states_[name];
    if (!s.memory || s.type.shape.elements() != shape.elements() || s.type.dtype != dtype)
      s.memory = allocate(shape.elements() * bytes(dtype)), s.filled = false;
    s.type = {shape, dtype};
    return s;
  }
  // Memory of somebody else's, with a value in it.
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

}  // namespace caravan::backend
