// The compiler alone, without tensors: accumulations over plain memory, as text.
//
//     jit::Kernel product = jit::compile("y[i, j] += a[i, k] * b[k, j]   for i < 64, j < 32, k < 128");
//     product.run({{"a", a}, {"b", b}, {"y", y}});   // float*, row by row
//
// A result is written anew, not added to. parse.h has the notation; several lines are fused where that is possible.
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
#include "caravan/jit/parse.h"

namespace caravan::jit {

// How a text is compiled.
struct Options {
  Buffers buffers{};    // sizes and precisions that the text does not say
  int threads = 0;      // at most so many run a kernel; 0: one for each processor that this process may use
  std::string cache{};  // folder of compiled code; empty: $CARAVAN_CACHE, then the user's cache
  std::vector<std::string> compiler_flags{};  // appended to the C compiler's
};

// Memory of the caller's, under its name in the program. What is only read may be const.
struct Binding {
  template <class T>
  Binding(std::string name, T* memory)
      : name(std::move(name)), memory(const_cast<std::remove_const_t<T>*>(memory)), dtype(of(memory)) {}
  std::string name;  // of the buffer
  void* memory;      // its elements, row by row
  DType dtype;       // the type of the pointer

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
  // Every buffer of buffers() must be bound, in its precision; it is read and written where it lies. StateError
  // otherwise.
  void run(std::initializer_list<Binding> memory);
  // `times` runs in a row over the same memory, without coming back to the caller. The bindings are looked up and
  // checked once, so what is measured is the kernel.
  void run_times(int64_t times, std::initializer_list<Binding> memory);

  // What the text reads or writes.
  struct Buffer {
    std::string name;            // as in the text
    std::vector<int64_t> sizes;  // row by row, the last axis fastest
    DType dtype = DType::f32;    // its precision
    bool result = false;         // written; otherwise read
  };
  const std::vector<Buffer>& buffers() const;  // all that must be bound

 private:
  friend Kernel compile(std::string_view text, const Options& options);
  struct Impl;
  void bind(std::initializer_list<Binding> memory);
  explicit Kernel(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// SpecError: a text that is not a program. BackendError: the C compiler.
Kernel compile(std::string_view text, const Options& options = {});

}  // namespace caravan::jit
