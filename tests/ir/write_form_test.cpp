// The verdict on write maps: is each element written once, and is every one written?
#include "caravan/ir/write_form.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace caravan::ir {
namespace {

TEST(WriteForm, SaysWhichLoopsMayBeParallel) {
  const Term i = Term::iterator(0), j = Term::iterator(1), at = Term::symbol(0);
  auto n = [](int64_t value) { return Term::number(value); };
  struct FormRow {
    const char* name;
    std::vector<Term> write;
    std::vector<int64_t> sizes;
    bool injective, covers;
  };
  const FormRow rows[] = {
      {"every element", {i, j}, {4, 3}, true, true},
      {"transposed", {j, i}, {3, 4}, true, true},
      {"a sum over j", {i}, {4}, true, true},
      {"a sum over all", {}, {}, true, true},
      {"a kept axis", {i, n(0)}, {4, 1}, true, true},
      {"a fixed index", {i, n(1)}, {4, 2}, true, false},
      {"a shift", {i + n(1)}, {5}, true, false},
      {"every second", {i * 2}, {8}, true, false},
      {"backwards", {n(3) - i}, {4}, true, true},
      {"a slice", {at, i}, {7, 4}, true, false},
      {"a slice that moves", {i + at}, {9}, true, false},
      {"a diagonal", {i, i}, {4, 4}, true, false},
      {"a diagonal beside another axis", {i, i + j, j}, {4, 6, 3}, true, false},
      {"a window: o + k", {i + j}, {6}, false, false},
      {"a strided window: 2*o + k", {i * 2 + j}, {9}, false, false},
      {"a window that overlaps nowhere", {i * 3 + j}, {12}, true, true},
      {"one that overlaps nowhere and leaves a rest", {i * 3 + j}, {13}, true, false},
      {"one that overlaps nowhere and leaves gaps", {i * 4 + j}, {16}, true, false},
      {"one that goes beyond both ends", {i * 3 + j - n(2)}, {8}, true, true},
      {"residues out of order", {i * 3 + j * 2 - n(2)}, {8}, true, true},
      {"residues backwards, from the other end", {n(11) - i * 3 - j}, {12}, true, true},
      {"common factors: 2*o + 4*k", {i * 2 + j * 4}, {15}, false, false},
      {"a window that overlaps nowhere, moved by a symbol", {i * 3 + j + at}, {14}, true, false},
      {"a merged axis beside one of its iterators", {i * 3 + j, j}, {12, 3}, true, false},
      {"an index tensor", {Term::load(0)}, {5}, false, false},
      {"an index tensor beside an axis", {Term::load(0), j}, {5, 3}, false, false},
  };
  for (const FormRow& row : rows) {
    Program p;
    p.symbols = {{"at", 3}};
    Shape shape;
    for (int64_t size : row.sizes) shape.output.push_back({size});
    p.buffers = {{"y", shape, DType::f32, Computed{}, {}}, {"ids", parse_shape("4"), DType::i32, StateLeaf{}, {}}};
    Accumulation a;
    a.target = 0, a.iterators = {"i", "j"}, a.extents = {4, 3}, a.write = row.write, a.operands = {{1, {i}}},
    a.body = Body::number(1);
    const WriteForm form = write_form(p, a);
    EXPECT_EQ(form.injective, row.injective) << row.name;
    EXPECT_EQ(form.covers, row.covers) << row.name;
    for (size_t k = 0; k < 2; ++k) {
      bool mentioned = false;
      for (const Term& t : row.write)
        for (const Term::Part& part : t.parts)
          mentioned = mentioned || (part.kind == Term::Part::Kind::iterator && size_t(part.which) == k);
      EXPECT_EQ(form.outer[k], mentioned) << row.name;
    }
  }
}

// Against counting: injective is exact for two iterators, covers is sound and sees every window that is stored in
// order.
TEST(WriteForm, AgreesWithCounting) {
  std::mt19937 random(1);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  int covered = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int64_t a = pick(1, 5) * (pick(0, 1) ? 1 : -1), b = pick(1, 5) * (pick(0, 1) ? 1 : -1), c = pick(-6, 12),
                  size = pick(1, 12);
    const std::vector<int64_t> extents = {pick(1, 6), pick(1, 6)};
    Program p;
    p.buffers = {{"y", parse_shape(std::to_string(size)), DType::f32, Computed{}, {}}};
    Accumulation accumulation;
    accumulation.target = 0, accumulation.iterators = {"i", "j"}, accumulation.extents = extents;
    accumulation.write = {Term::iterator(0, a) + Term::iterator(1, b) + Term::number(c)};
    std::map<int64_t, int> count;
    for (int64_t i = 0; i < extents[0]; ++i)
      for (int64_t j = 0; j < extents[1]; ++j) ++count[a * i + b * j + c];
    bool once = true, all = true;
    for (auto [value, times] : count) once = once && times == 1;
    for (int64_t v = 0; v < size; ++v) all = all && count.count(v);
    const WriteForm form = write_form(p, accumulation);
    ASSERT_EQ(form.injective, once) << a << "*i + " << b << "*j + " << c << " for i < " << extents[0] << ", j < "
                                    << extents[1];
    ASSERT_TRUE(!form.covers || (once && all))
        << a << "*i + " << b << "*j + " << c << " for i < " << extents[0] << ", j < " << extents[1] << " in " << size;
    const bool in_order = extents[1] == std::abs(a) && std::abs(b) == 1;
    ASSERT_TRUE(!once || !all || !in_order || form.covers) << a << "*i + " << b << "*j + " << c << " in " << size;
    covered += form.covers;
  }
  EXPECT_GT(covered, 200);
}

}  // namespace
}  // namespace caravan::ir
