// Prints a kernel as GNU C.
#pragma once

#include "caravan/codegen/kernel_printer.h"

namespace caravan::codegen {

// Attention is printed as a call of a function of prelude/attention.h for every head.
class GnuPrinter : public KernelPrinter {
 public:
  GnuPrinter(const loop::Module& module, const loop::Kernel& kernel, const GnuC& dialect, Names names)
      : KernelPrinter(module, kernel, dialect, names) {}

 private:
  using KernelPrinter::print;
  void print(const loop::Attention& a) override;
};

}  // namespace caravan::codegen
