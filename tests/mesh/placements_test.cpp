// All cases of the gradient checks (windows, parts, index tensors, argmax, ...) with axes placed at random.
#include <gtest/gtest.h>

#include <cmath>

#include "gradient_programs.h"
#include "placed.h"

namespace caravan {
namespace {

void expect_near(const Array& actual, const Array& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 1;
  for (double v : expected.values()) largest = std::max(largest, std::abs(v));
  for (int64_t k = 0; k < expected.size(); ++k)
    ASSERT_LE(std::abs(actual.at(k) - expected.at(k)), 1e-10 * largest) << what << ", element " << k;
}

TEST(Placements, OfEveryGradientChangeNoValue) {
  // Two devices, three, four along two axes; two that add in four parts, one that adds in three; four along one axis;
  // two that add in six parts, which are gathered.
  const Mesh meshes[] = {{{"a", 2}},    {{"a", 3}}, {{"a", 2}, {"b", 2}}, {{"a", 2, 4}},
                         {{"a", 1, 3}}, {{"a", 4}}, {{"a", 2, 6}}};
  uint32_t seed = 0;
  size_t divided = 0;
  for (const GradientProgram& g : gradient_programs()) {
    const Task task = task_of(g.program, g.indices);
    const Mesh& mesh = meshes[seed % std::size(meshes)];
    const Task placed = placed_at_random(task, mesh, ++seed, 2);
    divided += placed.program.placements.empty() ? 0 : 1;
    const std::string what = g.name + ", seed " + std::to_string(seed) + ", mesh " + to_string(mesh);
    Outcome one, many;
    try {
      one = run_on_mesh(task, {});
      many = run_on_mesh(placed, mesh);
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": " << error.what();
      continue;
    }
    for (size_t k = 0; k < one.observed.size(); ++k) expect_near(many.observed[k], one.observed[k], what);
  }
  EXPECT_GT(divided, 50u);
}

}  // namespace
}  // namespace caravan
