// Inference always ends, and its cost is close to linear.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>

#include "caravan/base/error.h"
#include "sanitized.h"
#include "solver/model.h"

namespace caravan::shape {
namespace {

double seconds(const std::function<void()>& f) {  // of this process: others use the machine too
  const std::clock_t start = std::clock();
  f();
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}

struct Growing {
  const char* what;
  std::function<void(Model&, int)> build;
  bool refused = false;
};

const std::vector<Growing>& growing() {
  static const std::vector<Growing> kModels = {
      {"a chain of layers",
       [](Model& m, int n) {
         T x = m.data("4|8");
         for (int i = 0; i < n; ++i) x = m.point({m.apply(m.param(nullptr, "8"), x), m.param()});
       }},
      {"a chain of pointwise operations on an open parameter",
       [](Model& m, int n) {
         T x = m.param("");
         for (int i = 0; i < n; ++i) x = m.point({x, m.number()});
         m.point({x, m.data("3")});
       }},
      {"residual layers, sized at the end",
       [](Model& m, int n) {
         T x = m.apply(m.param(), m.data("4|8"));
         for (int i = 0; i < n; ++i) x = m.point({x, m.apply(m.param(), x)});
         m.point({x, m.data("5")});
       }},
      {"kept means in a chain",
       [](Model& m, int n) {
         T x = m.data("4|8");
         for (int i = 0; i < n; ++i) x = m.point({x, m.kept_mean(x)});
       }},
      {"one parameter used everywhere",
       [](Model& m, int n) {
         T x = m.data("4|8"), b = m.param();
         for (int i = 0; i < n; ++i) x = m.point({x, b});
       }},
      {"a wide sum",
       [](Model& m, int n) {
         T total = m.data("4|8");
         for (int i = 0; i < n; ++i) total = m.point({total, m.apply(m.param(), m.data("4|3"))});
       }},
      {"a chain of windows",
       [](Model& m, int n) {
         T x = m.data("100000000");
         for (int i = 0; i < n; ++i) x = m.einsum("o+k; k => o", {x, m.data("3")});
       }},
      {"a chain of windows, known at the end",
       [](Model& m, int n) {
         T x = m.param("");
         for (int i = 0; i < n; ++i) x = m.einsum("o+k; k => o", {x, m.data("3")});
         m.point({x, m.data("7")});
       }},
      {"a chain of transposed convolutions",
       [](Model& m, int n) {
         T x = m.data("4");
         for (int i = 0; i < n; ++i) x = m.einsum("o; k => o+k", {x, m.data("3")});
       }},
      {"a chain of gathers",
       [](Model& m, int n) {
         T ids = m.data("4|");
         for (int i = 0; i < n; ++i) ids = m.gather(m.param("9", ""), ids);
       }},
      {"a chain of leaves, each read only through an einsum of the one before",
       [](Model& m, int n) {
         T x = m.data("4|3");
         for (int i = 0; i < n; ++i) {
           T p = m.param("");
           m.point({x, p});
           x = m.einsum("... => ...", {p});
         }
       }},
      {"a chain of states",
       [](Model& m, int n) {
         T first = m.state(), s = first;
         for (int i = 0; i < n; ++i) {
           T next = m.state();
           m.assign(next, m.point({s, m.number()}));
           s = next;
         }
         m.assign(first, m.point({s, m.data("3")}));
       }},
      {"an infinite row through a long cycle",
       [](Model& m, int n) {
         T first = m.state(), s = first;
         for (int i = 0; i < n; ++i) {
           T next = m.state();
           m.assign(next, m.point({s, m.number()}));
           s = next;
         }
         m.assign(first, m.stack({s}, RowKind::output));
       },
       true},
      {"an infinite row through a long cycle of joins",
       [](Model& m, int n) {
         T first = m.state(), s = first;
         for (int i = 0; i < n; ++i) s = m.point({s, m.data("3")});
         m.assign(first, m.stack({s}, RowKind::output));
       },
       true},
      {"undetermined parameters in a chain",
       [](Model& m, int n) {
         T x = m.param();
         for (int i = 0; i < n; ++i) x = m.apply(m.param(), x);
       },
       true},
      {"one size that does not fit, far away",
       [](Model& m, int n) {
         T x = m.data("4|8");
         for (int i = 0; i < n; ++i) x = m.point({x, m.number()});
         m.point({x, m.data("7")});
       },
       true},
  };
  return kModels;
}

TEST(Solver, CostIsCloseToLinear) {
  for (const Growing& g : growing()) {
    auto cost = [&](int n) {
      Model model;
      g.build(model, n);
      return seconds([&] {
        try {
          solve(model.system);
          EXPECT_FALSE(g.refused) << g.what;
        } catch (const ShapeError& error) {
          EXPECT_TRUE(g.refused) << g.what << ": " << error.what();
        }
      });
    };
    const int small = kSanitized
                          ? 2'000
                          : 5'000;  // quadratic cost would be sixteen times as much; caches alone make it five to seven
    double ratio = 100, before = 100, after = 100;
    for (int attempt = 0; attempt < 5 && ratio >= 10; ++attempt) {
      before = std::min(before, cost(small)), after = std::min(after, cost(4 * small));
      ratio = after / std::max(before, 2e-3);
    }
    if (getenv("CARAVAN_SHOW_COST")) std::printf("%-70s %7.3f s %7.3f s  x%.1f\n", g.what, before, after, ratio);
    EXPECT_LT(ratio, 10) << g.what << ": " << before << " s, then " << after << " s for four times as many nodes";
    EXPECT_LT(after, kSanitized ? 50 : 5) << g.what;
  }
}

TEST(Solver, TenThousandLayersInASecond) {
  Model model;
  T x = model.data("4|8");
  for (int i = 0; i < 10'000; ++i) x = model.point({model.apply(model.param(nullptr, "8"), x), model.param()});
  const double limit = kSanitized ? 10 : 1;
  double best = 100;
  for (int attempt = 0; attempt < 3 && best >= limit; ++attempt)
    best = std::min(best, seconds([&] { solve(model.system); }));
  EXPECT_LT(best, limit);
}

}  // namespace
}  // namespace caravan::shape
