// How a language of the C family spells the constructs of kernels. The printer (kernel_printer.h) writes C99 and asks a
// dialect for the spelling. A new language overrides what differs (HACKING.md, "Add a dialect").
#pragma once

#include <string>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

class Dialect {
 public:
  virtual ~Dialect() = default;

  // --- names and types ---
  // The identifier, renamed if the dialect reserves it.
  virtual std::string free_name(const std::string& identifier) const { return identifier; }
  virtual std::string element_type(DType dtype) const;  // of an element in memory
  virtual std::string register_type(loop::RegisterType type) const;

  // --- functions ---
  virtual std::string head(const std::string& function, const std::vector<std::string>& parameters) const;
  // What a kernel does with a buffer. What lanes exchange is changed by others than the thread that reads it.
  enum class BufferUse : uint8_t { read, written, exchanged };
  virtual std::string buffer_parameter(DType dtype, const std::string& name, BufferUse use) const;
  // Parameters of a kernel after its buffers, symbols and streams: which part of the work a call does.
  virtual std::vector<std::string> work_parameters(const loop::Kernel&) const { return {}; }
  virtual std::string function(std::string_view name, DType compute) const;  // a function in an op's spelling
  virtual std::string helper(std::string_view name) const;                   // a helper of the prelude: "to_u8"

  // --- statements ---
  virtual std::string local(const loop::Local& local, const std::string& name) const;  // its declaration
  // Lines that are printed before a loop.
  virtual std::vector<std::string> before_loop(const loop::For&) const { return {}; }
  // The first line of the loop. Its last line is a closing brace.
  virtual std::string loop(const loop::For& loop, const std::string& variable) const;
  // The vector that starts at `element` in memory.
  virtual std::string vector_at(loop::RegisterType type, const std::string& element, bool written) const;
  // The same, where the compiler may not load it a second time (loop::Load::once).
  virtual std::string vector_once(loop::RegisterType type, const std::string& element) const {
    return vector_at(type, element, false);
  }
  // A line that tells the compiler that the buffer begins at a cache line; empty: it does not help.
  virtual std::string aligned(const std::string&) const { return ""; }
  virtual std::string barrier(const loop::Grid& grid) const;
  // A line that asks for so many bytes from an address (loop::Prefetch); empty: the language cannot.
  virtual std::string prefetch(const std::string&, int64_t, bool) const { return ""; }
  // `value`, combined across the lanes of a group. `combined` is the expression that combines `a` and `b`.
  virtual std::string across_lanes(const loop::Grid& grid, DType dtype, const std::string& value,
                                   const std::string& combined) const;
};

// GNU C for GCC and Clang, for the processor that runs the program: with vectors, pragmas and elementary functions of
// our own.
class GnuC : public Dialect {
 public:
  std::string register_type(loop::RegisterType type) const override;
  std::vector<std::string> work_parameters(const loop::Kernel& kernel) const override;
  std::string function(std::string_view name, DType compute) const override;
  std::string local(const loop::Local& local, const std::string& name) const override;
  std::vector<std::string> before_loop(const loop::For& loop) const override;
  std::string loop(const loop::For& loop, const std::string& variable) const override;
  std::string vector_at(loop::RegisterType type, const std::string& element, bool written) const override;
  std::string vector_once(loop::RegisterType type, const std::string& element) const override;
  std::string aligned(const std::string& buffer) const override { return "CARAVAN_ON_LINE(" + buffer + ");"; }
  std::string prefetch(const std::string& from, int64_t bytes, bool nearest) const override;
};

// C99 for any compiler, with its <math.h>. All names at file scope start with the prefix and an underscore.
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
