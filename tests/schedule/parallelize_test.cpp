// Large outer loops run on threads.
#include "caravan/schedule/parallelize.h"

#include <gtest/gtest.h>

#include "caravan/lower/lower.h"
#include "pass_table.h"

namespace caravan::schedule {
namespace {

TEST(Parallelize, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    std::vector<const char*> heads;  // the first line of each kernel's body
  };
  auto of = [](const char* name, const std::string& shape) { return parameter(name, shape); };
  const Row rows[] = {
      {"a product's rows",
       [&] { return observe(einsum("ij;jk=>ik", of("a", "64,64"), of("b", "64,64"))); },
       {"for i < 64 parallel by 1:"}},
      {"a large pointwise loop", [&] { return observe(exp(of("a", "64,1024"))); }, {"for o0 < 64 parallel by 5:"}},
      {"few products of large matrices: their rows too",
       [&] { return observe(einsum("bij;bjk=>bik", of("a", "3,128,128"), of("b", "3,128,128"))); },
       {"for b < 3 parallel by 6:"}},
      {"without a loop inside it may be computed in vectors",
       [&] { return observe(exp(of("a", "65536"))); },
       {"for o0 < 65536 parallel vector by 4370:"}},
      {"too little work", [&] { return observe(exp(of("a", "64"))); }, {"for o0 < 64:"}},
      {"a fill and what comes after it are kernels of their own",
       [&] { return observe(einsum("i^1,j => 1^i,j", of("a", "64,4096"))); },
       {"for e < 262144 parallel vector by 6394:", "for i < 63 parallel by 2:"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const loop::Module after = parallelize(lower::lower(to_ir(row.program())), tested_target());
    loop::verify(after);
    std::vector<std::string> heads;
    for (const loop::Kernel& kernel : after.kernels) {
      const std::vector<std::string> lines = lines_of(loop::to_string(after, kernel));
      heads.push_back(lines.at(1).substr(2));
    }
    EXPECT_EQ(heads, std::vector<std::string>(row.heads.begin(), row.heads.end()));
  }
}

TEST(Parallelize, MustRefuse) {
  auto large = [](const char* name) { return parameter(name, "64,4096"); };
  const Tensor ids = tensor(Array(parse_shape("4096|"), std::vector<double>(4096, 3), DType::i32));
  const Refusal rows[] = {
      {"a scatter: two iterations may add to one element",
       [&] { return observe(scatter_add(parameter("v", "4096|64"), ids, 10)); }},
      {"a sum of everything has one accumulator", [&] { return observe(sum(large("a"))); }},
  };
  for (const Refusal& row : rows) {
    const loop::Module after = parallelize(lower::lower(to_ir(row.program())), tested_target());
    for (const loop::Kernel& kernel : after.kernels)
      EXPECT_FALSE(loop::parallel_loop(kernel)) << row.reason << loop::to_string(after, kernel);
  }
}

}  // namespace
}  // namespace caravan::schedule
