// caravan einsum, gradcheck and ops: what they print.
#include <gtest/gtest.h>

#include <string>

#include "command.h"

namespace {

TEST_F(Command, EinsumPrintsShapesIteratorsAndTheLoop) {
  const Outcome o = run({"einsum", "ij;jk=>ik", "3,4", "4,5"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "result   3,5");
  EXPECT_CONTAINS(o.out, "4  reduced");
  EXPECT_CONTAINS(o.out, "result[i, k] += A[i, j] * B[j, k]   for i < 3, k < 5, j < 4");
}

TEST_F(Command, EinsumJsonIsOneLine) {
  const Outcome o = run({"einsum", "ij;jk=>ik", "3,4", "4,5", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(
      o.out,
      R"({"spec":"ij;jk=>ik","op":"add","operands":["3,4","4,5"],"result":"3,5","iterators":[)"
      R"({"name":"i","extent":3,"reduced":false},{"name":"k","extent":5,"reduced":false},{"name":"j","extent":4,"reduced":true}]})"
      "\n");
  EXPECT_EQ(o.err, "");
}

TEST_F(Command, EinsumTakesEveryKindOfSpec) {
  struct {
    Arguments arguments;
    string result;
  } rows[] = {
      {{"... s | h d; ... t | h d => ... s | t -> h", "2,8|4,64", "2,8|4,64"}, "2,8|8->4"},
      {{"... | 2*o=+k, ic; k, ic -> oc => ... | o, oc", "8|32,3", "5,3->16"}, "8|16,16"},
      {{"2*o<1+k => o", "9", "--size", "k=3", "--op", "max"}, "5"},
      {{"--size", "k=3", "--op", "min", "2*o+k => o", "9"}, "4"},
      {{"x&y => x, y", "12", "--size", "y=4"}, "3,4"},
      {{"o; k => s*o+d*k", "4", "3", "--size", "s=2", "--size", "d=1"}, "9"},
      {{"a; b => a^b", "3", "2", "--op", "concat"}, "5"},
      {{"r, a; r, b; r, c; r, d => r, a^b^c^d", "2,1", "2,2", "2,3", "2,4", "--op", "concat"}, "2,10"},
      {{"3^rest => rest", "8"}, "5"},
      {{"-i=>i", "6"}, "6"},
      {{"->i=>i", "->6"}, "6"},
      {{"i;j;k=>ijk", "1", "2", "3"}, "1,2,3"},
      {{"j => i", "6", "--size", "i=6", "--where", "j <= i"}, "6"},
      {{"ij=>", "2,3"}, ""},
      {{"=>i", "", "--size", "i=3"}, "3"},
  };
  for (const auto& [arguments, result] : rows) {
    Arguments all = {"einsum", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all) << ": " << o.err;
    EXPECT_CONTAINS(o.out, "\"result\":\"" + result + "\"");
  }
}

TEST_F(Command, EinsumListsTheIteratorsOfAllParts) {
  const Outcome o = run({"einsum", "r, a; r, b => r, a^b", "2,3", "2,4", "--op", "concat", "--json"});
  EXPECT_CONTAINS(
      o.out,
      R"("iterators":[{"name":"r","extent":2,"reduced":false},{"name":"a","extent":3,"reduced":false},{"name":"b","extent":4,"reduced":false}])");
}

TEST_F(Command, GradcheckPasses) {
  const Outcome o = run({"gradcheck", "--json"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_EQ(o.out.find('\n'), o.out.size() - 1) << "JSON and nothing else";
  EXPECT_GT(number(o.out, "checked"), 250);
  EXPECT_EQ(field(o.out, "failed"), "0");
  EXPECT_LT(number(o.out, "worst"), 1e-6);
}

TEST_F(Command, GradcheckTakesFilters) {
  const Outcome o = run({"gradcheck", "op pow", "diagonals: read"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "op pow");
  EXPECT_CONTAINS(o.out, "diagonals");
  EXPECT_CONTAINS(o.last_line(), "checked 6, failed 0, worst ");
}

TEST_F(Command, OpsShowsTheTableAndARow) {
  EXPECT_CONTAINS(run({"ops"}).out, "gelu_tanh");
  EXPECT_CONTAINS(run({"ops"}).out, "argmax=");
  const Outcome one = run({"ops", "max"});
  EXPECT_EQ(one.code, 0);
  EXPECT_CONTAINS(one.out, "op max: y = max(a, b)\n");
  EXPECT_CONTAINS(one.out, "  gradient     da = where(a >= b, g, 0)\n               db = where(a >= b, 0, g)\n");
  EXPECT_CONTAINS(one.out, "accumulator max: y max= ..\n");
  EXPECT_EQ(field(run({"ops", "exp", "--json"}).out, "c"), "\"exp(a)\"");
  const Outcome all = run({"ops", "--json"});
  EXPECT_EQ(all.out.find('\n'), all.out.size() - 1);
  EXPECT_CONTAINS(all.out, R"("name":"clamp","arity":3)");
}

}  // namespace
