// A suite generated from the accumulator table, and what accumulators promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"
#include "ops/formulas.h"

namespace caravan {

void PrintTo(const AccumulatorRow& row, std::ostream* out) { *out << row.name; }

namespace {

class EveryAccumulator : public testing::TestWithParam<AccumulatorRow> {};

TEST_P(EveryAccumulator, JoinsWithItsOpAndStartsNeutral) {
  const AccumulatorRow& row = GetParam();
  EXPECT_EQ(find_accumulator(row.name), row.accumulator);
  EXPECT_EQ(&caravan::row(row.accumulator), &accumulator_rows()[size_t(row.accumulator)]);
  EXPECT_EQ(keeps_position(row.accumulator), !row.op.has_value());
  if (!row.op) return;
  EXPECT_TRUE(caravan::row(*row.op).commutative && caravan::row(*row.op).associative);
  const bool logic = caravan::row(*row.op).result == ResultType::logic;
  for (double a : {0.0, 1.0, -2.0, 3.5, kInf, -kInf}) {
    if (logic) a = a != 0;
    EXPECT_EQ(row.combine(row.neutral, a), a) << row.name;
    EXPECT_EQ(row.combine(a, row.neutral), a) << row.name;
    for (double b : {0.0, 1.0, -2.0, kNaN}) {
      const double joined = eval(*row.op, a, b), combined = row.combine(a, b);
      EXPECT_TRUE(joined == combined || (std::isnan(joined) && std::isnan(combined))) << row.name;
    }
  }
  if (row.accumulator == Accumulator::max || row.accumulator == Accumulator::min) {
    EXPECT_TRUE(std::isnan(row.combine(kNaN, 1)) && std::isnan(row.combine(1, kNaN)));
  }
}

// The accumulated value and where the winner was, by the rows.
double accumulate(const AccumulatorRow& row, std::span<const double> body) {
  double total = row.neutral, best = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    if (!keeps_position(row.accumulator)) {
      total = row.combine(total, body[i]);
    } else if (total < 0 || beats(row.accumulator, body[i], best)) {
      total = double(i);
      best = body[i];
    }
  }
  return total;
}

TEST_P(EveryAccumulator, GradientIsTheDerivative) {
  const AccumulatorRow& row = GetParam();
  const std::vector<std::vector<double>> bodies = {
      {2, -3, 0.5, 4}, {2, 0, 0.5, 4}, {0, -3, 0, 4}, {0, 0, 0}, {1.5}, {0}, {-2, -1, -1.5}};
  for (const std::vector<double>& body : bodies) {
    double aux[2] = {0, 0};
    for (int k = 0; k < 2; ++k) {
      if (row.auxiliaries[size_t(k)].accumulator.empty()) continue;
      std::vector<double> values;
      for (double value : body) values.push_back(evaluate(auxiliary_body(row.accumulator, k), std::array{value}));
      const std::optional<Accumulator> accumulator = find_accumulator(row.auxiliaries[size_t(k)].accumulator);
      ASSERT_TRUE(accumulator.has_value());
      aux[k] = accumulate(caravan::row(*accumulator), values);
    }
    double flowing = 0;
    const bool ties = std::set<double>(body.begin(), body.end()).size() < body.size();
    for (size_t i = 0; i < body.size(); ++i) {
      const double chain = 1.5;
      const double got = evaluate(gradient(row.accumulator), std::array{chain, body[i], double(i), aux[0], aux[1]});
      flowing += got;
      const bool selects = row.accumulator == Accumulator::max || row.accumulator == Accumulator::min;
      if (selects && ties) {
        EXPECT_EQ(got, double(i) == aux[0] ? chain : 0) << row.name;
        continue;
      }
      if (!row.op || row.accumulator == Accumulator::or_ || row.accumulator == Accumulator::and_) {
        EXPECT_EQ(got, 0) << row.name;
        continue;
      }
      const double h = 1e-4;
      std::vector<double> up = body, down = body;
      up[i] += h;
      down[i] -= h;
      EXPECT_NEAR(got, chain * (accumulate(row, up) - accumulate(row, down)) / (2 * h), 1e-9)
          << row.name << " point " << i;
    }
    if (row.accumulator == Accumulator::max || row.accumulator == Accumulator::min) {
      EXPECT_EQ(flowing, 1.5) << row.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Accumulators, EveryAccumulator,
                         testing::ValuesIn(accumulator_rows().begin(), accumulator_rows().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Accumulators, SayWhatTheyAllow) {
  const std::set<Accumulator> indexed = {Accumulator::add, Accumulator::max, Accumulator::min};
  for (const AccumulatorRow& row : accumulator_rows()) {
    EXPECT_EQ(row.indexed_write, indexed.count(row.accumulator) > 0) << row.name;
    EXPECT_EQ(row.refuse_second.empty(), row.accumulator != Accumulator::mul) << row.name;
  }
  EXPECT_THROW(auxiliary_body(Accumulator::add, 0), InternalError);
  EXPECT_THROW(auxiliary_body(Accumulator::max, 1), InternalError);
}

TEST(Accumulators, TheFirstOfEqualsStaysAndNaNBeatsAll) {
  for (Accumulator largest : {Accumulator::max, Accumulator::argmax}) {
    EXPECT_TRUE(beats(largest, 2, 1));
    EXPECT_FALSE(beats(largest, 1, 2));
    EXPECT_FALSE(beats(largest, 1, 1));
    EXPECT_TRUE(beats(largest, kNaN, kInf));
    EXPECT_FALSE(beats(largest, kInf, kNaN));
    EXPECT_FALSE(beats(largest, kNaN, kNaN));
  }
  for (Accumulator smallest : {Accumulator::min, Accumulator::argmin}) {
    EXPECT_TRUE(beats(smallest, 1, 2));
    EXPECT_FALSE(beats(smallest, 2, 1));
    EXPECT_FALSE(beats(smallest, 1, 1));
    EXPECT_TRUE(beats(smallest, kNaN, -kInf));
    EXPECT_FALSE(beats(smallest, -kInf, kNaN));
  }
  EXPECT_THROW(beats(Accumulator::add, 1, 2), InternalError);
}

}  // namespace
}  // namespace caravan
