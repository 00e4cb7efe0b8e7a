// Prints a kernel as CUDA C++.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "caravan/codegen/cuda_dialect.h"
#include "caravan/codegen/cuda_nest.h"
#include "caravan/codegen/kernel_printer.h"

namespace caravan::codegen {

// A product of matrices is printed as a call of caravan_product (prelude/product.cuh) with functions for its factors,
// for what is loaded beside a sum and for what follows the sum, and attention as a call of a function of
// prelude/attention.cuh. A piece (schedule/gpu_pieces.h) is a caravan_neighbours (prelude/cuda.cuh).
class CudaPrinter : public KernelPrinter {
 public:
  CudaPrinter(const loop::Module& module, const loop::Kernel& kernel, const Cuda& dialect, Names names)
      : KernelPrinter(module, kernel, dialect, names), index_(dialect.index_type()) {}

 private:
  using KernelPrinter::print;
  void print(const loop::For& s) override;
  void print(const loop::Attention& a) override;
  void print_block(const loop::Block& block) override;
  std::string memory_name(const loop::Memory& memory) const override;
  std::string element(const loop::Memory& memory, const loop::Term& offset) const override;
  void print_with_pieces(std::span<const loop::Statement> group, const loop::For& loop);
  void print_product(const loop::For& outermost);
  void print_scatter(const loop::For& rows);
  void print_factor(const CudaNest& nest, loop::Register factor, const char* parameters,
                    const std::vector<const loop::For*>& one, const char* one_name,
                    const loop::Contraction::Factor& how);
  void print_digits(const std::vector<const loop::For*>& loops, const std::string& number);
  static std::vector<loop::Define> take_brought(CudaNest& nest);
  static loop::Block needed(const loop::Block& definitions, std::set<loop::Register> wanted);

  const std::string index_;  // the type of indices
  // Pieces of the current loop by their locals, and what loads them; null: it only stores them.
  std::map<int, const loop::Move*> pieces_;
};

}  // namespace caravan::codegen
