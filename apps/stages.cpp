#include "apps/stages.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "apps/kernel_table.h"
#include "apps/unknown_name.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/base/error.h"
#include "caravan/codegen/c.h"
#include "caravan/codegen/cuda.h"
#include "caravan/runtime/see.h"
#include "caravan/runtime/trace.h"

namespace caravan::app {

namespace {

template <class Print, class What>
std::string printed(Print print, const What& what) {
  std::ostringstream out;
  print(out, what);
  return out.str();
}

}  // namespace

std::vector<std::string> stage_names() {
  return {"graph", "shapes", "constraints", "assignments", "loops", "optimized", "c", "cuda", "memory", "kernels"};
}

std::string Stages::graphviz() const {
  Context ctx({.seed = recipe_.schedule.seed, .device = "interp"});
  return caravan::graphviz(recipe_.loss, ctx, recipe_.at(0));
}

// The texts that the C compiler is given, byte for byte, each after a line with its name in the cache of kernels: the
// hash of what is compiled.
std::string Stages::c_text() const {
  const std::vector<std::string> units = codegen::to_units(plan_.scheduled);
  std::vector<std::string> paths;
  try {
    cc::CompilerOptions options;
    options.cache = cache_;
    paths = cc::kept_texts(units, cc::tested(options));
  } catch (const BackendError&) {  // a compiler that nobody should use
  }
  std::string out;
  for (size_t t = 0; t < units.size(); ++t) {
    if (!paths.empty()) out += "/* " + std::filesystem::path(paths[t]).filename().string() + " */\n";
    out += units[t];
  }
  return out;
}

// The CUDA C++ of the step, for the GPU that the plan is for, or for a common one if it is for the processor. It needs
// no GPU.
std::string Stages::cuda_text() const {
  const bool for_gpu = plan_.target.kind == Target::Kind::cuda;
  const codegen::CudaText text =
      codegen::to_cuda(for_gpu ? plan_.scheduled : plan::make_plan(plan_.program, gpu_target()).scheduled);
  std::string out;
  for (const std::string& part : text.texts) out += part;
  return out;
}

std::string Stages::text(const std::string& stage) const {
  if (stage == "graph") return printed([](std::ostream& out, const Tensor& t) { print_graph(out, t); }, recipe_.loss);
  if (stage == "shapes") return printed([](std::ostream& out, const Routine& r) { print_shapes(out, r); }, step_);
  if (stage == "constraints")
    return printed([](std::ostream& out, const Routine& r) { print_constraints(out, r); }, step_);
  if (stage == "assignments") return step_.to_string();
  if (stage == "loops") return loop::to_string(plan::unoptimized(plan_));
  if (stage == "optimized") return loop::to_string(plan_.scheduled);
  if (stage == "c") return c_text();
  if (stage == "cuda") return cuda_text();
  if (stage == "memory") return memory_table(plan_);
  if (stage == "kernels") return kernel_table(plan_);
  throw ConfigError(unknown_name("stage", stage, stage_names()));
}

std::string Stages::pass_log() const {
  std::string out;
  for (const plan::LogEntry& entry : plan_.log)
    out +=
        fmt::format("pass {:<18} {:9.3f} ms{}\n", entry.pass, entry.milliseconds, entry.changed ? "" : "  (unchanged)");
  return out;
}

void Stages::dump(const OutputFolder& folder) const {
  for (const std::string& stage : stage_names()) folder.write(stage == "c" ? "step.c" : stage + ".txt", text(stage));
  folder.write("graph.dot", graphviz());
}

std::string traced(const Recipe& recipe, Context& ctx, int64_t step, const Routine& routine) {
  std::ostringstream out;
  write_trace(out, recipe.program, ctx, {.indices = recipe.at(step), .routine = &routine});
  return out.str();
}

}  // namespace caravan::app
