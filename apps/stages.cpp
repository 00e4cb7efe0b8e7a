#include "apps/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "apps/kernel_table.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/codegen/c.h"
#include "caravan/runtime/see.h"
#include "caravan/runtime/trace.h"
#include "caravan/tensor/infer.h"

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
  return {"graph", "shapes", "constraints", "assignments", "loops", "optimized", "c", "memory", "kernels"};
}

Stages::Stages(const Recipe& recipe, std::vector<std::string> passes_off)
    : loss_(recipe.loss), program_(recipe.program), options_{std::move(passes_off)} {
  const std::vector<std::string> known = passes::names();
  for (const std::string& name : options_.off)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw ConfigError(fmt::format("there is no pass `{}`; there are: {}.", name, joined(known)));
}

const passes::Result& Stages::compiled() const {
  if (!compiled_) compiled_ = passes::run(to_ir(program_, Inference(program_)), options_);
  return *compiled_;
}

std::string Stages::c() const { return codegen::to_c(module()); }
std::string Stages::graphviz() const { return caravan::graphviz(loss_); }

std::string Stages::text(const std::string& stage) const {
  if (stage == "graph") return printed([](std::ostream& out, const Tensor& t) { print_graph(out, t); }, loss_);
  if (stage == "shapes") return printed(print_shapes, program_);
  if (stage == "constraints") return printed(print_constraints, program_);
  if (stage == "assignments") return printed(print_assignments, program_);
  if (stage == "loops") return loop::to_string(compiled().lowered);
  if (stage == "optimized") return loop::to_string(module());
  if (stage == "c") return c();
  if (stage == "memory") return memory_table(module(), memory());
  if (stage == "kernels") return kernel_table(module());
  if (stage == "cuda") throw ConfigError("this build has no stage `cuda`: it makes code for the processor alone.");
  throw ConfigError(fmt::format("there is no stage `{}`; there are: {}.", stage, joined(stage_names())));
}

std::string Stages::pass_log() const {
  std::string out;
  for (const passes::LogEntry& entry : compiled().log)
    out +=
        fmt::format("pass {:<18} {:9.3f} ms{}\n", entry.pass, entry.milliseconds, entry.changed ? "" : "  (unchanged)");
  return out;
}

void Stages::dump(const OutputFolder& folder) const {
  for (const std::string& stage : stage_names()) folder.write(stage == "c" ? "step.c" : stage + ".txt", text(stage));
  folder.write("graph.dot", graphviz());
}

std::string traced(const Recipe& recipe, Context& ctx, int64_t step, const std::vector<std::string>& passes_off) {
  std::ostringstream out;
  write_trace(out, recipe.program, ctx, {.indices = recipe.at(step), .passes_off = passes_off});
  return out.str();
}

}  // namespace caravan::app
