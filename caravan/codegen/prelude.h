// The C functions that generated text calls: the headers of prelude/, embedded in the binary.
//
//     math.h                              elementary functions
//     cpu.h                               what only the CPU has: vectors, and the pool that runs parallel loops
//     cuda.cuh                            what only a GPU has: groups of threads
//     product.cuh                         products of matrices on a GPU, in tiles
//     scatter.cuh                         sums into a table on a GPU
//     attention.h, attention.cuh          attention and its gradient, on a processor and on a GPU
//     next.cuh                            the function that counts the steps on a GPU
//     timing.h                            the stopwatch of entries that time kernels
//     library.h                           calls of a library, which the caller of a step makes
//     keep_loop.h, convert.h, random.h    helpers; a paragraph is a function that calls no other, or a macro
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "caravan/loop/loop.h"

namespace caravan::codegen {

struct PreludeFile {
  std::string_view name, text;
};
inline constexpr PreludeFile kPreludeFiles[] = {
#include "caravan/codegen/prelude.inc"
};

// The text of a header without `#pragma once` and its includes.
constexpr std::string_view prelude_text(std::span<const PreludeFile> files, std::string_view name) {
  std::string_view text;
  for (const PreludeFile& file : files)
    if (file.name == name) text = file.text;
  while (text.starts_with("#pragma once") || text.starts_with("#include") || text.starts_with('\n'))
    text.remove_prefix(text.find('\n') + 1);
  return text;
}

namespace detail {

constexpr std::string_view prelude_text(std::string_view name) { return codegen::prelude_text(kPreludeFiles, name); }
constexpr size_t paragraphs(std::string_view text) {
  size_t count = 1;
  for (size_t at = text.find("\n\n"); at != text.npos; at = text.find("\n\n", at + 2)) ++count;
  return count;
}

}  // namespace detail

inline constexpr std::string_view kMathPrelude = detail::prelude_text("math.h"),
                                  kCpuPrelude = detail::prelude_text("cpu.h"),
                                  kCudaPrelude = detail::prelude_text("cuda.cuh"),
                                  kProductPrelude = detail::prelude_text("product.cuh"),
                                  kScatterPrelude = detail::prelude_text("scatter.cuh"),
                                  kAttentionPrelude = detail::prelude_text("attention.cuh"),
                                  kCpuAttentionPrelude = detail::prelude_text("attention.h"),
                                  kNextPrelude = detail::prelude_text("next.cuh"),
                                  kTimingPrelude = detail::prelude_text("timing.h"),
                                  kLibraryPrelude = detail::prelude_text("library.h");

struct Helper {
  std::string_view name;  // "caravan_to_u8"
  std::string_view text;
};

namespace detail {

inline constexpr std::string_view kHelperTexts[] = {prelude_text("keep_loop.h"), prelude_text("convert.h"),
                                                    prelude_text("random.h")};
constexpr size_t helper_count() {
  size_t count = 0;
  for (std::string_view text : kHelperTexts) count += paragraphs(text);
  return count;
}
constexpr auto split_helpers() {
  std::array<Helper, helper_count()> out{};
  size_t n = 0;
  for (std::string_view text : kHelperTexts)
    while (!text.empty()) {
      const size_t end = text.find("\n\n");
      const std::string_view paragraph = text.substr(0, end == text.npos ? end : end + 1);
      const size_t name = paragraph.find("caravan_");
      out[n++] = {paragraph.substr(name, paragraph.find('(', name) - name), paragraph};
      text.remove_prefix(end == text.npos ? text.size() : end + 2);
    }
  return out;
}

}  // namespace detail

inline constexpr auto kHelpers = detail::split_helpers();

// The beginning of every text in GNU C, with or without the elementary functions, and with attention.h for such tiles
// or without.
std::string cpu_prelude(bool with_math, const loop::Attention* attention = nullptr);

}  // namespace caravan::codegen
