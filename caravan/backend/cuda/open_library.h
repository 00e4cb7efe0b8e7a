// Opens a library of NVIDIA when it is first needed, and finds its functions.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "caravan/backend/cuda/driver.h"

namespace caravan::cuda {

// The first of these that can be opened, or null.
inline void* open_first(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}
// Where a part of the CUDA toolkit may be, such as "libnvrtc.so": what the variable of the environment names, then
// where the system finds libraries, then in CUDA's folder.
std::vector<std::string> toolkit_names(const char* variable, const std::string& library);

// Throws NoGpuError if the library has no such function; `what` says which library it is.
template <class Function>
void find_function(void* library, const char* symbol, Function& function, const char* what) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!function) throw NoGpuError(std::string(what) + " has no function " + symbol + "; install a newer one.");
}

}  // namespace caravan::cuda
