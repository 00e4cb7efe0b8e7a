// Copies into another order of axes are made in square blocks of vectors.
#include "caravan/schedule/tile_transposes.h"

#include <gtest/gtest.h>

#include "caravan/loop/walk.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

using namespace loop;

Tensor transposed(const std::string& shape, DType dtype) {
  Array numbers(parse_shape(shape), dtype);
  for (int64_t i = 0; i < numbers.size(); ++i) numbers.set(i, double(i));
  return einsum("i, j => j, i", param("x", numbers));
}
int interleaved(const Module& module) {
  int out = 0;
  for (const Kernel& kernel : module.kernels)
    for_each_of<Define>(statements(kernel),
                        [&](const Define& d) { out += std::holds_alternative<Interleave>(d.value); });
  return out;
}
Target with_vectors(int64_t bytes) {
  Target out;
  out.vector_bytes = bytes;
  return out;
}

TEST(TileTransposes, TakesTheWidestVectorsThatFit) {
  struct Row {
    const char* shape;
    DType dtype;
    int64_t vector_bytes;
    int interleaved;  // size * log2(size) in each block
  };
  const Row rows[] = {
      {"32,16", DType::f32, 64, 64},     {"32,16", DType::f32, 32, 24},     {"32,16", DType::f64, 64, 24},
      {"8,100", DType::f32, 64, 2 * 24}, {"17,16", DType::f32, 64, 2 * 64}, {"5,7", DType::f32, 64, 4 * 8},
      {"3,64", DType::f32, 64, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.shape);
    EXPECT_EQ(interleaved(
                  tile_transposes(lowered(observe(transposed(row.shape, row.dtype))), with_vectors(row.vector_bytes))),
              row.interleaved);
  }
}

TEST(TileTransposes, MustRefuse) {
  auto of = [](const char* name, const char* shape) { return parameter(name, shape); };
  auto in = [](DType dtype) { return [dtype] { return observe(transposed("32,16", dtype)); }; };
  const std::vector<LoopRefusal> rows = {
      {"something is computed", [of] { return observe(einsum("i,j; i => j,i", of("x", "32,16"), of("s", "32"))); }, {}},
      {"integers", in(DType::i32), {}},
      {"f16", in(DType::f16), {}},
      {"an axis of less than four elements", [of] { return observe(einsum("i,j => j,i", of("x", "3,64"))); }, {}},
      {"the same order as before", [of] { return observe(einsum("i,j => i,j", of("x", "32,16"))); }, {}},
      {"no axis has neighbours in both", [of] { return observe(einsum("i,j,k => j,i,k", of("x", "32,16,8"))); }, {}},
      {"a sum", [of] { return observe(einsum("i,j,k => k,i", of("x", "8,8,8"))); }, {}},
  };
  expect_refused(for_tested(tile_transposes), rows);
}

TEST(TileTransposes, CopiesEveryElement) {
  for (const char* shape : {"4,4", "5,7", "16,16", "33,18", "8,100", "64,48"})
    for (DType dtype : {DType::f32, DType::f64}) {
      SCOPED_TRACE(shape);
      const Tensor result = transposed(shape, dtype);
      Context ctx({.device = "cpu"});
      Routine routine = ctx.compile(observe(result));
      routine.run();
      const Array y = routine.read(result);
      const int64_t rows = y.shape().sizes()[1], columns = y.shape().sizes()[0];
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) ASSERT_EQ(y.at(j * rows + i), double(i * columns + j)) << i << ", " << j;
    }
}

}  // namespace
}  // namespace caravan::schedule
