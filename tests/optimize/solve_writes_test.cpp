// Overlapping writes are solved for their iterators; random maps and the gradients of random windows agree with the
// interpreter.
#include "caravan/optimize/solve_writes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "caravan/backend/cc/device.h"
#include "caravan/backend/interp/device.h"
#include "caravan/ir/write_form.h"
#include "caravan/ops/table.h"
#include "caravan/plan/plan.h"
#include "pass_table.h"

namespace caravan::optimize {
namespace {

// The gradient of a window by what it reads, the cotangent being d.
Program window_gradient(const char* text, const char* x_shape, const char* w_shape, const char* d_shape) {
  Tensor x = parameter("x", x_shape), d = parameter("d", d_shape);
  return observe(grad(dot(d, einsum(spec(text), x, parameter("w", w_shape)).named("y")), x).named("dx"));
}

TEST(SolveWrites, BeforeAndAfter) {
  struct Row {
    const char* name;
    std::function<Program()> program;
    const char *before, *after;  // the last accumulation
  };
  const Row rows[] = {
      {"stride 1", [] { return window_gradient("o+k; k => o", "7", "3", "5"); }, R"(
dx[o + k] += d y[o] * w[k]   for o < 5, k < 3
)",
       R"(
dx[o_q] += d y[o_q - k] * w[k]   for k < 3, o_q < 7 where o_q - k >= 0 and k - o_q + 4 >= 0
)"},
      {"stride 2: one case for each residue", [] { return window_gradient("2*o+k; k => o", "8", "3", "3"); }, R"(
dx[2*o + k] += d y[o] * w[k]   for o < 3, k < 3
)",
       R"(
dx[2*o_q + k_j] += d y[o_q - k_m] * w[2*k_m + k_j]   for k_m < 2, o_q < 4, k_j < 2 where o_q - k_m >= 0 and k_m - o_q + 2 >= 0 and 2 - 2*k_m - k_j >= 0
)"},
      {"stride 3, dilation 2", [] { return window_gradient("3*o+2*k; k => o", "30", "5", "8"); }, R"(
dx[3*o + 2*k] += d y[o] * w[k]   for o < 8, k < 5
)",
       R"(
dx[3*o_q + 2*k_j - 3] += d y[o_q - 2*k_m - 1] * w[3*k_m + k_j]   for k_m < 2, o_q < 11, k_j < 3 where o_q - 2*k_m - 1 >= 0 and 2*k_m - o_q + 8 >= 0 and 4 - 3*k_m - k_j >= 0 and 3*o_q + 2*k_j - 3 >= 0 and 32 - 3*o_q - 2*k_j >= 0
)"},
      {"stride 2, dilation 2: every second element, so the target is filled first",
       [] { return window_gradient("2*o+2*k; k => o", "12", "3", "4"); }, R"(
dx[2*o + 2*k] += d y[o] * w[k]   for o < 4, k < 3
)",
       R"(
dx[2*o_q] += d y[o_q - k] * w[k]   for k < 3, o_q < 6 where o_q - k >= 0 and k - o_q + 3 >= 0
)"},
      {"padded", [] { return window_gradient("2*o<1+k; k => o", "6", "3", "3"); }, R"(
dx[2*o + k - 1] += d y[o] * w[k]   for o < 3, k < 3 where 2*o + k - 1 >= 0
)",
       R"(
dx[2*o_q + k_j - 1] += d y[o_q - k_m] * w[2*k_m + k_j]   for k_m < 2, o_q < 4, k_j < 2 where 2*o_q + k_j - 1 >= 0 and o_q - k_m >= 0 and k_m - o_q + 2 >= 0 and 2 - 2*k_m - k_j >= 0 and 6 - 2*o_q - k_j >= 0
)"},
      {"two axes", [] { return window_gradient("h+p, 2*w<1+q, c; p, q, c => h, w", "4,6,2", "2,3,2", "3,3"); }, R"(
dx[h + p, 2*w + q - 1, c] += d y[h, w] * w[p, q, c]   for h < 3, w < 3, p < 2, q < 3, c < 2 where 2*w + q - 1 >= 0
)",
       R"(
dx[h_q, 2*w_q + q_j - 1, c] += d y[h_q - p, w_q - q_m] * w[p, 2*q_m + q_j, c]   for p < 2, q_m < 2, h_q < 4, w_q < 4, c < 2, q_j < 2 where 2*w_q + q_j - 1 >= 0 and h_q - p >= 0 and p - h_q + 2 >= 0 and w_q - q_m >= 0 and q_m - w_q + 2 >= 0 and 2 - 2*q_m - q_j >= 0 and 6 - 2*w_q - q_j >= 0
)"},
      {"a transposed convolution",
       [] { return observe(einsum("o; k => 2*o+k", parameter("x", "4"), parameter("w", "3")).named("y")); }, R"(
y[2*o + k] += x[o] * w[k]   for o < 4, k < 3
)",
       R"(
y[2*o_q + k_j] += x[o_q - k_m] * w[2*k_m + k_j]   for k_m < 2, o_q < 5, k_j < 2 where o_q - k_m >= 0 and k_m - o_q + 3 >= 0 and 2 - 2*k_m - k_j >= 0 and 8 - 2*o_q - k_j >= 0
)"},
      {"overlapping max pooling: the position is the old one",
       [] {
         Tensor x = parameter("x", "7");
         return observe(grad(dot(parameter("d", "3"), einmax("2*o+k => o", x, {{"k", 3}}).named("y")), x).named("dx"));
       },
       R"(
dx[2*o + k] += where(position == argmax[o], d y[o], 0)   for o < 3, k < 3
)",
       R"(
dx[2*o_q + k_j] += where(positions of dx 6[3*o_q + k_j - k_m] == argmax[o_q - k_m], d y[o_q - k_m], 0)   for k_m < 2, o_q < 4, k_j < 2 where o_q - k_m >= 0 and k_m - o_q + 2 >= 0 and 2 - 2*k_m - k_j >= 0 and 6 - 2*o_q - k_j >= 0
)"},
      {"a few elements of many: the rest is filled, not searched",
       [] { return window_gradient("o+30+k; k => o", "40", "3", "8"); }, R"(
dx[o + k + 30] += d y[o] * w[k]   for o < 8, k < 3
)",
       R"(
dx[o_q + 30] += d y[o_q - k] * w[k]   for k < 3, o_q < 10 where o_q - k >= 0 and k - o_q + 7 >= 0
)"},
  };
  auto last = [](const ir::Program& p) { return joined(lines_of(ir::to_string(p, p.accumulations.back()))); };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const ir::Program before = prepared(row.program());
    const ir::Program after = solve_writes(before);
    ir::verify(after);
    EXPECT_EQ(last(before), trimmed(row.before));
    EXPECT_EQ(last(after), trimmed(row.after));
    EXPECT_EQ(body_of(solve_writes(after)), body_of(after)) << "a second time";
    EXPECT_TRUE(ir::write_form(after, after.accumulations.back()).injective);
  }
}

TEST(SolveWrites, MustRefuse) {
  const std::vector<Refusal> rows = {
      {"what is injective: a product",
       [] { return observe(einsum("ij;jk=>ik", parameter("a", "3,4"), parameter("b", "4,2"))); }},
      {"what is injective: windows that overlap nowhere",
       [] { return observe(einsum("o; k => 3*o+k", parameter("x", "4"), parameter("w", "3"))); }},
      {"an index tensor in the write map",
       [] {
         return observe(scatter_add(parameter("x", "3,2"), tensor(Array::vector({1, 0, 1}, DType::i32)), 4));
       }},
      {"an argmax, which keeps the first winner in the order of its iterators",
       [] {
         return observe(argmax("o => o+k", parameter("x", "4"), {{"k", 3}}));
       }},
  };
  expect_refused(solve_writes, rows);
  // Maps that the notation does not write.
  using ir::Term;
  const Term i = Term::iterator(0), j = Term::iterator(1), k = Term::iterator(2), at = Term::symbol(0);
  auto n = [](int64_t value) { return Term::number(value); };
  struct Row {
    const char* reason;
    std::vector<Term> write;
    std::vector<int64_t> sizes, extents;
    bool solved;
  };
  const Row maps[] = {
      {"two iterators are solved", {i + j}, {6}, {4, 3, 2}, true},
      {"three iterators in an axis", {i + j + k}, {7}, {4, 3, 2}, false},
      {"an iterator that another axis has too", {i + j, j}, {6, 3}, {4, 3, 2}, false},
      {"an axis that a symbol moves", {i + j + at}, {8}, {4, 3, 2}, false},
      {"one axis can be solved, another cannot", {i + j, i + k}, {6, 5}, {4, 3, 2}, false},
      {"an overlapping axis beside an index tensor", {Term::load(1), i + j}, {5, 6}, {4, 3, 2}, false},
      {"no points", {i + j}, {6}, {4, 0, 2}, false},
      {"no elements", {i + j}, {0}, {4, 3, 2}, false},
  };
  for (const Row& row : maps) {
    ir::Program p;
    p.symbols = {{"at", 3}};
    Shape shape;
    for (int64_t size : row.sizes) shape.output.push_back({size});
    p.buffers = {{"y", shape, DType::f32, ir::Computed{}, {}},
                 {"x", parse_shape("4"), DType::f32, ir::StateLeaf{}, {}},
                 {"ids", parse_shape("2"), DType::i32, ir::StateLeaf{}, {}}};
    ir::Accumulation a;
    a.target = 0, a.accumulator = Accumulator::add, a.iterators = {"i", "j", "k"}, a.extents = row.extents,
    a.write = row.write, a.operands = {{1, {i}}, {2, {k}}}, a.body = ir::Body::identity();
    for (size_t axis = 0; axis < row.sizes.size(); ++axis)
      a.where.insert(a.where.end(), {row.write[axis], n(row.sizes[axis] - 1) - row.write[axis]});
    p.accumulations = {a}, p.observed = {0};
    ir::verify(p);
    EXPECT_EQ(body_of(solve_writes(p)) != body_of(p), row.solved) << row.reason;
  }
}

std::unique_ptr<backend::Device> unoptimised() {
  static const TemporaryFolder cache;
  cc::DeviceOptions options;
  options.compiler.cache = cache.path;
  options.compiler.flags.push_back("-O0");  // hundreds of kernels, run once
  return cc::make_device(options);
}

// Any two iterators in an axis, forwards and backwards, within the target and beyond it, with conditions, other
// accumulators and positions. All values are small integers, so that no order rounds.
Task random_map(uint32_t seed) {
  using ir::Term;
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  auto integers = [&](int64_t size) {
    Array out(parse_shape(std::to_string(size)), DType::f64);
    for (int64_t e = 0; e < size; ++e) out.set(e, pick(0, 1) ? pick(1, 3) : -pick(1, 3));
    return out;
  };
  Task out;
  ir::Program& p = out.program;
  Shape shape;
  ir::Accumulation a;
  ir::Body body;
  int value = -1;
  auto times = [&](int other) {
    const int args[] = {value, other};
    value = value < 0 ? other : body.apply(Op::mul, args);
  };
  p.buffers.resize(1);
  for (int axis = 0, axes = pick(1, 2); axis < axes; ++axis) {
    Term term = Term::number(pick(-5, 12));
    for (int k = 0; k < 2; ++k) {
      const int iterator = int(a.iterators.size());
      term = term + Term::iterator(iterator, pick(1, 4) * (pick(0, 3) ? 1 : -1));
      a.iterators.push_back("i" + std::to_string(iterator)), a.extents.push_back(pick(1, 6));
      const std::string name = "x" + std::to_string(iterator);
      out.states[name] = integers(a.extents.back());
      p.buffers.push_back({name, parse_shape(std::to_string(a.extents.back())), DType::f64, ir::StateLeaf{}, {}});
      a.operands.push_back(
          {int(p.buffers.size()) - 1,
           {pick(0, 1) ? Term::iterator(iterator) : Term::number(a.extents.back() - 1) - Term::iterator(iterator)}});
      times(body.load(iterator));
    }
    const int64_t size = pick(1, 20);
    shape.output.push_back({size});
    a.where.insert(a.where.end(), {term, Term::number(size - 1) - term});
    a.write.push_back(term);
  }
  if (pick(0, 2) == 0)
    a.where.push_back(Term::iterator(0, pick(-2, 2)) + Term::iterator(1, pick(-2, 2)) + Term::number(pick(0, 4)));
  if (pick(0, 2) == 0) times(body.position());
  body.finish(value);
  const Accumulator accumulators[] = {Accumulator::add, Accumulator::add, Accumulator::max, Accumulator::min};
  a.target = 0, a.accumulator = accumulators[pick(0, 3)], a.body = body;
  p.buffers[0] = {"y", shape, DType::f64, ir::Computed{}, {}};
  p.accumulations = {a}, p.observed = {0};
  ir::verify(p);
  return out;
}

bool has_points(const ir::Accumulation& a) {
  std::vector<int64_t> at(a.extents.size(), 0);
  for (;;) {
    const bool inside = std::all_of(a.where.begin(), a.where.end(), [&](const ir::Term& t) {
      int64_t value = t.constant;
      for (const ir::Term::Part& part : t.parts) value += part.coefficient * at[size_t(part.which)];
      return value >= 0;
    });
    if (inside) return true;
    size_t k = 0;
    while (k < at.size() && ++at[k] == a.extents[k]) at[k++] = 0;
    if (k == at.size()) return false;
  }
}

TEST(SolveWrites, RandomMaps) {
  constexpr uint32_t kGroups = 2, kTogether = 150;
  int overlapping = 0, solved = 0;
  for (uint32_t group = 0; group < kGroups; ++group) {
    std::vector<Task> tasks;
    for (uint32_t k = 0; k < kTogether; ++k) {
      tasks.push_back(random_map(1 + group * kTogether + k));
      const ir::Program &p = tasks.back().program, q = solve_writes(p);
      ir::verify(q);
      if (ir::write_form(p, p.accumulations[0]).injective || !has_points(p.accumulations[0])) continue;
      ++overlapping, solved += ir::write_form(q, q.accumulations[0]).injective;
    }
    Task task = joined(tasks);
    const Outcome expected = run_on(*interp::make_device(0), task), compiled = run_on(*unoptimised(), task);
    task.program = solve_writes(task.program);
    const Outcome interpreted = run_on(*interp::make_device(0), task);
    for (uint32_t k = 0; k < kTogether; ++k) {
      EXPECT_EQ(interpreted.observed[k].values(), expected.observed[k].values())
          << "seed " << 1 + group * kTogether + k << ":\n"
          << body_of(tasks[k].program) << body_of(solve_writes(tasks[k].program));
      EXPECT_EQ(compiled.observed[k].values(), expected.observed[k].values())
          << "compiled, seed " << 1 + group * kTogether + k << ":\n"
          << body_of(tasks[k].program) << body_of(solve_writes(tasks[k].program));
    }
  }
  EXPECT_GT(overlapping, 100);
  EXPECT_EQ(solved, overlapping);
}

// The gradients of random windows by what they read and by their kernel.
struct WindowTask {
  std::string text;
  Task task;
};

WindowTask random_window(uint32_t seed) {
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  std::string read, kernel, result, x_shape, w_shape;
  const int axes = pick(1, 2);
  for (int axis = 0; axis < axes; ++axis) {
    const std::string o(1, char('o' + axis)), k(1, char('j' + axis)), comma = axis ? ", " : "";
    const int stride = pick(1, 4), dilation = pick(1, 3), size = pick(1, 5), reach = dilation * (size - 1);
    const std::string pads[] = {"", "", "=", reach > 0 ? "<" + std::to_string(pick(1, reach)) : ""};
    read += comma + std::to_string(stride) + "*" + o + pads[pick(0, 3)] + "+" + std::to_string(dilation) + "*" + k;
    kernel += comma + k, result += comma + o;
    x_shape += (axis ? "," : "") + std::to_string(reach + 1 + pick(0, 9)),
        w_shape += (axis ? "," : "") + std::to_string(size);
  }
  const bool channels = pick(0, 1);
  if (channels)
    read = "b, " + read + ", c", kernel = kernel + ", c, d", result = "b, " + result + ", d",
    x_shape = "2," + x_shape + ",2", w_shape += ",2,3";
  auto drawn = [&](const std::string& shape) {
    Array out(parse_shape(shape), DType::f64);
    for (int64_t e = 0; e < out.size(); ++e) out.set(e, double(pick(-1000, 1000)) / 997);
    return out;
  };
  Tensor x = param("x", drawn(x_shape)), w = param("w", drawn(w_shape));
  const std::string text = read + "; " + kernel + " => " + result;
  Tensor y = einsum(spec(text), x, w);
  Tensor cotangent = tensor(drawn(to_string(Context({.device = "interp"}).shape(y))));
  auto [dx, dw] = grad(dot(y, cotangent), x, w);
  return {text + " of " + x_shape + " and " + w_shape, task_of(observe({dx, dw}))};
}

TEST(SolveWrites, GradientsOfRandomWindows) {
  constexpr uint32_t kGroups = 3, kTogether = 60;
  for (uint32_t group = 0; group < kGroups; ++group) {
    std::vector<Task> tasks;
    std::vector<std::string> texts;
    for (uint32_t k = 0; k < kTogether; ++k) {
      WindowTask window = random_window(1 + group * kTogether + k);
      const ir::Program q = plan::make_plan(window.task.program, host()).optimized;
      for (const ir::Accumulation& a : q.accumulations)
        EXPECT_TRUE(ir::write_form(q, a).injective) << window.text << "\n" << body_of(q);
      texts.push_back(window.text), tasks.push_back(std::move(window.task));
    }
    const Task task = joined(tasks);
    const Outcome expected = run_on(*interp::make_device(0), task);
    for (const char* off : {"", "solve_writes"}) {
      const Outcome actual =
          run_on(*unoptimised(), task, 1, {*off ? std::vector<std::string>{off} : std::vector<std::string>{}});
      for (size_t o = 0; o < expected.observed.size(); ++o) {
        double largest = 0;
        for (double v : expected.observed[o].values()) largest = std::max(largest, std::abs(v));
        for (int64_t e = 0; e < expected.observed[o].size(); ++e)
          ASSERT_LE(std::abs(actual.observed[o].at(e) - expected.observed[o].at(e)), 1e-12 * largest)
              << texts[o / 2] << (o % 2 ? ", by the kernel" : ", by what is read") << ", without `" << off
              << "`, element " << e;
      }
    }
  }
}

}  // namespace
}  // namespace caravan::optimize
