#include "caravan/codegen/dialect.h"

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/codegen/functions.h"
#include "caravan/codegen/words.h"

namespace caravan::codegen {

using loop::For;
using loop::LoopKind;
using loop::RegisterType;
using loop::Unroll;

// --- C99 ---

std::string Dialect::element_type(DType dtype) const { return c_type(dtype); }
std::string Dialect::register_type(RegisterType type) const {
  CARAVAN_CHECK(type.width == 1, "a vector in a language without vectors");
  return c_type(type.dtype);
}
std::string Dialect::head(const std::string& function, const std::vector<std::string>& parameters) const {
  return "void " + function + "(" + (parameters.empty() ? "void" : joined(parameters)) + ")";
}
std::string Dialect::buffer_parameter(DType dtype, const std::string& name, BufferUse use) const {
  return (use == BufferUse::read ? "const " : "") + element_type(dtype) + "* restrict " + name;
}
std::string Dialect::function(std::string_view name, DType compute) const {
  return std::string(name) + (compute == DType::f32 ? "f" : "");
}
std::string Dialect::helper(std::string_view name) const { return "caravan_" + std::string(name); }
std::string Dialect::local(const loop::Local& local, const std::string& name) const {
  return element_type(local.dtype) + " " + name + "[" + std::to_string(local.elements) + "];";
}
std::string Dialect::loop(const For& loop, const std::string& variable) const {
  return "for (int64_t " + variable + " = 0; " + variable + " < " + std::to_string(loop.extent) + "; ++" + variable +
         ") {";
}
std::string Dialect::vector_at(RegisterType, const std::string&, bool) const {
  CARAVAN_CHECK(false, "a vector in a language without vectors");
  return "";
}

std::string Dialect::barrier(const loop::Grid&) const {
  CARAVAN_CHECK(false, "a barrier in a language without lanes");
  return "";
}
std::string Dialect::across_lanes(const loop::Grid&, DType, const std::string&, const std::string&) const {
  CARAVAN_CHECK(false, "a total across lanes in a language without lanes");
  return "";
}

// --- GNU C ---

std::vector<std::string> GnuC::work_parameters(const loop::Kernel& kernel) const {
  return shares(kernel) ? std::vector<std::string>{"int64_t from", "int64_t to"} : std::vector<std::string>{};
}

std::string GnuC::register_type(RegisterType type) const {
  if (type.width == 1) return c_type(type.dtype);
  return "caravan_" + std::string(name(type.dtype)) + "x" + std::to_string(type.width);
}
std::string GnuC::function(std::string_view name, DType compute) const {
  if (!in_prelude(name)) return Dialect::function(name, compute);
  return "caravan_" + std::string(name) + (compute == DType::f32 ? "_f32" : "_f64");
}
std::string GnuC::local(const loop::Local& local, const std::string& name) const {
  const std::string alignment = local.alignment > 0 ? "_Alignas(" + std::to_string(local.alignment) + ") " : "";
  return alignment + Dialect::local(local, name);
}
std::vector<std::string> GnuC::before_loop(const For& loop) const {
  if (loop.kind == LoopKind::vector || loop.vector) return {"#pragma GCC ivdep"};
  if (loop.kind == LoopKind::unrolled || loop.unroll == Unroll::full)
    return {"#pragma GCC unroll " + std::to_string(loop.extent)};
  if (loop.unroll == Unroll::some) return {"#pragma GCC unroll " + std::to_string(loop.at_once)};
  if (loop.unroll == Unroll::lanes) return {"#pragma GCC unroll 1"};
  return {};
}
std::string GnuC::loop(const For& loop, const std::string& variable) const {
  if (loop.kind != LoopKind::parallel) return Dialect::loop(loop, variable);
  const int64_t inside = parallel_iterations(loop) / loop.extent;
  if (loop.chunk > 0 && inside == 1)
    return "for (int64_t " + variable + " = from; " + variable + " < to; ++" + variable + ") {";
  // A nest of parallel loops is one loop, over all of their iterations.
  const std::string all = loop.chunk > 0 ? "for (int64_t caravan_at = from; caravan_at < to; ++caravan_at) {" : "{";
  return all + " const int64_t " + variable + " = caravan_at" + (inside > 1 ? " / " + std::to_string(inside) : "") +
         (loop.chunk > 0 ? ";" : " % " + std::to_string(loop.extent) + ";");
}
std::string GnuC::vector_at(RegisterType type, const std::string& element, bool written) const {
  return (written ? "*(" : "*(const ") + register_type(type) + "*)&" + element;
}
std::string GnuC::prefetch(const std::string& from, int64_t bytes, bool nearest) const {
  return helper(nearest ? "prefetch_nearest" : "prefetch") + "(" + from + ", " + std::to_string(bytes) + ");";
}
std::string GnuC::vector_once(RegisterType type, const std::string& element) const {
  return "({ " + register_type(type) + " v = " + vector_at(type, element, false) + "; CARAVAN_IN_REGISTER(v); v; })";
}

// --- plain C ---

std::string PlainC::free_name(const std::string& identifier) const {
  return identifier.starts_with(prefix_ + "_") || identifier.starts_with("caravan_") ? "v_" + identifier : identifier;
}
// An int, because compilers warn about the comparison of an unsigned byte with 0.
std::string PlainC::register_type(RegisterType type) const {
  return bytes(type.dtype) == 1 ? "int" : Dialect::register_type(type);
}
std::string PlainC::helper(std::string_view name) const { return prefix_ + "_" + std::string(name); }

}  // namespace caravan::codegen
