// Optimisers against PyTorch's formulas in plain double, schedules, clipping, accumulation, averages.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "programs/in_double.h"
#include "refusal.h"

namespace caravan {
namespace {

constexpr int kSteps = 5;

const Values kStart = {0.5, -1.25, 2.0, 0.0};
const Values kLionStart = {-0.9, 1.2, -0.7,
                           -0.7};  // near the minima, so that steps of 0.05 go beyond them and come back
constexpr int kLionSteps = 40;

// The loss sum(w^4 / 4 + c w) and its gradient w^3 + c.
const Values kSlope = {1.0, -2.0, 0.25, 0.5};
Values gradient_at(const Values& w) {
  Values g(w.size());
  for (size_t i = 0; i < w.size(); ++i) g[i] = w[i] * w[i] * w[i] + kSlope[i];
  return g;
}
Tensor weights() { return param("w", Array::vector(kStart, DType::f64)); }
Tensor loss_of(const Tensor& w) { return sum(square(square(w)) / 4 + tensor(Array::vector(kSlope, DType::f64)) * w); }

// One element's update: parameter, gradient, number of the step from 1, two memories of its own.
using Update = std::function<double(double w, double g, int t, double& m, double& v)>;

Values by_hand(const Update& update) {
  Values w = kStart, m(w.size()), v(w.size());
  for (int t = 1; t <= kSteps; ++t) {
    Values g = gradient_at(w);
    for (size_t i = 0; i < w.size(); ++i) w[i] = update(w[i], g[i], t, m[i], v[i]);
  }
  return w;
}

Values trained(const Optimizer& optimizer, const Transform& transform = nullptr) {
  Context ctx(kInDouble);
  Tensor w = weights();
  Routine step = ctx.compile(train_step(loss_of(w), optimizer, transform));
  for (int t = 0; t < kSteps; ++t) step.run();
  return ctx.read(w).values();
}

// torch.optim.SGD: buf = g in the first step, momentum * buf + g after; zeros at the start give the same.
Update torch_sgd(double lr, double momentum, bool nesterov, double decay) {
  return [=](double w, double g, int t, double& m, double&) {
    g += decay * w;
    if (momentum != 0) {
      m = t == 1 ? g : momentum * m + g;
      g = nesterov ? g + momentum * m : m;
    }
    return w - lr * g;
  };
}
Update torch_adam(double lr, double b1, double b2, double eps, double decay, bool decoupled) {
  return [=](double w, double g, int t, double& m, double& v) {
    if (decoupled)
      w *= 1 - lr * decay;
    else
      g += decay * w;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(b2, t)) + eps;
    return w - lr / (1 - std::pow(b1, t)) * m / denominator;
  };
}
Update torch_rmsprop(double lr, double alpha, double eps, double momentum, double decay) {
  return [=](double w, double g, int, double& v, double& buffer) {
    g += decay * w;
    v = alpha * v + (1 - alpha) * g * g;
    double step = g / (std::sqrt(v) + eps);
    if (momentum == 0) return w - lr * step;
    buffer = momentum * buffer + step;
    return w - lr * buffer;
  };
}
Update lion_by_hand(double lr, double b1, double b2, double decay) {  // arXiv 2302.06675, algorithm 2
  return [=](double w, double g, int, double& m, double&) {
    double c = b1 * m + (1 - b1) * g;
    double next = w - lr * ((c > 0) - (c < 0) + decay * w);
    m = b2 * m + (1 - b2) * g;
    return next;
  };
}

TEST(Optimizer, FollowsPyTorch) {
  struct Row {
    const char* name;
    Optimizer ours;
    Update theirs;
  };
  const Row rows[] = {
      {"sgd", sgd({.lr = 0.02}), torch_sgd(0.02, 0, false, 0)},
      {"weight decay", sgd({.lr = 0.02, .weight_decay = 0.1}), torch_sgd(0.02, 0, false, 0.1)},
      {"momentum", sgd({.lr = 0.02, .momentum = 0.9}), torch_sgd(0.02, 0.9, false, 0)},
      {"nesterov", sgd({.lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}),
       torch_sgd(0.02, 0.9, true, 0.01)},
      {"adam", adam({.lr = 0.05}), torch_adam(0.05, 0.9, 0.999, 1e-8, 0, false)},
      {"adam with decay", adam({.lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1}),
       torch_adam(0.05, 0.8, 0.99, 1e-6, 0.1, false)},
      {"adam without memory", adam({.lr = 0.05, .beta1 = 0, .beta2 = 0}), torch_adam(0.05, 0, 0, 1e-8, 0, false)},
      {"adamw", adamw({.lr = 0.05, .weight_decay = 0.1}), torch_adam(0.05, 0.9, 0.999, 1e-8, 0.1, true)},
      {"adamw, PyTorch's decay", adamw({.lr = 0.05}), torch_adam(0.05, 0.9, 0.999, 1e-8, 0.01, true)},
      {"rmsprop", rmsprop({.lr = 0.02}), torch_rmsprop(0.02, 0.99, 1e-8, 0, 0)},
      {"rmsprop with momentum", rmsprop({.lr = 0.02, .decay = 0.9, .momentum = 0.5, .weight_decay = 0.1}),
       torch_rmsprop(0.02, 0.9, 1e-8, 0.5, 0.1)},
      {"lion", lion({.lr = 0.01}), lion_by_hand(0.01, 0.9, 0.99, 0)},
      {"lion with decay", lion({.lr = 0.01, .beta1 = 0.95, .beta2 = 0.98, .weight_decay = 0.3}),
       lion_by_hand(0.01, 0.95, 0.98, 0.3)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    expect_near(trained(row.ours), by_hand(row.theirs));
  }
  EXPECT_THROW(sgd({.nesterov = true}), ConfigError);
}

// The first step of Adam is the rate itself, whatever the gradient: bias corrections must be exact in single precision.
TEST(Optimizer, AdamsFirstStepIsExactInSinglePrecision) {
  Context ctx({.device = "cpu"});
  Tensor w = param("w", {0, 0, 0});
  ctx.run(train_step(sum(w * tensor({1, 20, -300})), adam({.lr = 1})));
  expect_near(ctx.read(w).values(), {-1, -1, 1}, 3e-7);
}

TEST(Optimizer, TheRateMayBeATensor) {
  Context ctx(kInDouble);
  Index step("step");
  Tensor w = weights();
  Routine r = ctx.compile(train_step(loss_of(w), sgd({.lr = 0.01 * (1 + step)})));
  for (int t = 0; t < kSteps; ++t) r.run({{step, t}});
  expect_near(ctx.read(w).values(),
              by_hand([](double w, double g, int t, double&, double&) { return w - 0.01 * t * g; }));
}

TEST(Optimizer, OneWrittenByTheUserEqualsOurs) {
  auto mine = [](const Gradients& gradients) {
    Program step;
    Tensor count = state("t", {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = zeros()}),
           t = count + 1;
    for (auto& [p, g] : gradients) {
      Tensor m = state_like(p, "m", zeros()), v = state_like(p, "v", zeros());
      Tensor m2 = 0.9 * m + 0.1 * g, v2 = 0.999 * v + 0.001 * square(g);
      step &= assign(m, m2) & assign(v, v2) &
              assign(p, p - 0.05 * (m2 / (1 - pow(0.9, t))) / (sqrt(v2 / (1 - pow(0.999, t))) + 1e-8));
    }
    return step & assign(count, t);
  };
  expect_near(trained(mine), trained(adam({.lr = 0.05})));
}

// A critic c and a generator g that pull at each other: c lowers (c - 1)^2 + c g, then g lowers -c g + g^2 with the new
// c. Each has an Adam of its own, with a count of its own, as two of PyTorch's have.
struct Game {
  Tensor c = param("c", Array::scalar(0.5, DType::f64)), g = param("g", Array::scalar(0.25, DType::f64));
  Tensor critic_loss = square(c - 1) + c * g, generator_loss = square(g) - c * g;
  Program critic(const Optimizer& o) const { return o(gradients(critic_loss, {c})); }
  Program generator(const Optimizer& o) const { return o(gradients(generator_loss, {g})); }

  // Of kSteps rounds, with or without the generator seeing the critic's new value; the generator moves `often` times a
  // round.
  static Values played(bool one_after_the_other, int often = 1) {
    const Update critic = torch_adam(0.1, 0.9, 0.999, 1e-8, 0, false),
                 generator = torch_adam(0.2, 0.5, 0.999, 1e-8, 0, false);
    double c = 0.5, g = 0.25, cm = 0, cv = 0, gm = 0, gv = 0;
    for (int t = 1; t <= kSteps; ++t) {
      const double old = c;
      c = critic(c, 2 * (c - 1) + g, t, cm, cv);
      for (int k = 0; k < often; ++k)
        g = generator(g, 2 * g - (one_after_the_other ? c : old), (t - 1) * often + k + 1, gm, gv);
    }
    return {c, g};
  }
  static Values now(const Context& ctx) { return {ctx.read("c").item(), ctx.read("g").item()}; }
};

TEST(Optimizer, TwoWithoutNamesTrainAGan) {
  const Game game;
  auto one = [] { return adam({.lr = 0.1}); };
  auto two = [] { return adam({.lr = 0.2, .beta1 = 0.5}); };
  {
    SCOPED_TRACE("two routines");
    Context ctx(kInDouble);
    Routine d = ctx.compile(game.critic(one())), g = ctx.compile(game.generator(two()));
    for (int t = 0; t < kSteps; ++t) d.run(), g.run();
    expect_near(Game::now(ctx), Game::played(true));
    EXPECT_EQ(ctx.read("c.adam.step").item(), kSteps);
    EXPECT_EQ(ctx.read("g.adam.step").item(), kSteps);
  }
  {
    SCOPED_TRACE("the generator three times a round");
    Context ctx(kInDouble);
    Routine d = ctx.compile(game.critic(one())), g = ctx.compile(game.generator(two()));
    for (int t = 0; t < kSteps; ++t) d.run(), g.run_steps(3);
    expect_near(Game::now(ctx), Game::played(true, 3));
  }
  {
    SCOPED_TRACE("then");
    Context ctx(kInDouble);
    ctx.compile(then(game.critic(one()), game.generator(two()))).run_steps(kSteps);
    expect_near(Game::now(ctx), Game::played(true));
  }
  {
    SCOPED_TRACE("&");
    Context ctx(kInDouble);
    ctx.compile(game.critic(one()) & game.generator(two())).run_steps(kSteps);
    expect_near(Game::now(ctx), Game::played(false));
  }
}

// All that remember something, made without a name and with one.
std::vector<std::pair<std::string, std::function<Optimizer(std::string)>>> with_memory() {
  return {{"sgd", [](std::string name) { return sgd({.lr = 0.01, .momentum = 0.9, .name = name}); }},
          {"adam", [](std::string name) { return adam({.lr = 0.01, .name = name}); }},
          {"adamw", [](std::string name) { return adamw({.lr = 0.01, .name = name}); }},
          {"rmsprop", [](std::string name) { return rmsprop({.lr = 0.01, .name = name}); }},
          {"lion", [](std::string name) { return lion({.lr = 0.01, .name = name}); }}};
}

TEST(Optimizer, ASecondOneForTheSameParameterIsRefused) {
  for (const auto& [kind, make] : with_memory()) {
    SCOPED_TRACE(kind);
    Tensor w = weights();
    Context ctx(kInDouble);
    Routine first = ctx.compile(train_step(loss_of(w), make("")));
    first.run();
    const Values after_one = ctx.read(w).values();
    for (bool accumulated : {false, true}) {
      Program second = accumulated ? accumulated_step(loss_of(w), 0, 1, make("")) : train_step(loss_of(w), make(""));
      expect_refusal<StateError>(
          [&] { ctx.compile(second); },
          {"`w." + kind + ".", "`" + kind + "` made at train_test.cpp:", "one Optimizer for both", "the same .name",
           "another name", "reset(\"" + kind + "\")"});
    }
    expect_refusal<StateError>([&] { then(train_step(loss_of(w), make("")), train_step(loss_of(w), make(""))); },
                               {"would change it too"});
    expect_refusal<StateError>([&] { train_step(loss_of(w), make("")) & train_step(loss_of(w), make("")); },
                               {"would change it too"});

    // One Optimizer is one, wherever it is used; so are two of one name.
    Optimizer shared = make("");
    Context together(kInDouble), once(kInDouble), named(kInDouble);
    Routine a = together.compile(train_step(loss_of(w), shared)),
            b = together.compile(train_step(loss_of(w) * 1.0, shared));
    a.run(), b.run();
    Routine twice = once.compile(train_step(loss_of(w), make("")));
    twice.run_steps(2);
    EXPECT_EQ(together.read(w).values(), once.read(w).values());
    Routine c = named.compile(train_step(loss_of(w), make("mine"))),
            d = named.compile(train_step(loss_of(w), make("mine")));
    c.run(), d.run();
    EXPECT_EQ(named.read(w).values(), once.read(w).values());
    expect_refusal<StateError>([&] { named.compile(train_step(loss_of(w), make("other"))), named.reset("adagrad"); },
                               {"no program", "`adagrad`", "mine", "other"});

    // Reset: moments and counts are as at first, the weights stay; the first routine has lost its states to the second.
    ctx.reset(kind);
    EXPECT_EQ(ctx.read(w).values(), after_one);
    for (const std::string& name : ctx.names()) {
      const Values values = ctx.read(name).values();
      if (name != "w") {
        EXPECT_EQ(values, Values(values.size())) << name;
      }
    }
    Routine second = ctx.compile(train_step(loss_of(w), make("")));
    second.run();
    expect_refusal<StateError>([&] { first.run(); }, {"would change it too"});
    expect_refusal<StateError>([&] { first.run_steps(3); }, {"would change it too"});
    Context fresh(kInDouble);
    fresh.write(w, Array::vector(after_one, DType::f64));
    fresh.run(train_step(loss_of(w), make("")));
    EXPECT_EQ(ctx.read(w).values(), fresh.read(w).values());
  }
}

TEST(Optimizer, StatesThatWereLoadedBelongToNobodyYet) {
  Tensor w = weights();
  Context ctx(kInDouble), resumed(kInDouble), straight(kInDouble);
  ctx.run(train_step(loss_of(w), adam({.lr = 0.05})));
  copy_states(ctx, resumed);
  resumed.run(train_step(loss_of(w), adam({.lr = 0.05})));
  straight.compile(train_step(loss_of(w), adam({.lr = 0.05}))).run_steps(2);
  EXPECT_EQ(resumed.read(w).values(), straight.read(w).values());
  EXPECT_EQ(resumed.read("w.adam.step").item(), 2);
}

TEST(Optimizer, AccumulatedSumsBelongToTheOptimizer) {
  Index step("step");
  Tensor w = weights();
  Context ctx(kInDouble);
  ctx.compile(accumulated_step(loss_of(w), step, 4, sgd({.lr = 0.1})));
  expect_refusal<StateError>([&] { ctx.compile(accumulated_step(loss_of(w), step, 4, sgd({.lr = 0.1}))); },
                             {"`w.accumulated`"});
  ctx.compile(accumulated_step(loss_of(w), step, 4, sgd({.lr = 0.1, .name = "mine"})));
  EXPECT_TRUE(ctx.has("w.mine.accumulated"));
}

TEST(Optimizer, WithoutOneIsRefused) {
  expect_refusal<ConfigError>([] { train_step(loss_of(weights()), Optimizer()); }, {"undefined Optimizer"});
}

// A table whose gradients keep their signs cannot tell Lion's two rates apart: every step is the sign of the gradient.
TEST(Optimizer, SignsChange) {
  Values w = kLionStart, m(w.size());
  int changes = 0;
  for (int t = 1; t <= kLionSteps; ++t)
    for (size_t i = 0; i < w.size(); ++i) {
      double v = 0;
      const double g = w[i] * w[i] * w[i] + kSlope[i], before = m[i];
      w[i] = lion_by_hand(0.05, 0.9, 0.99, 0)(w[i], g, t, m[i], v);
      changes += before * g < 0;
    }
  EXPECT_GT(changes, 5);
  Context ctx(kInDouble);
  Tensor p = param("w", Array::vector(kLionStart, DType::f64));
  ctx.compile(train_step(loss_of(p), lion({.lr = 0.05}))).run_steps(kLionSteps);
  expect_near(ctx.read(p).values(), w);
  Values exchanged = kLionStart, memory(w.size());
  for (int t = 1; t <= kLionSteps; ++t)
    for (size_t i = 0; i < w.size(); ++i) {
      double v = 0;
      exchanged[i] = lion_by_hand(0.05, 0.99, 0.9, 0)(
          exchanged[i], exchanged[i] * exchanged[i] * exchanged[i] + kSlope[i], t, memory[i], v);
    }
  EXPECT_NE(exchanged, w) << "the steps do not tell the rates apart";
}

TEST(Schedule, AtChosenSteps) {
  Index s("s");
  struct Row {
    const char* name;
    Tensor rate;
    std::function<double(double)> expected;
  };
  const double pi = std::numbers::pi;
  const Row rows[] = {
      {"linear", linear_decay(s, 100, 0.1), [](double t) { return 0.1 * (1 - std::min(t / 100, 1.0)); }},
      {"linear to", linear_decay(s, 100, 0.1, 0.02), [](double t) { return 0.1 - 0.08 * std::min(t / 100, 1.0); }},
      {"cosine", cosine_decay(s, 100, 0.1, 0.01),
       [&](double t) { return 0.01 + 0.045 * (1 + std::cos(pi * std::min(t / 100, 1.0))); }},
      {"exponential", exponential_decay(s, 0.1, 0.9), [](double t) { return 0.1 * std::pow(0.9, t); }},
      {"exponential every 10", exponential_decay(s, 0.1, 0.5, 10),
       [](double t) { return 0.1 * std::pow(0.5, t / 10); }},
      {"steps", step_decay(s, 0.1, 0.5, 30), [](double t) { return 0.1 * std::pow(0.5, std::floor(t / 30)); }},
      {"warmup", warmup(s, 10, 0.1), [](double t) { return 0.1 * std::min(1.0, (t + 1) / 10); }},
      {"warmup then cosine", warmup(s, 10, cosine_decay(s, 100, 0.1)),
       [&](double t) { return std::min(1.0, (t + 1) / 10) * 0.05 * (1 + std::cos(pi * std::min(t / 100, 1.0))); }},
  };
  Context ctx(kInDouble);
  for (const Row& row : rows)
    for (int64_t t : {0, 1, 9, 10, 29, 30, 50, 99, 100, 250})
      EXPECT_NEAR(ctx.eval(row.rate, {{s, t}}).item(), row.expected(double(t)), 1e-14) << row.name << " at step " << t;
}

TEST(Clipping, ByValueAndByGlobalNorm) {
  auto clipped = [](double limit) {
    return by_hand([=](double w, double g, int, double&, double&) { return w - 0.02 * std::clamp(g, -limit, limit); });
  };
  expect_near(trained(sgd({.lr = 0.02}), clip_by_value(0.75)), clipped(0.75));
  // PyTorch's clip_grad_norm_: scale = min(1, limit / (norm + 1e-6)), the norm over all parameters together.
  Tensor a = param("a", {3, 0}), b = param("b", Array::matrix({{0, 4}}));
  Tensor loss = dot(a, tensor({3, 0})) + dot(b, matrix({{0.0, 4.0}}));
  Context ctx(kInDouble);
  EXPECT_EQ(ctx.eval(global_norm(gradients(loss))).item(), 5);
  Gradients tight = clip_by_global_norm(1)(gradients(loss)), loose = clip_by_global_norm(10)(gradients(loss));
  expect_near(ctx.eval(tight[0].value).values(), {3 / (5 + 1e-6), 0});
  expect_near(ctx.eval(tight[1].value).values(), {0, 4 / (5 + 1e-6)});
  expect_near(ctx.eval(loose[1].value).values(), {0, 4});
}

TEST(Accumulation, EqualsOneStepOnTheMean) {
  Array data(parse_shape("6|2"), {1, 2, 3, 4, 5, 6, -1, 0, 2, -2, 0.5, 1}, DType::f64);
  Index batch("batch"), step("step");
  auto loss_on = [](const Tensor& w, const Tensor& x) { return sum(square(w * x - 1)) / 2; };
  for (const Optimizer& optimizer : {sgd({.lr = 0.05, .momentum = 0.9}), adam({.lr = 0.05})}) {
    Tensor w = param("w", Array::vector({0.5, -0.5}, DType::f64));
    Context small(kInDouble), large(kInDouble);
    Tensor x2 = tensor(data.batches(2))[batch], x6 = tensor(data);
    Routine accumulated = small.compile(accumulated_step(loss_on(w, x2), step, 3, optimizer));
    Routine whole = large.compile(train_step(loss_on(w, x6) / 3, optimizer));
    for (int s = 0; s < 9; ++s) {
      Values before = small.read(w).values();
      accumulated.run({{batch, s % 3}, {step, s}});
      if (s % 3 != 2) {
        EXPECT_EQ(small.read(w).values(), before) << "step " << s;
        continue;
      }
      whole.run();
      expect_near(small.read(w).values(), large.read(w).values());
      EXPECT_EQ(small.read("w.accumulated").values(), (Values{0, 0}));
    }
  }
  Tensor w = weights();
  EXPECT_THROW(accumulated_step(loss_of(w), step, 0, sgd({})), ConfigError);
}

TEST(Accumulation, UnderAConditionOfTheUsers) {  // skip steps whose gradient is not finite
  Index step("step");
  Tensor w = param("w", {1.0, 2.0}), total = state_like(w, "total", zeros());
  Tensor scale = where(step == 1, tensor(Array::scalar(std::numeric_limits<double>::infinity())), 1.0);
  Gradients g = gradients(sum(square(w)) * scale);
  Tensor good = global_norm(g) < 1e6;
  Context ctx(kInDouble);
  Routine r = ctx.compile(when(good, add_to(total, g[0].value) & sgd({.lr = 0.25})(g)));
  r.run({{step, 0}});
  EXPECT_EQ(ctx.read(w).values(), (Values{0.5, 1}));
  r.run({{step, 1}});
  EXPECT_EQ(ctx.read(w).values(), (Values{0.5, 1}));
  r.run({{step, 2}});
  EXPECT_EQ(ctx.read(total).values(), (Values{3, 6}));
}

TEST(Averages, DecayAndPlainMean) {
  for (double decay : {0.5, 0.9, 1.0}) {
    Context ctx(kInDouble);
    Tensor w = weights();
    Routine r = ctx.compile(then(train_step(loss_of(w), sgd({.lr = 0.02})), averages({w}, decay)));
    Values average(4);
    for (int t = 0; t < kSteps; ++t) {
      r.run();
      Values now = ctx.read(w).values();
      double keep = std::min(decay, t / (t + 1.0));
      for (size_t i = 0; i < 4; ++i) average[i] = keep * average[i] + (1 - keep) * now[i];
      expect_near(ctx.read("w.average").values(), average);
    }
  }
}

TEST(Averages, OfDifferentWeightsCountApartAndOfDifferentDecaysNeedNames) {
  Tensor a = param("a", Array::scalar(1, DType::f64)), b = param("b", Array::scalar(1, DType::f64));
  Context ctx(kInDouble);
  Routine of_a = ctx.compile(averages({a}, 1.0)), of_b = ctx.compile(averages({b}, 1.0));
  ctx.write(a, Array::scalar(4, DType::f64)), ctx.write(b, Array::scalar(6, DType::f64));
  of_a.run(), of_a.run(), of_b.run();
  EXPECT_EQ(ctx.read("a.average").item(), 4);
  EXPECT_EQ(ctx.read("b.average").item(), 6) << "its first value is the weight itself";
  ctx.compile(averages({a}, 1.0));  // the same average, built again
  expect_refusal<StateError>([&] { ctx.compile(averages({a}, 0.5)); },
                             {"`a.average", "the same decay", "another name"});
  ctx.compile(averages({a}, 0.5, "fast")).run();
  EXPECT_EQ(ctx.read("a.fast").item(), 4);
  ctx.reset("average");
  EXPECT_EQ(ctx.read("a.average.step").item(), 0);
}

TEST(Loss, RegularisedByTheSumOfMagnitudes) {  // L1: the gradient gains sign(w), 0 at 0
  Context ctx(kInDouble);
  Tensor w = weights(), loss = loss_of(w) + 0.1 * sum(abs(w));
  Routine r = ctx.compile(train_step(loss, sgd({.lr = 0.02})));
  for (int t = 0; t < kSteps; ++t) r.run();
  expect_near(ctx.read(w).values(), by_hand([](double w, double g, int, double&, double&) {
                return w - 0.02 * (g + 0.1 * ((w > 0) - (w < 0)));
              }));
}

TEST(TrainStep, UpdatesEveryParameterAndObservesTheOldLoss) {
  Tensor w = param("w", {1, 2}), b = param("b", 3.0), frozen = param("frozen", {5, 5});
  Tensor loss = sum(square(w)) + b * b + sum(stop_gradient(frozen));
  Context ctx(kInDouble);
  EXPECT_EQ(gradients(loss, {w}).size(), 1u);
  Routine r = ctx.compile(sgd({.lr = 0.5})(gradients(loss, {w, b})) & observe(loss));
  r.run();
  EXPECT_EQ(r.read(loss).item(), 24);
  EXPECT_EQ(ctx.read(w).values(), (Values{0, 0}));
  EXPECT_EQ(ctx.read(frozen).values(), (Values{5, 5}));
  Routine s =
      ctx.compile(train_step(loss, sgd({.lr = 0.5})));  // a parameter behind stop_gradient stays, without complaint
  s.run();
  EXPECT_EQ(ctx.read(frozen).values(), (Values{5, 5}));
  EXPECT_THROW(gradients(sum(tensor({1, 2}))), GradientError);
}

TEST(TrainStep,
     OneAfterTheOtherSharesStatesByName) {  // each optimiser made leaves of its own for the counter and the moments
  Tensor x = param("x", 1.0), y = param("y", 2.0);
  Context ctx(kInDouble), twice(kInDouble);
  ctx.run(then(train_step(square(x), adam({})), train_step(square(y), adam({}))));
  EXPECT_EQ(ctx.read("x.adam.step").item(), 1);
  EXPECT_EQ(ctx.read("y.adam.step").item(), 1);
  EXPECT_LT(ctx.read(y).item(), 2);
  Optimizer optimizer = sgd({.lr = 0.1, .momentum = 0.9});
  auto step = [&] { return train_step(square(x), optimizer); };
  Context one(kInDouble);
  one.run(then(step(), step()));
  Routine r = twice.compile(step());
  r.run(), r.run();
  EXPECT_EQ(one.read(x).item(), twice.read(x).item());
  EXPECT_EQ(one.read("x.sgd.velocity").item(), twice.read("x.sgd.velocity").item());
}

TEST(TrainStep, TheHiddenStateIsNamedAfterTheParameter) {
  Context ctx(kInDouble);
  Tensor w = param("block.w", {1, 2});
  ctx.run(train_step(sum(square(w)), adam({})));
  EXPECT_EQ(ctx.names(),
            (std::vector<std::string>{"block.w", "block.w.adam.mean", "block.w.adam.square", "block.w.adam.step"}));
}

}  // namespace
}  // namespace caravan
