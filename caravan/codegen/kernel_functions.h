// What all texts of programs have in common: kernels that differ only in their buffers share a function, and a call of
// one ends with what its random bits need.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "caravan/base/random.h"
#include "caravan/codegen/kernel_printer.h"

namespace caravan::codegen {

// The names of the functions of a text, by what kernels are with numbered names.
class KernelFunctions {
 public:
  struct Found {
    const std::string& name;
    size_t number;  // among the functions
    bool fresh;     // no kernel before had this function
  };
  // The function of a kernel; `name` is that of a fresh one.
  template <class Printer, class Language>
  Found find(const loop::Module& module, const loop::Kernel& kernel, const Language& dialect, const std::string& name) {
    Printer numbered(module, kernel, dialect, Printer::Names::numbered);
    const auto [at, fresh] = known_.try_emplace(numbered.head("") + numbered.body(), name, known_.size());
    return {at->second.first, at->second.second, fresh};
  }

 private:
  std::map<std::string, std::pair<std::string, size_t>> known_;
};

// The last arguments of a kernel with random bits: the seed, and a number for each of its streams.
inline void add_streams(std::vector<std::string>& arguments, const Uses& uses, const std::string& seed) {
  if (!uses.streams.empty()) arguments.push_back(seed);
  for (const std::string& stream : uses.streams) arguments.push_back(std::to_string(hash_name(stream)) + "ULL");
}

}  // namespace caravan::codegen
