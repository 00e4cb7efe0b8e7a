#include "apps/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "apps/kernel_table.h"
#include "apps/mesh_table.h"
#include "apps/unknown_name.h"
#include "caravan/backend/cc/device.h"
#include "caravan/backend/cc/self_test.h"
#include "caravan/backend/cuda/compile.h"
#include "caravan/base/error.h"
#include "caravan/codegen/c.h"
#include "caravan/codegen/cuda.h"
#include "caravan/runtime/devices.h"
#include "caravan/runtime/print.h"
#include "caravan/runtime/trace.h"

namespace caravan::app {

using namespace std::string_literals;

namespace {

template <class Print, class What>
std::string printed(Print print, const What& what) {
  std::ostringstream out;
  print(out, what);
  return out.str();
}

// Texts as the compiler is given them, byte for byte, each after a line with its name in the cache of compiled code:
// the hash of what is compiled. `would_be` computes the paths of texts that were not compiled.
template <class Paths>
std::string with_names(const std::vector<std::string>& texts, const Code& code, Paths would_be) {
  std::vector<std::string> paths = code.sources;
  if (paths.empty()) try {
      paths = would_be(texts);
    } catch (const BackendError&) {  // there is no compiler that the names could depend on, or none to be used
    }
  std::string out;
  for (size_t t = 0; t < texts.size(); ++t) {
    if (!paths.empty()) out += "/* " + std::filesystem::path(paths[t]).filename().string() + " */\n";
    out += texts[t];
  }
  return out;
}

std::string c_text(const plan::Plan& plan, const Code& code) {
  return with_names(codegen::to_units(plan.scheduled).texts, code, [&](const std::vector<std::string>& texts) {
    return cc::kept_texts(texts, cc::tested(cpu_options(code.options).compiler));
  });
}

std::string cuda_text(const plan::Plan& plan, const Code& code) {
  const std::vector<std::string> all = codegen::to_cuda(plan.scheduled, codegen::form_of(plan.scheduled)).texts;
  return with_names(all, code, [&](const std::vector<std::string>& texts) {
    std::vector<std::string> out;
    for (const std::string& text : texts) out.push_back(cuda::key_of(text, plan.target.gpu.compute) + ".cu");
    return out;
  });
}

// In which language is the code of the plan?
std::string language(const plan::Plan& plan) { return plan.target.kind == Target::Kind::cuda ? "cuda" : "c"; }

}  // namespace

std::vector<std::string> stage_names() {
  std::vector<std::string> out = {"graph", "shapes", "constraints", "assignments"};
  for (const std::string& name : plan_stage_names()) out.push_back(name);
  return out;
}
std::vector<std::string> plan_stage_names() { return {"loops", "optimized", "c", "cuda", "memory", "kernels", "plan"}; }

std::string Stages::graphviz() const {
  Context ctx({.seed = recipe_.schedule.seed, .device = "interp"});
  return caravan::graphviz(recipe_.loss, ctx, recipe_.at(0));
}

std::string stage_of(const plan::Plan& plan, const std::string& stage, const Code& code) {
  if (stage == "loops") {
    plan::Log log;
    return loop::to_string(plan::unoptimized(plan.program, plan.target, log));
  }
  if (stage == "optimized") return loop::to_string(plan.scheduled);
  if (stage == "c" || stage == "cuda") {
    if (stage != language(plan))
      throw ConfigError(stage == "c"
                            ? "the code of a GPU is CUDA C++, not C: use --stage cuda, or --device cpu."
                            : "the code of the processor is C, not CUDA C++: use --stage c, or --device cuda.");
    return stage == "c" ? c_text(plan, code) : cuda_text(plan, code);
  }
  if (stage == "memory") return memory_table(plan);
  if (stage == "kernels") return kernel_table(plan);
  if (stage == "plan") return mesh_table(plan);
  throw ConfigError(unknown_name("stage", stage, plan_stage_names()));
}

std::string Stages::text(const std::string& stage) const {
  if (stage == "graph") return printed([](std::ostream& out, const Tensor& t) { print_graph(out, t); }, recipe_.loss);
  if (stage == "shapes") return printed([](std::ostream& out, const Routine& r) { print_shapes(out, r); }, step_);
  if (stage == "constraints")
    return printed([](std::ostream& out, const Routine& r) { print_constraints(out, r); }, step_);
  if (stage == "assignments") return step_.to_string();
  const std::vector<std::string> of_plans = plan_stage_names();
  if (std::find(of_plans.begin(), of_plans.end(), stage) != of_plans.end()) return stage_of(plan_, stage, code_);
  throw ConfigError(unknown_name("stage", stage, stage_names()));
}

void check_measured_stage(bool measure, const std::string& stage) {
  if (measure && stage != "kernels")
    throw ConfigError("--measure adds the share of the time of each kernel; use it with --stage kernels.");
}

std::string pass_log(const plan::Plan& plan) {
  std::string out;
  for (const plan::LogEntry& entry : plan.log)
    out +=
        fmt::format("pass {:<18} {:9.3f} ms{}\n", entry.pass, entry.milliseconds, entry.changed ? "" : "  (unchanged)");
  return out;
}

void Stages::dump(const OutputFolder& folder) const {
  const std::string other = language(plan_) == "c" ? "cuda" : "c";
  for (const std::string& stage : stage_names())
    if (stage != other)
      folder.write(stage == "c" ? "step.c" : stage == "cuda" ? "step.cu" : stage + ".txt", text(stage));
  folder.write("graph.dot", graphviz());
}

std::string traced(const Recipe& recipe, Context& ctx, int64_t step, const Routine& routine) {
  std::ostringstream out;
  write_trace(out, recipe.program, ctx, {.indices = recipe.at(step), .routine = &routine});
  return out.str();
}

}  // namespace caravan::app
