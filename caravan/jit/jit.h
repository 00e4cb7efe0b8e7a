// The compiler without tensors: compiles accumulations that are given as text, and runs them on plain memory.
//
//     jit::Kernel product = jit::compile("y[i, j] += a[i, k] * b[k, j]   for i < 64, j < 32, k < 128");
//     product.run({{"a", a}, {"b", b}, {"y", y}});   // float*, row by row
//
// A result is overwritten, not added to. The notation is described in buffers.h. Several lines are fused where that is
// possible.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "caravan/base/error.h"
#include "caravan/jit/buffers.h"

namespace caravan::jit {

// How a text is compiled.
struct Options {
  Buffers buffers{};    // sizes and precisions that do not follow from the text
  int threads = 0;      // most threads that run a kernel; 0: one for each processor that this process may use
  std::string cache{};  // folder of compiled code; empty: $CARAVAN_CACHE, then the user's cache
  std::vector<std::string> compiler_flags{};  // added to the flags of the C compiler
};

// Memory of the caller for a buffer of the program. It may be const if the program only reads it.
struct Binding {
  template <class T>
  Binding(std::string name, T* memory)
      : name(std::move(name)), memory(const_cast<std::remove_const_t<T>*>(memory)), dtype(of(memory)) {}
  std::string name;  // of the buffer
  void* memory;      // its elements in row-major order
  DType dtype;       // the type that it points to

 private:
  static DType of(const float*) { return DType::f32; }
  static DType of(const double*) { return DType::f64; }
  static DType of(const int32_t*) { return DType::i32; }
  static DType of(const int64_t*) { return DType::i64; }
  static DType of(const uint8_t*) { return DType::u8; }
};

// A compiled text.
class Kernel {
 public:
  // Runs the kernel once, in place on the bound memory. Throws StateError unless every buffer of buffers() is bound in
  // its precision.
  void run(std::initializer_list<Binding> memory);
  // Runs the kernel `times` times on the same memory. The bindings are checked only once, so that a measurement of the
  // time is that of the kernel.
  void run_times(int64_t times, std::initializer_list<Binding> memory);

  // A buffer that the text reads or writes.
  struct Buffer {
    std::string name;            // as in the text
    std::vector<int64_t> sizes;  // of its axes; elements are in row-major order
    DType dtype = DType::f32;    // its precision
    bool result = false;         // true iff the text writes it
  };
  const std::vector<Buffer>& buffers() const;  // all buffers that must be bound

 private:
  friend Kernel compile(std::string_view text, const Options& options);
  struct Impl;
  void bind(std::initializer_list<Binding> memory);
  explicit Kernel(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// Throws SpecError if the text is not a program, and BackendError if the C compiler fails.
Kernel compile(std::string_view text, const Options& options = {});

}  // namespace caravan::jit
