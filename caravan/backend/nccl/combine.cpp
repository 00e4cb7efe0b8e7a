#include "caravan/backend/nccl/combine.h"

#include "caravan/base/error.h"
#include "caravan/codegen/prelude.h"

namespace caravan::nccl {

namespace {

constexpr codegen::PreludeFile kFiles[] = {
#include "caravan/backend/nccl/prelude.inc"
};

// How elements are stored, in which type they are combined, and the functions of the prelude that convert one into the
// other: integers wrap, and narrow floats are combined in f32 and rounded once.
struct Types {
  std::string stored, computed, load{}, store{};
};
Types types_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return {"uint8_t", "uint8_t"};
    case DType::i32: return {"int32_t", "int32_t"};
    case DType::i64: return {"int64_t", "int64_t"};
    case DType::f32: return {"float", "float"};
    case DType::f64: return {"double", "double"};
    case DType::f16: return {"uint16_t", "float", "caravan_from_f16", "caravan_to_f16"};
    case DType::bf16: return {"uint16_t", "float", "caravan_from_bf16", "caravan_to_bf16"};
  }
  return {};
}

std::string both_text(DType dtype, Accumulator accumulator) {
  const bool is_integer = !is_float(dtype);
  const std::string wrapping = dtype == DType::i64 ? "uint64_t" : "uint32_t";
  auto wrapped = [&](const std::string& op) {
    return is_integer ? wrapping + "(a) " + op + " " + wrapping + "(b)" : "a " + op + " b";
  };
  const bool is_boolean = dtype == DType::boolean;
  switch (accumulator) {
    case Accumulator::add: return is_boolean ? "a != 0 || b != 0" : wrapped("+");
    case Accumulator::mul: return is_boolean ? "a != 0 && b != 0" : wrapped("*");
    case Accumulator::max: return "a >= b || a != a ? a : b";
    case Accumulator::min: return "a <= b || a != a ? a : b";
    case Accumulator::or_: return "a != 0 || b != 0";
    case Accumulator::and_: return "a != 0 && b != 0";
    default: break;
  }
  CARAVAN_CHECK(false, "positions cannot be combined");
  return "";
}

}  // namespace

std::string combine_text(DType dtype, Accumulator accumulator) {
  const Types types = types_of(dtype);
  std::string out(codegen::kCudaPrelude);
  for (const codegen::Helper& helper : codegen::kHelpers)
    if (helper.name == types.load || helper.name == types.store) out.append("\n").append(helper.text);
  auto function = [](const std::string& parameters, const std::string& result, const std::string& value) {
    return "      [](" + parameters + ") -> " + result + " { return " + value + "; }";
  };
  out.append("\n").append(codegen::prelude_text(kFiles, "combine.cuh"));
  return out + "\nextern \"C\" __global__ void " + kCombine + "(const " + types.stored + "* rows, " + types.stored +
         "* out, int64_t count, int64_t n) {\n  caravan_combine_rows(\n      rows, out, count, n,\n" +
         function(types.stored + " x", types.computed, types.load + "(x)") + ",\n" +
         function(types.computed + " a, " + types.computed + " b", types.computed, both_text(dtype, accumulator)) +
         ",\n" + function(types.computed + " x", types.stored, types.store + "(x)") + ");\n}\n";
}

}  // namespace caravan::nccl
