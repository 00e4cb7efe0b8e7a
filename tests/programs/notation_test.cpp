// The notation, row by row: specs with the shapes and values they give. The first two tables are those of the contract
// (docs/notation.md); every row of spec and operands is also computed by the naive evaluator.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/tensor/infer.h"
#include "checked_device.h"
#include "naive_spec.h"
#include "programs/in_double.h"

namespace caravan {
namespace {

// An operand: its shape, and its values, or the first of values that count up.
struct In {
  In(const char* shape, double first = 0) : array(parse_shape(shape)) {
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, first + double(i));
  }
  In(const char* shape, const Values& values) : array(parse_shape(shape), values) {}
  Array array;
};

struct SpecRow {
  const char* op;
  const char* spec;
  std::vector<In> operands;
  const char* result;
  Values values{};
  Bindings bindings{};
};
std::ostream& operator<<(std::ostream& out, const SpecRow& row) {
  out << row.op << "(\"" << row.spec << "\"";
  for (const In& in : row.operands) out << ", " << to_string(in.array.shape());
  return out << ")";
}

Tensor build(const SpecRow& row) {
  const std::string op = row.op;
  const RuntimeSpec text = spec(row.spec);
  const Bindings& with = row.bindings;
  std::vector<Tensor> in;
  for (const In& operand : row.operands) in.push_back(tensor(operand.array));
  if (op == "concat") return concat(text, in, with);
  switch (in.size()) {
    case 1:
      if (op == "einsum") return einsum(text, in[0], with);
      if (op == "einmax") return einmax(text, in[0], with);
      if (op == "einmin") return einmin(text, in[0], with);
      if (op == "einprod") return einprod(text, in[0], with);
      break;
    case 2:
      if (op == "einsum") return einsum(text, in[0], in[1], with);
      if (op == "einmax") return einmax(text, in[0], in[1], with);
      if (op == "einmin") return einmin(text, in[0], in[1], with);
      if (op == "tropical") return tropical(text, in[0], in[1], with);
      if (op == "outer_sum") return outer_sum(text, in[0], in[1], with);
      break;
    case 3:
      if (op == "einsum") return einsum(text, in[0], in[1], in[2], with);
      if (op == "einmax") return einmax(text, in[0], in[1], in[2], with);
      if (op == "einmin") return einmin(text, in[0], in[1], in[2], with);
      break;
  }
  throw std::logic_error("no such op in this test: " + op);
}

// The same by the naive evaluator, which knows sizes given as numbers and no other binding.
void compare_with_naive(const SpecRow& row, const Shape& shape, const Values& values) {
  std::map<std::string, int64_t> numbers;
  for (const BindingArgument& b : row.bindings.list) {
    if (b.kind != BindingArgument::Kind::size) return;
    numbers[b.name] = b.size;
  }
  std::vector<naive::Value> operands;
  for (const In& in : row.operands) {
    naive::Value value{{}, in.array.values()};
    for (RowKind kind : kRowKinds)
      for (const Axis& axis : in.array.shape()[kind]) value.rows[size_t(kind)].push_back(axis.size);
    operands.push_back(value);
  }
  const std::string op = row.op;
  const naive::Reduce reduce = op == "einmax" || op == "tropical" ? naive::Reduce::max
                               : op == "einmin"                   ? naive::Reduce::min
                               : op == "einprod"                  ? naive::Reduce::mul
                                                                  : naive::Reduce::add;
  const naive::Combine combine = op == "concat"                          ? naive::Combine::concat
                                 : op == "tropical" || op == "outer_sum" ? naive::Combine::sum
                                                                         : naive::Combine::product;
  const naive::Value expected = naive::evaluate(row.spec, operands, numbers, reduce, combine);
  for (RowKind kind : kRowKinds) {
    naive::Sizes sizes;
    for (const Axis& axis : shape[kind]) sizes.push_back(axis.size);
    EXPECT_EQ(sizes, expected.rows[size_t(kind)]) << row << ", naively, " << name(kind);
  }
  EXPECT_EQ(values, expected.elements) << row << ", naively";
}

void check(const std::vector<SpecRow>& rows) {
  for (const SpecRow& row : rows) {
    try {
      Context ctx(checked());
      const Tensor t = build(row);
      const Values values = ctx.eval(t).values();
      EXPECT_EQ(to_string(ctx.shape(t)), row.result) << row;
      if (!row.values.empty()) {
        EXPECT_EQ(values, row.values) << row;
      }
      compare_with_naive(row, ctx.shape(t), values);
    } catch (const std::exception& error) {
      ADD_FAILURE() << row << ": " << error.what();
    }
  }
}

TEST(Notation, SpecsOfTheContract) {
  const In u("2|3->4"), v("2,3|4,5->6,7");
  check({
      // clang-format off
      {"einsum", "b|i->o => o|b->i",                {u},                          "4|2->3"},
      {"einsum", "b|i->o => b|i",                   {u},                          "2|3"},
      {"einsum", "ab|cd->ef => cf|ae->db",          {v},                          "4,7|2,6->5,3"},
      {"einsum", "i; j => i->j",                    {"2", "3"},                   "2->3",        {0, 0, 0, 1, 0, 2}},
      {"einsum", "i|j->k; l|m->n => il|jm->kn",     {"2|3->4", "5|6->7"},         "2,5|3,6->4,7"},
      {"einsum", "b|h->o; b|i->h => b|i->o",        {"2|4->5", "2|3->4"},         "2|3->5"},
      {"einsum", "b|i->h; b|h->o => i->o",          {"2|3->4", "2|4->5"},         "3->5"},
      {"einsum", "...|i->o => ...|o->i",            {u},                          "2|4->3"},
      {"einsum", "b|...->o => o|...->b",            {u},                          "4|3->2"},
      {"einsum", "i->...o => ...io",                {"2->3,4"},                   "3,2,4"},
      {"einsum", "i->...; j->... => ...ij",         {"2->3", "4->3"},             "3,2,4"},
      {"einsum", "...|1->... => ...|...",           {u},                          "2|4",         {1, 4, 7, 10, 13, 16, 19, 22}},
      {"einsum", "...|...->... => ...|...->0",      {u},                          "2|3->1",      {18, 22, 26, 66, 70, 74}},
      {"einsum", "...|...->... => 0",               {"2->3"},                     "1",           {15}},
      {"einsum", "i->j => i0j",                     {"2->3"},                     "2,1,3",       {0, 2, 4, 1, 3, 5}},
      {"einsum", "i=>ii",                           {"5"},                        "5,5",         {0,0,0,0,0, 0,1,0,0,0, 0,0,2,0,0, 0,0,0,3,0, 0,0,0,0,4}},
      {"einsum", "ij=>i1j",                         {In("3,4", 1)},               "3,2,4",       {0,0,0,0, 1,2,3,4, 0,0,0,0, 5,6,7,8, 0,0,0,0, 9,10,11,12}},
      {"einsum", "ij;jk=>ik",                       {"3,4", "4,5"},               "3,5",         {70,76,82,88,94, 190,212,234,256,278, 310,348,386,424,462}},
      {"einsum", "pqr;rst=>pqst",                   {"4,5,6", "6,5,4"},           "4,5,5,4"},
      {"concat", "a; b => a^b",                     {"3", In("2", 7)},            "5",           {0, 1, 2, 7, 8}},
      {"concat", "a; b; c => a^b^c",                {"2", In("1", 5), In("2", 8)}, "5",          {0, 1, 5, 8, 9}},
      {"einsum", "3^rest => rest",                  {"8"},                        "5",           {3, 4, 5, 6, 7}},
      {"einsum", "i => 1^i",                        {In("4", 1)},                 "5",           {0, 1, 2, 3, 4}},
      {"einsum", "x, y => x&y",                     {"3,4"},                      "12",          {0,1,2,3,4,5,6,7,8,9,10,11}},
      {"einsum", "x&y => x, y",                     {"12"},                       "3,4",         {0,1,2,3,4,5,6,7,8,9,10,11}, {{"y", 4}}},
      {"einsum", "... s | h d; ... t | h d => ... s | t -> h", {"2,8|4,64", "2,8|4,64"}, "2,8|8->4"},
      {"einsum", "y=+ky, x=+kx; ky, kx => y, x",    {"5,5", "3,3"},               "5,5"},
      {"einsum", "y+ky, x+kx; ky, kx => y, x",      {"5,5", "3,3"},               "3,3"},
      {"einsum", "2*y=+ky, 2*x=+kx; ky, kx => y, x", {"6,6", "3,3"},              "3,3"},
      {"einsum", "2*y<+ky, 2*x<+kx; ky, kx => y, x", {"9,9", "3,3"},              "4,4"},
      {"einmax", "2*y+ky, 2*x+kx => y, x",          {"4,4"},                      "2,2",         {5, 7, 13, 15}, {{"ky", 2}, {"kx", 2}}},
      {"einmax", "2*y+ky, 2*x+kx => y, x",          {"7,7"},                      "3,3",         {16,18,20, 30,32,34, 44,46,48}, {{"ky", 3}, {"kx", 3}}},
      {"einmax", "y+ky, x+kx => y, x",              {"3,3"},                      "1,1",         {8}, {{"ky", 3}, {"kx", 3}}},
      {"einsum", "o+k; k => o",                     {"5", "2"},                   "4",           {1, 2, 3, 4}},
      {"einsum", "o+2*k; k => o",                   {"9", "3"},                   "5",           {10, 13, 16, 19, 22}},
      {"einsum", "o; k => 2*o+k",                   {"4", "3"},                   "9"},
      {"einsum", "a, ..., b => b, ..., a",          {"2,3,4,5"},                  "5,3,4,2"},
      {"einsum", "n => 2*n+1",                      {In("4", 1)},                 "8",           {0, 1, 0, 2, 0, 3, 0, 4}},
      {"einsum", "2*n+1 => n",                      {"8"},                        "4",           {1, 3, 5, 7}},
      // clang-format on
  });
}

TEST(Notation, MoreSpecs) {
  const Values one2 = {1, 1}, one3 = {1, 1, 1};
  check({
      // clang-format off
      // Windows: stride, dilation, offset, padding.
      {"einsum", "2*o=+k; k => o",          {In("6", 1), {"3", one3}},          "3",   {3, 9, 15}},
      {"einsum", "o=+k; k => o",            {In("5", 1), {"2", one2}},          "5",   {3, 5, 7, 9, 5}},
      {"einsum", "o=+k; k => o",            {In("4", 1), {"4", {1, 1, 1, 1}}},  "4",   {6, 10, 9, 7}},
      {"einsum", "o<+k; k => o",            {In("5", 1), {"2", one2}},          "4",   {3, 5, 7, 9}},
      {"einsum", "o<1+k; k => o",           {In("3", 1), {"3", one3}},          "3",   {3, 6, 5}},
      {"einsum", "o<0+k; k => o",           {In("3", 1), {"3", one3}},          "1",   {6}},
      {"einsum", "2*o<1+k; k => o",         {In("4", 1), {"3", one3}},          "2",   {3, 9}},
      {"einsum", "o+2*k; k => o",           {In("7", 1), {"3", {1, 10, 100}}},  "3",   {531, 642, 753}},
      {"einsum", "o=+2*k; k => o",          {In("5", 1), {"3", one3}},          "5",   {4, 6, 9, 6, 8}},
      {"einsum", "o+1+k; k => o",           {In("5", 1), {"2", one2}},          "3",   {5, 7, 9}},
      {"einsum", "2*o+1+2*k; k => o",       {In("8", 1), {"2", one2}},          "3",   {6, 10, 14}},
      {"einsum", "3*o+k; k => o",           {"8", {"2", one2}},                 "3",   {1, 7, 13}},
      {"einsum", "s*o<p+d*k; k => o",       {In("7", 1), {"2", one2}},          "4",   {2, 6, 10, 6}, {{"s", 2}, {"p", 1}, {"d", 2}}},
      {"einsum", "o+k; o => k",             {"5", {"3", one3}},                 "3",   {3, 6, 9}},
      {"einsum", "o+2*k; o => k",           {"7", {"3", one3}},                 "3",   {3, 9, 15}},
      {"einsum", "o+k|; k => o|",           {In("4|", 1), {"2", one2}},         "3|",  {3, 5, 7}},
      {"einsum", "o+k->; k => o->",         {In("4->", 1), {"2", one2}},        "3->", {3, 5, 7}},
      {"einmax", "2*o=+k => o",             {{"4", {-4, -3, -2, -1}}},          "2",   {-3, -1}, {{"k", 3}}},
      {"einmin", "o+k => o",                {{"4", {4, 3, 5, 6}}},              "3",   {3, 3, 5}, {{"k", 2}}},
      // Convolutions: many channels, grouped, depthwise.
      {"einsum", "... | oh=+kh, ow=+kw, ic; kh, kw, ic -> oc => ... | oh, ow, oc", {"2|4,4,3", "3,3,3->2"}, "2|4,4,2"},
      {"einsum", "b | o+k, g, ic; g, k, ic -> oc => b | o, g, oc",  {"2|5,2,3", "2,3,3->2"}, "2|3,2,2"},
      {"einsum", "... | o+k, c; k, c => ... | o, c",                {"2|5,3", "2,3"},        "2|4,3"},
      // A window that is written: transposed convolution.
      {"einsum", "o; k => 2*o+k",           {In("2", 1), {"3", one3}},          "5",   {1, 1, 3, 2, 2}},
      {"einsum", "o; k => o<1+k",           {In("4", 1), {"3", one3}},          "4",   {3, 6, 9, 7}},
      {"einsum", "o; k => o=+k",            {In("4", 1), {"3", one3}},          "4",   {3, 6, 9, 7}},
      {"einsum", "o; k => 2*o+1+2*k",       {In("2", 1), {"2", one2}},          "6",   {0, 1, 0, 3, 0, 2}},
      {"einsum", "b | o, ic; ic, k -> oc => b | 2*o+k, oc",         {"2|3,2", "2,3->4"},     "2|7,4"},
      // Strided iteration.
      {"einsum", "2*n => n",                {"5"},                              "3",   {0, 2, 4}},
      {"einsum", "1*n+2 => n",              {"5"},                              "3",   {2, 3, 4}},
      {"einsum", "s*n+1 => n",              {"6"},                              "2",   {1, 4}, {{"s", 3}}},
      {"einsum", "n => 3*n",                {In("3", 1)},                       "7",   {1, 0, 0, 2, 0, 0, 3}},
      {"einsum", "2*b | x => b | x",        {"3|2"},                            "2|2", {0, 1, 4, 5}},
      {"einmax", "n => 2*n",                {In("2", 1)},                       "3",   {1, -kInf, 2}},
      // Reversed.
      {"einsum", "i => -i",                 {"4"},                              "4",   {3, 2, 1, 0}},
      {"einsum", "-i|j => i|-j",            {"2|3"},                            "2|3", {5, 4, 3, 2, 1, 0}},
      {"einsum", "-i->j => j->i",           {"2->2"},                           "2->2", {1, 3, 0, 2}},
      {"einsum", "-height, width => width, height", {"2,3"},                    "3,2", {3, 0, 4, 1, 5, 2}},
      {"einsum", "i;-i => ",                {"3", "3"},                         "",    {1}},
      // Concatenation, shift, pad, slice, roll.
      {"concat", "a; b => 1^a^2^b",         {In("2", 1), In("1", 9)},           "6",   {0, 1, 2, 0, 0, 9}},
      {"concat", "x, a; x, b => x, a^b",    {"2,1", In("2,2", 5)},              "2,3", {0, 5, 6, 1, 7, 8}},
      {"concat", "a | x; b | x => b^a | x", {"1|2", In("2|2", 5)},              "3|2", {5, 6, 7, 8, 0, 1}},
      {"concat", "a -> x; b -> x => a^b -> x", {"1->2", In("2->2", 5)},         "3->2", {0, 5, 6, 1, 7, 8}},
      {"concat", "...|a; ...|b; ...|c => ...|a^b^c", {"2|1", In("2|1", 5), In("2|1", 8)}, "2|3", {0, 5, 8, 1, 6, 9}},
      {"einsum", "1^i => i",                {"4"},                              "3",   {1, 2, 3}},
      {"einsum", "i^1 => 1^i",              {In("4", 1)},                       "4",   {0, 1, 2, 3}},
      {"einsum", "i => 1^i^2",              {In("2", 1)},                       "5",   {0, 1, 2, 0, 0}},
      {"einsum", "2^i^1 => i",              {"6"},                              "3",   {2, 3, 4}},
      {"einsum", "a^b => a",                {"5"},                              "2",   {0, 1}, {{"a", 2}}},
      {"einsum", "a^b => b^a",              {"5"},                              "5",   {2, 3, 4, 0, 1}, {{"a", 2}}},
      {"einsum", "a^b => ",                 {"5"},                              "",    {10}, {{"a", 2}}},
      {"einsum", "a^b; b^a => a^b",         {"5", "5"},                         "5",   {0, 4, 0, 3, 8}, {{"a", 2}}},
      {"einmax", "i => 1^i",                {In("2", 1)},                       "3",   {-kInf, 1, 2}},
      {"einmax", "a^b => b^a",              {"3"},                              "3",   {1, 2, 0}, {{"a", 1}}},
      // Merge and split.
      {"einsum", "x, y, z => z&x, y",       {"2,1,2"},                          "4,1", {0, 2, 1, 3}},
      {"einsum", "x, y, z => x&y&z",        {"2,3,2"},                          "12",  {0,1,2,3,4,5,6,7,8,9,10,11}},
      {"einsum", "x&y&z => z, y, x",        {"8"},                              "2,2,2", {0, 4, 2, 6, 1, 5, 3, 7}, {{"x", 2}, {"z", 2}}},
      {"einsum", "n&b | x => n, b | x",     {"4|1"},                            "2,2|1", {0, 1, 2, 3}, {{"b", 2}}},
      {"einsum", "h&d -> m => h, d, m",     {"4->1"},                           "2,2,1", {0, 1, 2, 3}, {{"h", 2}}},
      {"einsum", "x, y; x&y => x",          {"2,2", "4"},                       "2",   {1, 13}},
      // Diagonals.
      {"einsum", "ii => i",                 {"3,3"},                            "3",   {0, 4, 8}},
      {"einsum", "i|i->i => i",             {"2|2->2"},                         "2",   {0, 7}},
      {"einsum", "row, row => ",            {"3,3"},                            "",    {12}},
      {"einsum", "i => i|i->i",             {In("2", 1)},                       "2|2->2", {1, 0, 0, 0, 0, 0, 0, 2}},
      {"einmin", "i => ii",                 {In("2", 1)},                       "2,2", {1, kInf, kInf, 2}},
      // Fixed indices.
      {"einsum", "i1 => i",                 {"2,3"},                            "2",   {1, 4}},
      {"einsum", "10i => i",                {"11,1"},                           "1",   {10}},
      {"einsum", "0|1->2 => ",              {"1|2->3"},                         "",    {5}},
      {"einsum", "i => 2, i",               {In("2", 1)},                       "3,2", {0, 0, 0, 0, 1, 2}},
      {"einsum", "i => 0|0->i",             {"2"},                              "1|1->2", {0, 1}},
      {"einprod", "i => i1",                {In("2", 2)},                       "2,2", {1, 2, 1, 3}},
      // Anonymous axes.
      {"einsum", "i_ => i",                 {"2,3"},                            "2",   {3, 12}},
      {"einsum", "_|_->i => i",             {"2|2->2"},                         "2",   {10, 18}},
      {"einmax", "row, _, _ => row",        {"2,2,2"},                          "2",   {3, 7}},
      // Row variables.
      {"einsum", "..a..|..b..->..c.. => ..c..|..a..->..b..", {"2,3|4->5,6"},    "5,6|2,3->4"},
      {"einsum", "..r..->..s..; ..r.. => ..s..",             {"2,2->2", In("2,2", 1)}, "2", {20, 60}},
      {"einsum", "..r..|..r..->..r.. => ..r..",              {"2|2->2"},        "2",   {0, 7}},
      {"einsum", "..batch..|x, ..rest.. => x, ..batch..|..rest..", {"2,3|4,5,6"}, "4,2,3|5,6"},
      {"einsum", "...|...->...; ...|... => ...|...",         {"2|2->2", "2|2"}, "2|2", {0, 5, 18, 39}},
      {"einsum", "i...j => j...i",          {"2,3"},                            "3,2", {0, 3, 1, 4, 2, 5}},
      // White space, empty rows, trailing commas.
      {"einsum", " b | -> e , => e | b , ", {"2|3"},                            "3|2", {0, 3, 1, 4, 2, 5}},
      {"einsum", "bs|->e=>e",               {"2,1|2"},                          "2",   {2, 4}},
      {"einsum", "=>",                      {""},                               "",    {0}},
      {"einsum", "a, ..., => a, ..., ",     {"2,2"},                            "2,2", {0, 1, 2, 3}},
      // Names that are only in the result.
      {"einsum", "i => ij",                 {"2"},                              "2,3", {0, 0, 0, 1, 1, 1}, {{"j", 3}}},
      {"einsum", "=> n",                    {{"", {7}}},                        "2",   {7, 7}, {{"n", 2}}},
      // Other accumulators and bodies.
      {"einmax", "ij => i",                 {"2,3"},                            "2",   {2, 5}},
      {"einmax", "i; i => ",                {In("3", 1), In("3", -1)},          "",    {3}},
      {"einmin", "ij;jk => ik",             {"1,2", In("2,1", -1)},             "1,1", {-0.0}},
      {"einprod", "ij => j",                {In("2,2", 1)},                     "2",   {3, 8}},
      {"tropical", "ij;jk => ik",           {"2,2", "2,2"},                     "2,2", {3, 4, 5, 6}},
      {"outer_sum", "i;j => i->j",          {"2", In("2", 10)},                 "2->2", {10, 11, 11, 12}},
      {"outer_sum", "i;j => i",             {"2", In("2", 10)},                 "2",   {21, 23}},
      {"einsum", "i;j;k => kji",            {In("1", 2), In("2", 1), In("2", 1)}, "2,2,1", {2, 4, 4, 8}},
      {"einsum", "ij;jk;kl => il",          {"2,2", "2,2", "2,2"},              "2,2", {6, 11, 22, 39}},
      {"einmax", "i;i;i => ",               {In("2", 1), In("2", 1), In("2", 1)}, "",  {8}},
      {"einmin", "i;i;j => j",              {In("2", 1), In("2", 1), In("1", 3)}, "1", {3}},
      // clang-format on
  });
}

// --- what is written with tensors: parameters, captured sizes, stacks, gathers, slices ---

struct Written {
  const char* what;
  const char* shape;
  std::function<std::vector<Tensor>()> build;  // the tensor whose shape is asked for, then what else is observed
};

void check(const std::vector<Written>& models) {
  for (const Written& m : models) {
    try {
      const std::vector<Tensor> tensors = m.build();
      EXPECT_EQ(to_string(Inference(observe(tensors)).shape(tensors[0])), m.shape) << m.what;
    } catch (const std::exception& error) {
      ADD_FAILURE() << m.what << ": " << error.what();
    }
  }
}

Tensor data(const char* shape) { return tensor(In(shape).array, std::string("data ") + shape); }

TEST(Notation, ModelsOfTheContract) {
  check({
      {"a; b; c => a^b^c, total 7, two parts 2 and 3: the third part", "2",
       [] {
         Tensor third = param("third");
         return std::vector{third, concat("a; b; c => a^b^c", data("2"), data("3"), third) + data("7")};
       }},
      {"w(x) + [1, 2], x of output 3: w", "3->2",
       [] {
         Tensor w = param("w");
         return std::vector{w, w(data("3")) + tensor({1, 2})};
       }},
      {"stack on a new output axis", "2,3",
       [] {
         return std::vector{stack({data("3"), data("3")})};
       }},
      {"stack on a new batch axis", "2|3",
       [] {
         return std::vector{stack({data("3"), data("3")}, RowKind::batch)};
       }},
      {"stack on a new input axis", "2->3",
       [] {
         return std::vector{stack({data("3"), data("3")}, RowKind::input)};
       }},
      {"wq(x) + bq, wq of 100->4,16: bq", "4,16",
       [] {
         Tensor wq = param("wq", {.input = {100}, .output = {4, 16}}), bq = param("bq");
         return std::vector{bq, wq(data("5|100")) + bq};
       }},
      {"a convolution to 16 channels, plus param b: b", "16",
       [] {
         Tensor kernel = param("kernel", {.input = {3, 3, 3}, .output = {16}}), b = param("b");
         return std::vector{b, einsum("... | oh=+kh, ow=+kw, ..ic..; kh, kw, ..ic.. -> ..oc.. => ... | oh, ow, ..oc..",
                                      data("2|8,8,3"), kernel) +
                                   b};
       }},
      {"x * exp(g), x of output 4,3: g", "3",
       [] {
         Tensor g = param("g");
         return std::vector{g, data("5|4,3") * exp(g)};
       }},
      {"w2(z) + b against a target of output 28,28, w2 given: b", "28,28",
       [] {
         Tensor w2 = param("w2", {.output = {28, 28}}), b = param("b");
         return std::vector{b, sum(square(w2(data("10|5")) + b - data("10|28,28")))};
       }},
      {"i=>i0 of 4, also read by i2=>i", "4,3",
       [] {
         Tensor wide = einsum("i=>i0", data("4"));
         return std::vector{wide, einsum("i2=>i", wide)};
       }},
      {"transposed convolution k3 s2 of 4, compared with 10", "10",
       [] {
         Tensor t = einsum("o; k => 2*o+k", data("4"), data("3"));
         return std::vector{t, t - data("10")};
       }},
  });
}

TEST(Notation, MoreModels) {
  check({
      {"w * x, both unsized but x: a gain", "3",
       [] {
         Tensor w = param("w");
         return std::vector{w, w * data("5|3")};
       }},
      {"x + pos without .batch is a bias", "3",
       [] {
         Tensor pos = param("pos");
         return std::vector{pos, data("2,5|3") + pos};
       }},
      {"a hidden layer between two sized ones: w2", "16->1",
       [] {
         Tensor w1 = param("w1", {.output = {16}}), w2 = param("w2");
         return std::vector{w2, sum(square(w2(relu(w1(data("10|2")))) - data("10|1")))};
       }},
      {"a linear map of maps keeps the inner input: w(m)", "5->2",
       [] {
         Tensor w = param("w", {.output = {2}}), m = param("m", {.input = {5}, .output = {3}});
         return std::vector{w(m)};
       }},
      {"a kept mean stretches", "10|3",
       [] { return std::vector{data("10|3") - einsum("...|... => ...|0", data("10|3"))}; }},
      {"a kept mean of a kept mean is still a 1", "10|1",
       [] {
         Tensor m = einsum("...|... => ...|0", data("10|3"));
         return std::vector{m * m + 1};
       }},
      {"broadcast of missing axes", "2,4|3", [] { return std::vector{data("4|3") + data("2,4|3")}; }},
      {"the batch of w(x) is a join", "2,4|5",
       [] { return std::vector{einsum("b|i->o => b|i->o", data("4|3->5"))(data("2,4|3"))}; }},
      {"strided write, compared with 10", "10",
       [] {
         Tensor t = einsum("n => 2*n+1", data("4"));
         return std::vector{t, t - data("10")};
       }},
      {"a parameter's part of a concatenation in a batch row", "3|2",
       [] {
         Tensor p = param("p", {.batch = {3}});
         return std::vector{p, concat("a|x; b|x => a^b|x", data("4|2"), p)};
       }},
      {"{\"a\", \"b\"} sets sizes equal", "3->3",
       [] {
         Tensor w = param("w", {.output = {3}});
         return std::vector{w, einsum("a->b => b", w, {{"a", "b"}})};
       }},
      {"times(4, name): the wide axis", "5->20",
       [] {
         Tensor w = param("w", {.input = {5}});
         return std::vector{w, einsum("c->f; c => f", w, data("5"), {{"f", times(4, "c")}})};
       }},
      {"times(4, name): the narrow axis", "5->20",
       [] {
         Tensor w = param("w", {.output = {20}});
         return std::vector{w, einsum("c->f => f", w, {{"f", times(4, "c")}})};
       }},
      {"times(2, dim)", "3->6",
       [] {
         Dim d;
         Tensor x = einsum("b|i => b|i", data("4|3"), {{"i", d}}), w = param("w");
         return std::vector{w, einsum("i->o; b|i => b|o", w, x, {{"o", times(2, d)}})};
       }},
      {"a captured size as an extent", "3->3",
       [] {
         Dim d;
         Tensor x = einsum("b|i => b|i", data("4|3"), {{"i", d}}), w = param("w", {.output = {d}});
         return std::vector{w, w(x)};
       }},
      {"a bound row variable gives the axis it has", "6",
       [] {
         Tensor b = param("b");
         return std::vector{b, einsum("r; ..r2.. => r", b, data("2,3"), {{"r2", 6}, {"r", "r2"}})};
       }},
      {"a basis travels through w(x)", "3rgb->2",
       [] {
         Tensor w = param("w", {.output = {2}});
         return std::vector{w, w(data("5|3rgb"))};
       }},
      {"a basis travels through einsum", "2heads|4",
       [] { return std::vector{einsum("h, d => h | d", data("2heads,4"))}; }},
      {"a tag given by the parameter", "5|2out",
       [] {
         Tensor w = param("w", {.output = {Extent(2, "out")}});
         return std::vector{w(data("5|3"))};
       }},
      {"gather: output of ids, then of the table", "2|3,5",
       [] { return std::vector{gather(data("10->5"), tensor(Array(parse_shape("2|3"), DType::i32)))}; }},
      {"gather of rows", "2|3,5",
       [] { return std::vector{gather(data("10|5"), tensor(Array(parse_shape("2|3"), DType::i32)), RowKind::batch)}; }},
      {"gather of the first output axis", "2|3,5",
       [] {
         return std::vector{gather(data("10,5"), tensor(Array(parse_shape("2|3"), DType::i32)), RowKind::output)};
       }},
      {"gather gives its table's output", "10->5",
       [] {
         Tensor table = param("table", {.input = {10}});
         return std::vector{table, gather(table, tensor(Array(parse_shape("2|"), DType::i32))) + data("2|5")};
       }},
      {"scatter_add", "7->5",
       [] { return std::vector{scatter_add(data("2|3,5"), tensor(Array(parse_shape("2|3"), DType::i32)), 7)}; }},
      {"scatter_add into rows", "7|5",
       [] {
         return std::vector{
             scatter_add(data("2|3,5"), tensor(Array(parse_shape("2|3"), DType::i32)), 7, RowKind::batch)};
       }},
      {"a slice removes the leftmost batch axis", "2|3", [] { return std::vector{data("4,2|3")[Index("i")]}; }},
      {"a slice's range sizes an axis that nothing else does", "8,2|3",
       [] {
         Tensor x = input("x", {.output = {3}});
         return std::vector{x, x[Index("i", 8)] + data("2|3")};
       }},
      {"a slice's range may be shorter than the axis", "4|3",
       [] {
         Tensor x = data("4|3");
         return std::vector{x, x[Index("i", 2)]};
       }},
      {"a slice's range may be shorter than a concatenation", "8|2",
       [] {
         Tensor x = concat("a|x; b|x => a^b|x", data("3|2"), data("5|2"));
         return std::vector{x, x[Index("i", 4)]};
       }},
      {"a slice's range may be longer than what a window writes", "10|",
       [] {
         Tensor x = einsum("o; k => 2*o+k|", data("4"), data("3"));
         return std::vector{x, x[Index("i", 10)]};
       }},
      {"stack in front of a row that has axes", "3|2,4",
       [] {
         return std::vector{stack({data("2,4"), data("2,4"), data("2,4")}, RowKind::batch)};
       }},
      {"stack sizes a parameter", "4",
       [] {
         Tensor p = param("p");
         return std::vector{p, stack({data("4"), p})};
       }},
      {"a gradient has the shape of what it is taken by", "3->2",
       [] {
         Tensor w = param("w", {.output = {2}});
         return std::vector{grad(sum(w(data("5|3"))), w)};
       }},
      {"batches of a computed tensor", "2,3|4", [] { return std::vector{(data("6|4") + 1).batches(3)}; }},
  });
}

struct Program1 {
  const char* what;
  Values values;
  std::function<Tensor()> build;
  IndexValues indices{};
};

TEST(Notation, ValuesOfModels) {
  Index i("i", 3), shift("shift");
  const std::vector<Program1> programs = {
      {"a captured size is a number",
       {0, 3, 6},
       [] {
         Dim d;
         Tensor x = einsum("i => i", data("3"), {{"i", d}});
         return x * d;
       }},
      {"a row variable's product",
       {6},
       [] {
         Dim d;
         Tensor total = einsum("..r.. => ", data("2,3"), {{"r", d}});
         return total * 0 + d;
       }},
      {"an empty row variable's product is 1",
       {1},
       [] {
         Dim d;
         Tensor total = einsum("..r.. => ", data(""), {{"r", d}});
         return total * 0 + d;
       }},
      {"mean", {2.5}, [] { return mean(data("2|3")); }},
      {"j <= i: cumulative sum",
       {0, 1, 3, 6},
       [] {
         return einsum("j => i", data("4"), {{"i", "j"}, {"j <= i"}});
       }},
      {"j < i",
       {0, 0, 1, 3},
       [] {
         return einsum("j => i", data("4"), {{"i", "j"}, {"j < i"}});
       }},
      {"j >= i",
       {6, 6, 5, 3},
       [] {
         return einsum("j => i", data("4"), {{"i", "j"}, {"j >= i"}});
       }},
      {"j == i + 1",
       {1, 2, 3, 0},
       [] {
         return einsum("j => i", data("4"), {{"i", "j"}, {"j == i + 1"}});
       }},
      {"2*i + j > 3",
       {0, 5, 6, 6},
       [] {
         return einsum("j => i", data("4"), {{"i", "j"}, {"2*i + j > 3"}});
       }},
      {"causal maximum",
       {0, 1, 2},
       [] {
         return einmax("j => i", data("3"), {{"i", "j"}, {"j <= i"}});
       }},
      {"two conditions: a band",
       {1, 3, 5, 3},
       [] {
         return einsum("j=>i", data("4"), {{"i", 4}, {"j >= i"}, {"j <= i + 1"}});
       }},
      {"stack",
       {0, 1, 5, 6},
       [] {
         return stack({data("2"), data("2") + 5});
       }},
      {"stack on inputs",
       {0, 5, 1, 6},
       [] {
         return stack({data("2"), data("2") + 5}, RowKind::input);
       }},
      {"gather",
       {4, 5, 0, 1},
       [] {
         Tensor table = einsum("v, d => v -> d", data("3,2"));
         return gather(table, tensor(Array(parse_shape("2|"), {2, 0}, DType::i32)));
       }},
      {"gather of rows",
       {4, 5, 0, 1},
       [] {
         return gather(data("3|2"), tensor(Array(parse_shape("2|"), {2, 0}, DType::i32)), RowKind::batch);
       }},
      {"gather of the first output axis",
       {4, 5, 0, 1},
       [] {
         return gather(data("3,2"), tensor(Array(parse_shape("2|"), {2, 0}, DType::i32)), RowKind::output);
       }},
      {"scatter_add into rows",
       {2, 3, 0, 0, 10, 13},
       [] {  // rows 0 1, 2 3, 4 5, 6 7 into 0 -> 2, 1 -> 0, 2 -> 2, 3 -> 2
         return scatter_add(data("4|2"), tensor(Array(parse_shape("4|"), {2, 0, 2, 2}, DType::i32)), 3, RowKind::batch);
       }},
      {"scatter_add",
       {1, 0, 5},
       [] {  // rows 0 1 2 3 into 0 -> 2, 1 -> 0, 2 -> 2, 3 -> 2
         return einsum("v-> => v",
                       scatter_add(data("4|"), tensor(Array(parse_shape("4|"), {2, 0, 2, 2}, DType::i32)), 3));
       }},
      {"slice", {4, 5}, [&] { return data("3|2")[i]; }, {{i, 2}}},
      {"slice of a slice", {6, 7}, [&] { return data("3,2|2")[i][shift]; }, {{i, 1}, {shift, 1}}},
      {"an Index is a number", {10, 11}, [&] { return data("2") + shift; }, {{shift, 10}}},
      {"argmax: position in the box of reduced axes", {5}, [] { return argmax("ij => ", data("2,3")); }},
      {"argmin by row", {0, 0}, [] { return argmin("ij => i", data("2,3")); }},
      {"a pointwise op over a spec: sum of exp", {3}, [] { return exp("i => ", data("3") * 0); }},
      {"a pointwise op over a spec: sum of a - b",
       {-10, -9},
       [] { return sub("i; j => i", data("2"), data("5")) * 1 + data("2") * -4; }},
      {"einany",
       {0, 1},
       [] {
         return einany("ij => i", matrix({{0, 0}, {0, 3}}));
       }},
      {"einall",
       {0, 1},
       [] {
         return einall("ij => i", matrix({{0, 1}, {2, 3}}));
       }},
      {"a kept sum stretches",
       {-3, -2, -1, 0},
       [] { return data("4") - largest(data("4")) + einsum("i => 0", data("4") * 0); }},
      {"transposed convolution compared with a longer axis ends in zeros",
       {1, 1, 0},
       [] {
         return einsum("o; k => o+k", tensor({1}), tensor({1, 1})) + data("3") * 0;
       }},
      {"dot", {5}, [] { return dot(data("3"), data("3")); }},
      {"w(x)",
       {1, 3},
       [] {
         return einsum("i, o => i -> o", data("2,2"))(tensor({1, 1})) + tensor({-1, -1});
       }},
  };
  for (const Program1& p : programs) {
    try {
      Context ctx(checked());
      EXPECT_EQ(ctx.eval(p.build(), p.indices).values(), p.values) << p.what;
    } catch (const std::exception& error) {
      ADD_FAILURE() << p.what << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace caravan
