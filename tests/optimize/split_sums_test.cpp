// Which sums are kept in lanes, and in blocks.
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
       [] { return parameter("w", "64->48")(parameter("x", "4|64")); }, "k0"},
      {"the gradient by its input: neighbours are written side by side",
       [] { return einsum("o,i; b,o => b,i", parameter("w", "48,64"), parameter("x", "4,48")); }, ""},
      {"the gradient by the weights",
       [] { return einsum("b,o; b,i => o,i", parameter("d", "40,48"), parameter("x", "40,64")); }, ""},
      {"a sum of everything", [] { return einsum("i,j => ", parameter("a", "4,64")); }, "j"},
      {"a sum over columns: every second element", [] { return einsum("i,j => j", parameter("a", "64,4")); }, ""},
      {"too short to be worth it", [] { return einsum("i,j => ", parameter("a", "64,31")); }, ""},
      {"a long maximum", [] { return einmax("i,j => i", parameter("a", "4,64")); }, "j"},
      {"a product of elements has no order", [] { return einprod("i,j => i", parameter("a", "4,64")); }, ""},
      {"integers", [] { return einsum("i,j => i", cast(parameter("a", "4,64"), DType::i32)); }, ""},
      {"written through an index tensor",
       [] {
         return scatter_add(parameter("v", "64|64"),
                            tensor(Array(parse_shape("64|"), std::vector<double>(64, 1), DType::i32)), 3);
       },
       ""},
  };
  for (const Row& row : rows) {
    const ir::Program p = split_sums(to_ir(observe(row.tensor())), tested_target());
    ir::verify(p);
    const ir::Accumulation& last = p.accumulations.back();
    EXPECT_EQ(last.order.lanes < 0 ? "" : last.iterators[size_t(last.order.lanes)], row.split)
        << row.name << ": " << ir::to_string(p, last);
  }
}

TEST(SplitSums, StatesBlocks) {
  struct Row {
    const char* name;
    std::function<Tensor()> tensor;
    const char* order;
  };
  const Row rows[] = {
      {"a chain of 256 is short enough", [] { return einsum("b,c => c", parameter("x", "256,64")); }, ""},
      {"one of 257 is not", [] { return einsum("b,c => c", parameter("x", "257,64")); }, "summed in blocks of 64 b"},
      {"blocks that leave nothing over", [] { return einsum("b,c => c", parameter("x", "1000,64")); },
       "summed in blocks of 50 b"},
      {"blocks of blocks", [] { return einsum("b,c => c", parameter("x", "100000,64")); },
       "summed in blocks of 50 b, 1250 b, 25000 b"},
      {"lanes are eight chains", [] { return einsum("i => ", parameter("x", "2048")); }, ""},
      {"each of which has blocks", [] { return einsum("i => ", parameter("x", "2056")); },
       "summed in 8 lanes of i, blocks of 512 i"},
      {"a million", [] { return einsum("i => ", parameter("x", "1000000")); },
       "summed in 8 lanes of i, blocks of 400 i, 10000 i, 250000 i"},
      {"several iterators are one chain", [] { return einsum("b,h,w,c => c", parameter("x", "8,28,28,32")); },
       "summed in blocks of 2 h, 2 b"},
      {"each row is a block", [] { return einsum("b,h,c => c", parameter("x", "10,100,32")); },
       "summed in blocks of 1 b"},
      {"lanes with something left over are added for each row",
       [] { return einsum("i,j => ", parameter("x", "100,33")); }, "summed in 8 lanes of j, blocks of 5 i"},
      {"a maximum", [] { return einmax("b,c => c", parameter("x", "1000,64")); }, ""},
      {"integers", [] { return einsum("b,c => c", cast(parameter("x", "1000,64"), DType::i32)); }, ""},
      {"written through an index tensor",
       [] {
         return scatter_add(parameter("v", "1000|8"),
                            tensor(Array(parse_shape("1000|"), std::vector<double>(1000, 1), DType::i32)), 3);
       },
       ""},
  };
  for (const Row& row : rows) {
    const ir::Program p = split_sums(prepared(observe(row.tensor())), tested_target());
    ir::verify(p);
    const std::string line = ir::to_string(p, p.accumulations.back());
    const size_t at = line.find("summed in");
    EXPECT_EQ(at == line.npos ? "" : line.substr(at), row.order) << row.name << ": " << line;
  }
}

TEST(SplitSums, MustRefuseWhatIsNotASumOverAReducedIterator) {
  for (int split : {0, 2, 7, -2}) {  // i is written; there are two iterators
    ir::Program p = to_ir(observe(einsum("i,j => i", parameter("a", "4,64"))));
    p.accumulations.back().order.lanes = split, p.accumulations.back().order.width = 8;
    EXPECT_THROW(ir::verify(p), InternalError) << split;
  }
}

}  // namespace
}  // namespace caravan::optimize
