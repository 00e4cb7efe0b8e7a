// Programs: the printer, equality, the verifier.
#include "caravan/ir/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "caravan/base/error.h"
#include "caravan/ir/identity.h"
#include "caravan/ops/table.h"
#include "ir/bodies.h"

namespace caravan::ir {
namespace {

Buffer buffer(std::string name, const char* shape, BufferKind kind, DType dtype = DType::f32) {
  return {std::move(name), parse_shape(shape), dtype, std::move(kind), {}};
}

Term it(int k, int64_t coefficient = 1) { return Term::iterator(k, coefficient); }

// y = w(x)
Program linear() {
  Program p;
  p.name = "linear";
  p.buffers = {buffer("w", "2->16", StateLeaf{}), buffer("x", "10|2", StateLeaf{}), buffer("y", "10|16", Computed{})};
  Accumulation a;
  a.target = 2;
  a.accumulator = Accumulator::add;
  a.iterators = {"b", "o", "i"};
  a.extents = {10, 16, 2};
  a.write = {it(0), it(1)};
  a.operands = {{0, {it(1), it(2)}}, {1, {it(0), it(2)}}};
  a.body = Body::op(Op::mul);
  a.label = "w(x)";
  a.source = {"src/main.cpp", 12};
  p.accumulations = {a};
  p.observed = {2};
  return p;
}

// p[o] max= x[2 o + k - 1] inside x.
Program pool() {
  Program p;
  p.buffers = {buffer("x", "8", StateLeaf{}), buffer("p", "4", Computed{})};
  Accumulation a;
  a.target = 1;
  a.accumulator = Accumulator::max;
  a.iterators = {"o", "k"};
  a.extents = {4, 3};
  const Term at = it(0, 2) + it(1) - Term::number(1);
  a.where = {at};
  a.write = {it(0)};
  a.operands = {{0, {at}}};
  a.body = Body::identity();
  a.label = "pool";
  p.accumulations = {a};
  return p;
}

// e[b, d] += table[ids[b], d]
Program gather() {
  Program p;
  p.buffers = {buffer("table", "5,3", StateLeaf{}), buffer("ids", "4|", StateLeaf{}, DType::i32),
               buffer("e", "4|3", Computed{})};
  Accumulation a;
  a.target = 2;
  a.accumulator = Accumulator::add;
  a.iterators = {"b", "d"};
  a.extents = {4, 3};
  a.write = {it(0), it(1)};
  a.operands = {{0, {Term::load(1), it(1)}}, {1, {it(0)}}};
  a.body = Body::identity();
  p.accumulations = {a};
  return p;
}

Program argmax() {
  Program p;
  p.buffers = {buffer("x", "4|3", StateLeaf{}), buffer("n", "4|", Computed{}, DType::i64)};
  Accumulation a;
  a.target = 1;
  a.accumulator = Accumulator::argmax;
  a.iterators = {"b", "c"};
  a.extents = {4, 3};
  a.write = {it(0)};
  a.operands = {{0, {it(0), it(1)}}};
  a.body = Body::identity();
  a.counted = {false, true};
  p.accumulations = {a};
  return p;
}

// A batch of a data set, its mean, a step of a running mean and some noise.
Program everything() {
  Program p;
  p.name = "everything";
  p.symbols = {{"batch", 3}, {"step", 0}};
  p.buffers = {buffer("data", "6|2", DataLeaf{Array(parse_shape("6|2"))}),
               buffer("mean", "2", StateLeaf{}),
               buffer("rate", "", NumberLeaf{0.1}),
               buffer("now", "", SymbolLeaf{1}, DType::i64),
               buffer("axis", "2", IotaLeaf{}, DType::i32),
               buffer("bits", "2", RandomLeaf{"noise", 1, 24, 3}, DType::i32),
               buffer("sum", "2", Computed{}),
               buffer("next", "2", Computed{})};
  Accumulation a;
  a.target = 6;
  a.accumulator = Accumulator::add;
  a.iterators = {"r", "i"};
  a.extents = {2, 2};
  a.write = {it(1)};
  a.operands = {{0, {Term::symbol(0, 2) + it(0), it(1)}}};
  a.body = Body::identity();
  a.label = "sum";
  Accumulation b;
  b.target = 7;
  b.accumulator = Accumulator::add;
  b.iterators = {"i"};
  b.extents = {2};
  b.write = {it(0)};
  b.operands = {{1, {it(0)}}, {6, {it(0)}}, {2, {}}, {5, {it(0)}}, {4, {it(0)}}};
  b.body = parse_body("m + rate * (s - m) + bits * axis", Names{"m", "s", "rate", "bits", "axis"});
  p.accumulations = {a, b};
  p.assignments = {{1, 7}};
  p.observed = {6, 7};
  return p;
}

TEST(Print, Accumulations) {
  struct Row {
    Program program;
    const char* text;
  };
  Program shift = linear();
  shift.buffers[2].shape = parse_shape("");
  shift.accumulations[0].write = {};
  shift.accumulations[0].label = "";
  shift.accumulations[0].source = {};
  Program scalar;
  scalar.buffers = {buffer("a", "", StateLeaf{}), buffer("z", "", Computed{})};
  Accumulation one;
  one.target = 1;
  one.operands = {{0, {}}};
  one.body = body("x * x");
  scalar.accumulations = {one};
  const Row rows[] = {
      {linear(), "y[b, o] += w[o, i] * x[b, i]   for b < 10, o < 16, i < 2   # w(x), main.cpp:12"},
      {pool(), "p[o] max= x[2*o + k - 1]   for o < 4, k < 3 where 2*o + k - 1 >= 0   # pool"},
      {gather(), "e[b, d] += table[ids[b], d]   for b < 4, d < 3"},
      {argmax(), "n[b] argmax= x[b, c]   for b < 4, c < 3 counting c"},
      {shift, "y += w[o, i] * x[b, i]   for b < 10, o < 16, i < 2"},
      {scalar, "z += a * a"},
  };
  for (const Row& row : rows) EXPECT_EQ(to_string(row.program, row.program.accumulations[0]), row.text);
}

TEST(Print, Program) {
  EXPECT_EQ(to_string(everything()),
            "program everything\n"
            "symbol batch < 3\n"
            "symbol step\n"
            "data: 6|2 f32 data\n"
            "mean: 2 f32 state\n"
            "rate: scalar f32 number 0.1\n"
            "now: scalar i64 symbol step\n"
            "axis: 2 i32 iota\n"
            "bits: 2 i32 random \"noise\", word 1, 24 bits, step now\n"
            "sum[i] += data[r + 2*batch, i]   for r < 2, i < 2   # sum\n"
            "next[i] += mean[i] + rate * (sum[i] - mean[i]) + bits[i] * axis[i]   for i < 2\n"
            "mean := next\n"
            "observe sum, next\n");
}

TEST(Equal, NamesLabelsAndLinesAside) {
  const Program p = linear();
  Program q = linear();
  for (Buffer& b : q.buffers) b.name = "encoder.1." + b.name;
  q.accumulations[0].iterators = {"s", "t", "u"};
  q.accumulations[0].label = "something else";
  q.accumulations[0].source = {"other.cpp", 99};
  EXPECT_TRUE(equal(p, p.accumulations[0], q, q.accumulations[0]));
  EXPECT_EQ(hash(p, p.accumulations[0]), hash(q, q.accumulations[0]));

  struct Row {
    const char* what;
    std::function<void(Program&)> change;
  };
  const Row rows[] = {
      {"precision", [](Program& r) { r.buffers[0].dtype = DType::f64; }},
      {"target's precision", [](Program& r) { r.buffers[2].dtype = DType::f64; }},
      {"size", [](Program& r) { r.buffers[0].shape = parse_shape("2->17"); }},
      {"extent", [](Program& r) { r.accumulations[0].extents[0] = 9; }},
      {"accumulator", [](Program& r) { r.accumulations[0].accumulator = Accumulator::max; }},
      {"body", [](Program& r) { r.accumulations[0].body = Body::op(Op::sub); }},
      {"map", [](Program& r) { r.accumulations[0].operands[0].map[0].constant = 1; }},
      {"write map", [](Program& r) { r.accumulations[0].write[0].constant = 1; }},
      {"condition", [](Program& r) { r.accumulations[0].where = {it(0) - it(1)}; }},
      {"aliasing",
       [](Program& r) {
         r.buffers[1] = r.buffers[0];
         r.accumulations[0].operands[1].buffer = 0;
       }},
  };
  for (const Row& row : rows) {
    Program r = linear();
    row.change(r);
    EXPECT_FALSE(equal(p, p.accumulations[0], r, r.accumulations[0])) << row.what;
    EXPECT_NE(hash(p, p.accumulations[0]), hash(r, r.accumulations[0])) << row.what;
  }
}

TEST(Verify, Accepts) {
  for (const Program& program : {linear(), pool(), gather(), argmax(), everything(), Program{}}) {
    EXPECT_NO_THROW(verify(program));
    EXPECT_EQ(problem(program), std::nullopt);
  }
  Program nothing = linear();  // nothing is visited, so nothing is out of range
  nothing.accumulations[0].extents = {0, 1000, 1000};
  EXPECT_NO_THROW(verify(nothing));
  Program stronger = pool();  // 2 o + k - 2 >= 0 implies 2 o + k - 1 >= 0
  stronger.accumulations[0].where[0].constant = -2;
  EXPECT_NO_THROW(verify(stronger));
  Program above = pool();  // a window that leaves at the right
  above.accumulations[0].extents[1] = 4;
  above.accumulations[0].where.push_back(Term::number(7) - above.accumulations[0].operands[0].map[0]);
  EXPECT_NO_THROW(verify(above));
}

TEST(Verify, Refuses) {
  struct Row {
    const char* phrase;
    std::function<Program()> make;
    std::function<void(Program&)> change;
  };
  auto first = [](Program& p) -> Accumulation& { return p.accumulations[0]; };
  const Row rows[] = {
      // buffers
      {"`x` has the name of another buffer", linear, [](Program& p) { p.buffers[0].name = "x"; }},
      {"has no name", linear, [](Program& p) { p.buffers[0].name = ""; }},
      {"has a negative size", linear, [](Program& p) { p.buffers[0].shape.output[0].size = -1; }},
      {"but its data has 5|2", everything, [](Program& p) { p.buffers[0].kind = DataLeaf{Array(parse_shape("5|2"))}; }},
      {"`data` is f64 but its data is f32", everything, [](Program& p) { p.buffers[0].dtype = DType::f64; }},
      {"names symbol 7", everything, [](Program& p) { p.buffers[3].kind = SymbolLeaf{7}; }},
      {"is an iota but has 2 axes", everything, [](Program& p) { p.buffers[4].shape = parse_shape("2,2"); }},
      {"the step buffer `mean`, which is not a scalar", everything,
       [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).step = 1; }},
      {"has no step buffer", everything, [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).step = -1; }},
      {"reads 33 bits", everything, [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).width = 33; }},
      {"reads random word 4 of 4", everything, [](Program& p) { std::get<RandomLeaf>(p.buffers[5].kind).lane = 4; }},
      // writes and reads
      {"`y` (w(x), main.cpp:12) writes a buffer that is written before", linear,
       [](Program& p) { p.accumulations.push_back(p.accumulations[0]); }},
      {"buffer `y` is computed but never written", linear, [](Program& p) { p.accumulations.clear(); }},
      {"accumulation of `w` (w(x), main.cpp:12) writes a leaf", linear, [&](Program& p) { first(p).target = 0; }},
      {"writes a buffer that does not exist", linear, [&](Program& p) { first(p).target = 9; }},
      {"reads buffer 9, which does not exist", linear, [&](Program& p) { first(p).operands[0].buffer = 9; }},
      {"reads `sum` before it is written", everything,
       [](Program& p) { std::swap(p.accumulations[0], p.accumulations[1]); }},
      {"reads `next` before it is written", everything, [](Program& p) { p.accumulations[1].operands[0].buffer = 7; }},
      {"reads `late` before it is written", everything,
       [](Program& p) {
         p.buffers.push_back(buffer("late", "", Computed{}));
         std::get<RandomLeaf>(p.buffers[5].kind).step = 8;
       }},
      // domains and maps
      {"has 3 iterators but 2 extents", linear, [&](Program& p) { first(p).extents.pop_back(); }},
      {"has the negative extent -1 of `o`", linear, [&](Program& p) { first(p).extents[1] = -1; }},
      {"writes `y`, which has 2 axes, with 1 indices", linear, [&](Program& p) { first(p).write.pop_back(); }},
      {"reads `w`, which has 2 axes, with 3 indices", linear,
       [&](Program& p) { first(p).operands[0].map.push_back(it(0)); }},
      {"names iterator 5", linear, [&](Program& p) { first(p).write[0] = it(5); }},
      {"names symbol 0", linear, [&](Program& p) { first(p).write[0] = Term::symbol(0); }},
      {"names operand 2", linear, [&](Program& p) { first(p).where = {Term::load(2)}; }},
      {"not in normal form", linear, [&](Program& p) { first(p).write[0].parts[0].coefficient = 0; }},
      {"reads `x` out of range: the index b + 1 of axis 0 goes up to 10 where the size is 10", linear,
       [&](Program& p) { first(p).operands[1].map[0].constant = 1; }},
      {"writes `y` out of range: the index o of axis 1 goes up to 16", linear,
       [&](Program& p) { first(p).extents[1] = 17; }},
      {"the index 2*o + k - 1 of axis 0 goes down to -1", pool, [&](Program& p) { first(p).where.clear(); }},
      {"goes down to -1", pool, [&](Program& p) { first(p).where[0].constant = 0; }},
      {"goes up to 8 where the size is 8", pool, [&](Program& p) { first(p).extents[1] = 4; }},
      {"goes up to any value", everything, [&](Program& p) { p.symbols[0].range = 0; }},
      {"goes up to 7 where the size is 6", everything, [&](Program& p) { p.symbols[0].range = 4; }},
      // accumulators, index tensors, bodies
      {"writes through an index tensor, which `mul` does not allow", gather,
       [&](Program& p) {
         first(p).write[1] = Term::load(1);
         first(p).accumulator = Accumulator::mul;
       }},
      {"reads the index tensor `ids` at its own value", gather,
       [&](Program& p) { first(p).operands[1].map[0] = Term::load(1); }},
      {"for 0 of 2 iterators", argmax, [&](Program& p) { first(p).counted.clear(); }},
      {"keeps a position in f32", argmax, [&](Program& p) { p.buffers[1].dtype = DType::f32; }},
      {"counts iterators but does not keep a position", linear,
       [&](Program& p) {
         first(p).counted = {true, true, true};
       }},
      {"has an empty body", linear, [&](Program& p) { first(p).body = Body(); }},
      {"reads operand 2 of 2", linear, [&](Program& p) { first(p).body = Body::op(Op::where); }},
      // assignments
      {"`data := next` assigns to something that is not a state", everything,
       [](Program& p) { p.assignments[0].state = 0; }},
      {"is the second of its state", everything,
       [](Program& p) {
         p.assignments.push_back({1, 6});
       }},
      {"gives shape `` to a state of shape `2`", everything, [](Program& p) { p.assignments[0].value = 2; }},
      {"names a buffer that does not exist", everything, [](Program& p) { p.assignments[0].value = 20; }},
      {"observed buffer 20 does not exist", everything, [](Program& p) { p.observed[0] = 20; }},
  };
  for (const Row& row : rows) {
    Program program = row.make();
    row.change(program);
    try {
      verify(program);
      ADD_FAILURE() << "accepted, but expected: " << row.phrase;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(row.phrase), std::string::npos)
          << "expected: " << row.phrase << "\n     got: " << error.what();
      EXPECT_NE(std::string(error.what()).find(": " + problem(program).value() + ". This is"), std::string::npos);
    }
  }
}

// Whatever may change a kernel changes the identity.
TEST(Identity, HasAllThatKernelsDependOn) {
  const Program plain = linear();
  const std::string same = identity(plain);
  const struct {
    const char* what;
    std::function<void(Program&)> change;
  } rows[] = {
      {"name", [](Program& p) { p.name = "other"; }},
      {"symbol",
       [](Program& p) {
         p.symbols = {{"s", 3}};
       }},
      {"name of a buffer", [](Program& p) { p.buffers[0].name = "v"; }},
      {"shape", [](Program& p) { p.buffers[1].shape = parse_shape("10|3"); }},
      {"precision", [](Program& p) { p.buffers[1].dtype = DType::f64; }},
      {"kind", [](Program& p) { p.buffers[1].kind = DataLeaf{}; }},
      {"number", [](Program& p) { p.buffers[1].kind = NumberLeaf{1}; }},
      {"another number", [](Program& p) { p.buffers[1].kind = NumberLeaf{2}; }},
      {"stream",
       [](Program& p) {
         p.buffers[1].kind = RandomLeaf{"a", 0, 32, 0};
       }},
      {"another stream",
       [](Program& p) {
         p.buffers[1].kind = RandomLeaf{"b", 0, 32, 0};
       }},
      {"lane",
       [](Program& p) {
         p.buffers[1].kind = RandomLeaf{"a", 1, 32, 0};
       }},
      {"target", [](Program& p) { p.accumulations[0].target = 1; }},
      {"accumulator", [](Program& p) { p.accumulations[0].accumulator = Accumulator::max; }},
      {"iterator", [](Program& p) { p.accumulations[0].iterators[0] = "c"; }},
      {"extent", [](Program& p) { p.accumulations[0].extents[2] = 1; }},
      {"condition", [](Program& p) { p.accumulations[0].where = {it(0)}; }},
      {"write", [](Program& p) { p.accumulations[0].write[1] = it(1, 2); }},
      {"operand", [](Program& p) { p.accumulations[0].operands[0].buffer = 1; }},
      {"index", [](Program& p) { p.accumulations[0].operands[0].map[0] = it(1) + Term::number(1); }},
      {"body", [](Program& p) { p.accumulations[0].body = Body::op(Op::add); }},
      {"constant", [](Program& p) { p.accumulations[0].body = Body::number(1); }},
      {"another constant", [](Program& p) { p.accumulations[0].body = Body::number(2); }},
      {"counted", [](Program& p) { p.accumulations[0].counted = {true}; }},
      {"chosen_by", [](Program& p) { p.accumulations[0].chosen_by = {8}; }},
      {"lanes", [](Program& p) { p.accumulations[0].order.lanes = 2; }},
      {"blocks",
       [](Program& p) {
         p.accumulations[0].order.blocks = {{2, 64}};
       }},
      {"fused", [](Program& p) { p.accumulations[0].order.fused = true; }},
      {"part", [](Program& p) { p.accumulations[0].part = true; }},
      {"after", [](Program& p) { p.accumulations[0].after = 1; }},
      {"collective", [](Program& p) { p.accumulations[0].collective = Collective{}; }},
      {"assignment",
       [](Program& p) {
         p.assignments = {{0, 2}};
       }},
      {"observed", [](Program& p) { p.observed.clear(); }},
      {"placement",
       [](Program& p) {
         p.placements = {{0, 0, "m"}};
       }},
  };
  std::vector<std::string> all = {same};
  for (const auto& row : rows) {
    Program p = plain;
    row.change(p);
    all.push_back(identity(p));
    EXPECT_EQ(std::count(all.begin(), all.end(), all.back()), 1) << row.what;
  }
  Program moved = plain;
  moved.accumulations[0].label = "v(x)", moved.accumulations[0].source = {"other.cpp", 3}, moved.buffers[0].where = {};
  EXPECT_EQ(identity(moved), same);
}

}  // namespace
}  // namespace caravan::ir
