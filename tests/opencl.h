// OpenCL C as a dialect.
#pragma once

#include "caravan/codegen/dialect.h"

namespace caravan::codegen {

class OpenCl : public Dialect {
 public:
  std::string head(const std::string& function, const std::vector<std::string>& parameters) const override {
    return "__kernel " + Dialect::head(function, parameters);
  }
  std::string buffer_parameter(DType dtype, const std::string& name, BufferUse use) const override {
    return "__global " + Dialect::buffer_parameter(dtype, name, use);
  }
  std::string function(std::string_view name, DType) const override { return std::string(name); }  // overloaded
  std::string local(const loop::Local& local, const std::string& name) const override {
    return (local.scope == loop::Scope::shared ? "__local " : "") + Dialect::local(local, name);
  }
  std::string loop(const loop::For& loop, const std::string& variable) const override {
    const bool shared = loop.kind == loop::LoopKind::parallel && loop.chunk > 0;  // not those inside of another one
    if (!shared) return Dialect::loop(loop, variable);
    return "for (int64_t " + variable + " = get_global_id(0); " + variable + " < " + std::to_string(loop.extent) +
           "; " + variable + " += get_global_size(0)) {";
  }
};

}  // namespace caravan::codegen
