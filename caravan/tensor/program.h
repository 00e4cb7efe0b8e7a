// Programs are functions from state to state: simultaneous assignments `state := expression`, and observed outputs.
// All right-hand sides read the old state; then all assignments take effect.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "caravan/tensor/tensor.h"

namespace caravan {

// Assignments that take effect together, and tensors to observe.
class Program {
 public:
  Program() = default;

  // state := value, and the line where it was written.
  struct Assignment {
    Tensor state, value;  // what is assigned, and what it becomes
    Source where;         // the line of the user's program
  };
  const std::vector<Assignment>& assignments() const { return assignments_; }  // in the order of writing
  // The tensors that a run computes for the caller.
  const std::vector<Tensor>& observed() const { return observed_; }
  // The tensors that Routine::read takes to read them, in the same order: those that the user observed.
  const std::vector<Tensor>& observed_as() const { return observed_as_; }

  // One assignment per state: a second is refused, naming both lines.
  Program& add(Assignment assignment);
  Program& add_observed(const Tensor& tensor) { return add_observed(tensor, tensor); }  // observes one more tensor
  // Observes `value`, which is read by `as`; refused if `as` stands for another value already.
  Program& add_observed(const Tensor& as, const Tensor& value);
  Program& operator&=(const Program& other);  // adds what another program does, at the same time

 private:
  std::vector<Assignment> assignments_;
  std::vector<Tensor> observed_, observed_as_;
  std::unordered_map<std::string, size_t> assigned_;  // assignment by the state's name
  std::unordered_map<const Node*, size_t> observed_at_;
};

Program assign(const Tensor& state, Operand value);  // state := value
Program observe(const Tensor& tensor);               // computes the tensor, so that Routine::read has it
Program observe(const std::vector<Tensor>& tensors);
Program operator&(Program p, const Program& q);      // both at the same time, each reading the old state
Program then(const Program& p, const Program& q);    // q sees p's new state; what both observe is read as q sees it
Program add_to(const Tensor& state, Operand value);  // state := state + value
Program add_to(const Tensor& state, Spec<1> spec, Operand value,
               const Bindings& bindings = {});                        // ... + einsum(spec, value)
Program update(const Tensor& state, const Index& at, Operand value);  // assigns the slice `state[at]` alone
Program when(Operand condition, const Program& program);  // its assignments, only if the scalar condition holds

// The roots with every use of `from[i]` replaced by `to[i]`; shapes must agree.
std::vector<Tensor> substitute(const std::vector<Tensor>& roots, const std::vector<Tensor>& from,
                               const std::vector<Tensor>& to);

// The parameters that the tensors' values depend on, each once, in the order of their first use.
std::vector<Tensor> parameters(const std::vector<Tensor>& roots);
std::vector<Tensor> parameters(const Tensor& root);

}  // namespace caravan
