#include "caravan/runtime/automatic_device.h"

#include <fmt/format.h>

#include "caravan/backend/cc/compile.h"
#include "caravan/backend/cc/find_compiler.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/cuda/device.h"
#include "caravan/backend/refused_text.h"
#include "caravan/base/error.h"
#include "caravan/runtime/devices.h"
#include "caravan/target/gpu.h"

namespace caravan {

AutomaticDevice automatic_device(const std::string& cache, Compiler compiler) {
  cc::CompilerOptions options;
  options.cache = cache;
  try {
    if (compiler == Compiler::can_be_run)
      cc::check_can_be_run(options);
    else
      cc::check_compiler(options);
  } catch (const cc::NoCompilerError& error) {
    if (!error.was_here) return {"interp", reason_of(error)};
  } catch (const cc::WrongCompilerError& error) {
    return {"interp", reason_of(error)};
  } catch (const BackendError& error) {
    throw BackendError(backend::brief(error) + "; mend that, or ask for the device `interp`, which needs no compiler.");
  }
  return {"cpu", ""};
}

namespace {
bool is_for_gpu(int64_t operations) { return operations >= Gpu().least_work; }
}  // namespace

bool takes_gpu(int64_t operations) { return is_for_gpu(operations) && gpu_kind().count() > 0; }
AutomaticGpu automatic_gpu(const ContextOptions& options, int64_t operations) {
  if (!is_for_gpu(operations)) return {};
  const cuda::Facts& found = cuda::facts();
  if (found.count == 0) return {nullptr, found.driver ? found.note : ""};
  ContextOptions alone = options;
  alone.device = gpu_kind().name, alone.mesh = {};
  try {
    return {make_device(alone), fmt::format("a step has {:.3g} million operations", double(operations) / 1e6)};
  } catch (const BackendError& error) {
    return {nullptr, backend::brief(error)};
  }
}

}  // namespace caravan
