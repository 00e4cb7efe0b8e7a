// How a language of the C family spells what kernels say. The printer (kernel_printer.h) writes C99 with the words of a
// dialect; a new language overrides what it says otherwise (HACKING.md, "Add a dialect").
#pragma once

#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

class Dialect {
 public:
  virtual ~Dialect() = default;

  // --- names and types ---
  virtual std::string free_name(const std::string& identifier) const { return identifier; }  // not one of its own
  virtual std::string element_type(DType dtype) const;                                       // in memory
  virtual std::string register_type(loop::RegisterType type) const;

  // --- functions ---
  virtual std::string head(const std::string& function, const std::vector<std::string>& parameters) const;
  virtual std::string buffer_parameter(DType dtype, const std::string& name, bool written) const;
  virtual std::vector<std::string> parallel_parameters() const { return {}; }  // what a parallel loop is given
  virtual std::string function(std::string_view name, DType compute) const;    // of an op's spelling
  virtual std::string helper(std::string_view name) const;                     // of the prelude: "to_u8"

  // --- statements ---
  virtual std::string local(const loop::Local& local, const std::string& name) const;  // its declaration
  virtual std::vector<std::string> before_loop(const loop::For&) const { return {}; }  // lines
  // The line that starts it; the one that ends it is a brace.
  virtual std::string loop(const loop::For& loop, const std::string& variable) const;
  // As many elements as the vector has, the first of which is `element`.
  virtual std::string vector_at(loop::RegisterType type, const std::string& element, bool written) const;
};

// What GCC and Clang compile for the processor that runs the program: vectors, pragmas, elementary functions of our
// own.
class GnuC : public Dialect {
 public:
  std::string register_type(loop::RegisterType type) const override;
  std::vector<std::string> parallel_parameters() const override { return {"int64_t from", "int64_t to"}; }
  std::string function(std::string_view name, DType compute) const override;
  std::vector<std::string> before_loop(const loop::For& loop) const override;
  std::string loop(const loop::For& loop, const std::string& variable) const override;
  std::string vector_at(loop::RegisterType type, const std::string& element, bool written) const override;
};

// C99 of any compiler, with its <math.h>. At file scope all names start with the prefix and an underscore.
class PlainC : public Dialect {
 public:
  explicit PlainC(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string free_name(const std::string& identifier) const override;
  std::string register_type(loop::RegisterType type) const override;
  std::string helper(std::string_view name) const override;

 private:
  std::string prefix_;
};

}  // namespace caravan::codegen
