// A kernel as a function of a language: its parameters and its statements.
#pragma once

#include <set>

#include "caravan/codegen/expressions.h"

namespace caravan::codegen {

class KernelPrinter : public Expressions {
 public:
  // With numbered names, kernels that differ only in their buffers have the same text.
  enum class Names : uint8_t { own, numbered };

  // Keeps references to the module, the kernel and the dialect.
  KernelPrinter(const loop::Module& module, const loop::Kernel& kernel, const Dialect& dialect, Names names);

  std::string head(const std::string& function) const;
  std::string body();
  const Uses& uses() const { return uses_; }  // the arguments: its buffers, symbols and streams, in this order

 protected:
  std::string memory_name(const loop::Memory& memory) const override;
  std::string variable_name(loop::Variable v) const override { return variables_[size_t(v)]; }
  std::string symbol_name(int s) const override { return symbols_.at(s); }
  std::string register_name(loop::Register r) const;
  std::string condition(const loop::If& s) const;

  void print_block(const loop::Block& block) override;
  void declare_before(const loop::Statement& s);  // the locals that are declared before this statement
  void print(const loop::Define& s) override;
  void print(const loop::Reset& s) override;
  void print(const loop::Combine& s) override;
  void print(const loop::CombineFirst& s) override;
  void print(const loop::Store& s) override;
  void print(const loop::StoreCombine& s) override;
  void print(const loop::StoreFirst& s) override;
  void print(const loop::Move& s) override;
  void print(const loop::Barrier& s) override;
  void print(const loop::Prefetch& s) override;
  void print(const loop::For& s) override;
  void print(const loop::If& s) override;
  // Attention is a call of a function of the prelude, if the language has one.
  virtual void print(const loop::Attention& a);

 private:
  void place_locals();
  // `factor` is the register of a fused product's second factor, or -1.
  void print_combined(Accumulator accumulator, loop::RegisterType type, const Expression& total, loop::Register value,
                      loop::Register factor);
  void print_first(Accumulator accumulator, DType dtype, const Expression& value, const std::string& best,
                   const std::string& position, const loop::Term& term);
  std::string not_negative(const loop::Term& term) const;

  std::map<ir::BufferId, std::string> buffers_;
  std::map<int, std::string> symbols_;
  std::vector<std::string> variables_, locals_;
  std::map<loop::Register, std::string> totals_;                        // names of accumulators
  std::map<const loop::Statement*, std::vector<int>> declared_before_;  // locals that are declared before a statement
};

}  // namespace caravan::codegen
