#include "caravan/backend/nccl/combine.h"

#include "caravan/base/error.h"

namespace caravan::nccl {

namespace {

// How elements are stored, and in which type they are combined: integers wrap, and narrow floats are combined in f32
// and rounded once.
struct Types {
  const char *stored, *computed, *load, *store;
};
Types types_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return {"unsigned char", "unsigned char", "x", "x"};
    case DType::i32: return {"int", "int", "x", "x"};
    case DType::i64: return {"long long", "long long", "x", "x"};
    case DType::f32: return {"float", "float", "x", "x"};
    case DType::f64: return {"double", "double", "x", "x"};
    case DType::f16: return {"unsigned short", "float", "from_half(x)", "to_half(x)"};
    case DType::bf16: return {"unsigned short", "float", "from_bfloat(x)", "to_bfloat(x)"};
  }
  return {};
}

std::string both_text(DType dtype, Accumulator accumulator) {
  const bool is_integer = !is_float(dtype);
  const std::string wrapping = dtype == DType::i64 ? "unsigned long long" : "unsigned";
  auto wrapped = [&](const char* op) {
    return is_integer ? "Computed((" + wrapping + ")a " + op + " (" + wrapping + ")b)" : std::string("a ") + op + " b";
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

// Rounds to nearest, ties to even; NaN stays one.
constexpr const char* kConversions = R"(
__device__ float from_half(unsigned short x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
__device__ unsigned short to_half(float x) {
  unsigned short y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y;
}
__device__ float from_bfloat(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
__device__ unsigned short to_bfloat(float x) {
  const unsigned bits = __float_as_uint(x);
  if (x != x) return (unsigned short)(bits >> 16 | 0x40);
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
)";

// Partial results of 1, 2, 4, ... rows wait until as many rows follow them. Those that are left at the end are combined
// from the smallest to the largest: the tree of backend::combine.
constexpr const char* kKernel = R"(
extern "C" __global__ void caravan_combine(const Stored* rows, Stored* out, long long count, long long n) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x; k < count; k += step) {
    Computed waiting[32];
    int levels[32], depth = 0;
    for (long long r = 0; r < n; ++r) {
      Computed value = load(rows[r * count + k]);
      int level = 0;
      for (; depth > 0 && levels[depth - 1] == level; ++level) value = both(waiting[--depth], value);
      waiting[depth] = value, levels[depth++] = level;
    }
    Computed total = waiting[--depth];
    while (depth > 0) total = both(waiting[--depth], total);
    out[k] = store(total);
  }
}
)";

}  // namespace

std::string combine_text(DType dtype, Accumulator accumulator) {
  const Types types = types_of(dtype);
  return std::string(kConversions) + "typedef " + types.stored + " Stored;\ntypedef " + types.computed +
         " Computed;\n__device__ Computed load(Stored x) { return " + types.load +
         "; }\n__device__ Stored store(Computed x) { return " + types.store +
         "; }\n__device__ Computed both(Computed a, Computed b) { return " + both_text(dtype, accumulator) + "; }\n" +
         kKernel;
}

}  // namespace caravan::nccl
