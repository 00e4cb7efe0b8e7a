// Which sums are kept in lanes.
#include "caravan/optimize/split_sums.h"

#include <gtest/gtest.h>

#include "caravan/base/error.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

TEST(SplitSums, Choice) {
  struct Row {
    const char* name;
    std::function<Tensor()> tensor;
    const char* split;  // the iterator, or ""
  };
  const Row rows[] = {
      {"a product with the weights of a linear map: neighbours are inputs",
       [] { return leaf("w", "64->48")(leaf("x", "4|64")); }, "k0"},
      {"the gradient by its input: neighbours are written side by side",
       [] { return einsum("o,i; b,o => b,i", leaf("w", "48,64"), leaf("x", "4,48")); }, ""},
      {"the gradient by the weights", [] { return einsum("b,o; b,i => o,i", leaf("d", "40,48"), leaf("x", "40,64")); },
       ""},
      {"a sum of everything", [] { return einsum("i,j => ", leaf("a", "4,64")); }, "j"},
      {"a sum over columns: every second element", [] { return einsum("i,j => j", leaf("a", "64,4")); }, ""},
      {"too short to be worth it", [] { return einsum("i,j => ", leaf("a", "64,31")); }, ""},
      {"a long maximum", [] { return einmax("i,j => i", leaf("a", "4,64")); }, "j"},
      {"a product of elements has no order", [] { return einprod("i,j => i", leaf("a", "4,64")); }, ""},
      {"integers", [] { return einsum("i,j => i", cast(leaf("a", "4,64"), DType::i32)); }, ""},
      {"written through an index tensor",
       [] {
         return scatter_add(leaf("v", "64|64"),
                            tensor(Array(parse_shape("64|"), std::vector<double>(64, 1), DType::i32)), 3);
       },
       ""},
  };
  for (const Row& row : rows) {
    const ir::Program p = split_sums(to_ir(observe(row.tensor())), host());
    ir::verify(p);
    const ir::Accumulation& last = p.accumulations.back();
    EXPECT_EQ(last.order.lanes < 0 ? "" : last.iterators[size_t(last.order.lanes)], row.split)
        << row.name << ": " << ir::to_string(p, last);
  }
}

TEST(SplitSums, MustRefuseWhatIsNotASumOverAReducedIterator) {
  for (int split : {0, 2, 7, -2}) {  // i is written; there are two iterators
    ir::Program p = to_ir(observe(einsum("i,j => i", leaf("a", "4,64"))));
    p.accumulations.back().order.lanes = split, p.accumulations.back().order.width = 8;
    EXPECT_THROW(ir::verify(p), InternalError) << split;
  }
}

}  // namespace
}  // namespace caravan::optimize
