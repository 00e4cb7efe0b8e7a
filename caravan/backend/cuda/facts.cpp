#include "caravan/backend/cuda/compile.h"
#include "caravan/backend/cuda/cublas.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/cuda/driver.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"

namespace caravan::cuda {

namespace {

Facts find_facts() {
  Facts out;
  out.driver = has_driver();
  try {
    const Driver& d = driver();
    int count = 0;
    check(d.device_count(&count), "the GPUs cannot be counted");
    if (count == 0) throw NoGpuError("there is no GPU on this machine.");
    const Nvrtc& compiler = nvrtc();
    std::vector<std::string> names;
    for (int k = 0; k < count; ++k) {
      DeviceNumber device = 0;
      char name[256] = "";
      if (d.device_get(&device, k) == 0 && d.device_name(name, sizeof name, device) == 0) names.emplace_back(name);
    }
    out.count = count;
    out.note = joined(names) + "; driver for CUDA " + std::to_string(d.version / 1000) + "." +
               std::to_string(d.version % 1000 / 10) + ", run-time compiler " + std::to_string(compiler.major) + "." +
               std::to_string(compiler.minor);
  } catch (const BackendError& error) {
    out.count = 0;
    out.note = reason_of(error);
  }
  return out;
}

}  // namespace

const Facts& facts() {
  static const Facts found = find_facts();
  return found;
}
std::string library_note() {
  if (const CublasLt* found = cublas_lt())
    return "cuBLASLt " + std::to_string(found->version / 10000) + "." + std::to_string(found->version / 100 % 100);
  return "no library for large products: " + why_no_cublas_lt();
}

}  // namespace caravan::cuda
