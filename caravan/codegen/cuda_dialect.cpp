#include "caravan/codegen/cuda_dialect.h"

#include <algorithm>
#include <string_view>

#include "caravan/codegen/functions.h"
#include "caravan/loop/dependence.h"
#include "caravan/loop/grid.h"
#include "caravan/loop/walk.h"

namespace caravan::codegen {

using namespace loop;

namespace {

// Functions of CUDA that are at most two units in the last place off in f32, with the special values of C99. They use
// the hardware's own exponential and logarithm, and take a third of the instructions of those in prelude/math.h.
constexpr std::string_view kOfCuda[] = {"exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf"};

std::string lanes_of(const Grid& grid) { return std::to_string(grid.lanes) + ", " + (grid.spread ? "true" : "false"); }

}  // namespace

Cuda::Cuda(const Kernel& kernel) : grid_(kernel.grid), index_(kernel.grid.narrow ? "int" : "int64_t") {
  for_each_with_path(statements(kernel), [&](const Statement& s, const Path& path) {
    auto* loop = std::get_if<For>(&s);
    const bool inner = loop && std::any_of(path.begin(), path.end(), [&](const Statement* around) {
                         auto* outer = std::get_if<For>(around);
                         return outer && outer->kind == loop->kind;
                       });
    if (loop && !inner) outermost_.insert(loop);
  });
}

std::string Cuda::free_name(const std::string& identifier) const {
  static const std::set<std::string> kTaken = {
      "and",     "bool",      "catch",   "class",    "delete",    "explicit",  "export",   "false",    "friend",
      "min",     "max",       "abs",     "mutable",  "namespace", "new",       "not",      "operator", "or",
      "private", "protected", "public",  "template", "this",      "throw",     "true",     "try",      "typename",
      "using",   "virtual",   "wchar_t", "xor",      "dim3",      "threadIdx", "blockIdx", "blockDim", "gridDim"};
  return kTaken.count(identifier) ? identifier + "_" : identifier;
}
std::string Cuda::head(const std::string& function, const std::vector<std::string>& parameters) const {
  return "static " + Dialect::head(function, parameters);
}
// With `__restrict__` a compiler may move the load of an element before the barrier that waits until another lane has
// stored it: it takes for granted that only this thread changes the element.
std::string Cuda::buffer_parameter(DType dtype, const std::string& name, BufferUse use) const {
  return (use == BufferUse::read ? "const " : "") + element_type(dtype) +
         (use == BufferUse::exchanged ? "* " : "* CARAVAN_RESTRICT ") + name;
}
std::vector<std::string> Cuda::work_parameters(const Kernel&) const {
  return {"int caravan_block", "int caravan_blocks"};
}
std::string Cuda::function(std::string_view name, DType compute) const {
  const bool of_cuda =
      compute == DType::f32 && std::find(std::begin(kOfCuda), std::end(kOfCuda), name) != std::end(kOfCuda);
  if (!in_prelude(name) || of_cuda) return Dialect::function(name, compute);
  return "caravan_" + std::string(name) + (compute == DType::f32 ? "_f32" : "_f64");
}
std::string Cuda::local(const Local& local, const std::string& name) const {
  return (local.scope == Scope::shared ? "__shared__ " : "") + Dialect::local(local, name);
}
std::vector<std::string> Cuda::before_loop(const For& loop) const {
  if (loop.kind == LoopKind::unrolled || loop.unroll == Unroll::full) return {"#pragma unroll"};
  if (loop.unroll == Unroll::some) return {"#pragma unroll " + std::to_string(loop.at_once)};
  return {};
}
std::string Cuda::loop(const For& loop, const std::string& variable) const {
  const std::string extent = std::to_string(loop.extent);
  if (loop.kind != LoopKind::grid && loop.kind != LoopKind::lanes)
    return "for (" + index_ + " " + variable + " = 0; " + variable + " < " + extent + "; ++" + variable + ") {";
  const bool grid = loop.kind == LoopKind::grid, outermost = outermost_.count(&loop) > 0;
  std::string digit = grid ? "caravan_at" : "caravan_turn";
  if (loop.chunk > 1) digit += " / " + std::to_string(loop.chunk);
  if (!outermost) digit += " % " + extent;
  const std::string first =
      (loop.extent == 1 ? "[[maybe_unused]] const " : "const ") + index_ + " " + variable + " = " + digit + ";";
  if (!outermost) return "{ " + first;
  const std::string all = std::to_string(loop.extent * loop.chunk), lanes = std::to_string(grid_.lanes);
  if (!grid)
    return "for (" + index_ + " caravan_turn = caravan_lane; caravan_turn < " + all + "; caravan_turn += " + lanes +
           ") { " + first;
  const std::string groups = grid_.lanes > 1 ? "caravan_threads() / " + lanes : "caravan_threads()";
  if (grid_.spread)
    return "for (" + index_ + " caravan_from = " + index_ + "(caravan_block) * (" + groups + "); caravan_from < " +
           all + "; caravan_from += " + index_ + "(caravan_blocks) * (" + groups + ")) { const " + index_ +
           " caravan_own = caravan_from + int(threadIdx.x) % (" + groups + "), caravan_at = caravan_own < " + all +
           " ? caravan_own : " + all + " - 1; const int caravan_lane = caravan_own < " + all +
           " ? int(threadIdx.x) / (" + groups + ") : INT32_MAX; " + first;
  return "for (" + index_ + " caravan_at = caravan_thread<" + index_ + ">(caravan_block)" +
         (grid_.lanes > 1 ? " / " + lanes : "") + "; caravan_at < " + all + "; caravan_at += " + index_ +
         "(caravan_blocks) * (" + groups + ")) { " +
         (grid_.lanes > 1 ? "const int caravan_lane = int(threadIdx.x) % " + lanes + "; " : "") + first;
}
std::string Cuda::barrier(const Grid& grid) const { return "caravan_wait<" + lanes_of(grid) + ">();"; }
std::string Cuda::across_lanes(const Grid& grid, DType dtype, const std::string& value,
                               const std::string& combined) const {
  const std::string type = element_type(dtype);
  return "caravan_across<" + lanes_of(grid) + ", " + type + ">(" + value + ", [](" + type + " a, " + type +
         " b) { return " + type + "(" + combined + "); })";
}

}  // namespace caravan::codegen
