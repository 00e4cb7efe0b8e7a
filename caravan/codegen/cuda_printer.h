// Prints a kernel as CUDA C++.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "caravan/codegen/cuda_dialect.h"
#include "caravan/codegen/kernel_printer.h"

namespace caravan::codegen {

// A product of matrices is printed as a call of caravan_product (prelude/product.cuh) with functions for its factors,
// for what is loaded beside a sum and for what follows the sum, and attention as a call of a function of
// prelude/attention.cuh. Elements that an unrolled loop accesses at neighbouring places are loaded and stored together
// (schedule/gpu_neighbours.h).
class CudaPrinter : public KernelPrinter {
 public:
  CudaPrinter(const loop::Module& module, const loop::Kernel& kernel, const Cuda& dialect, Names names)
      : KernelPrinter(module, kernel, dialect, names), index_(dialect.index_type()) {}

 private:
  // The loops of a product, and the statements of its innermost body.
  struct Nest {
    std::vector<const loop::For*> batch, rows, columns, terms;
    loop::Block before, after;
    const loop::Combine* combine = nullptr;
    const loop::If* guard = nullptr;  // around the product
  };

  using KernelPrinter::print;
  void print(const loop::For& s) override;
  void print(const loop::Attention& a) override;
  std::string element(const loop::Memory& memory, const loop::Term& offset) const override;
  void print_neighbours(const loop::For& loop);
  void print_product(const loop::For& outermost);
  void print_scatter(const loop::For& rows);
  void print_factor(const Nest& nest, loop::Register factor, const char* parameters,
                    const std::vector<const loop::For*>& one, const char* one_name,
                    const loop::Contraction::Factor& how);
  void print_digits(const std::vector<const loop::For*>& loops, const std::string& number);
  static void take(const loop::Block& block, Nest& out);
  static std::vector<loop::Define> take_brought(Nest& nest);
  static loop::Block needed(const loop::Block& definitions, std::set<loop::Register> wanted);

  const std::string index_;  // the type of indices
  // Neighbours that the current loop has in registers.
  struct Piece {
    ir::BufferId buffer = -1;
    loop::Term offset;
    std::string element;  // the one of the current iteration
    bool read = false, written = false;
  };
  std::vector<Piece> pieces_;
};

}  // namespace caravan::codegen
