#include "apps/serve/playground.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "caravan/base/error.h"
#include "caravan/nn/nn.h"
#include "caravan/train/optimizer.h"

namespace caravan::serve {

namespace {

constexpr int64_t kPoints = 400, kBatch = 40;
constexpr auto kMoment = std::chrono::milliseconds(20);  // a page that asks again and again stays smooth
constexpr auto kLook = std::chrono::milliseconds(50);    // between two looks at whether the client has left

void check_there(const std::atomic<bool>& left) {
  if (left) throw NotReady("the client left before its turn.");
}

struct DataRow {
  std::string name;
  data::LabelledPoints (*make)(double noise, uint64_t seed);
};
const std::vector<DataRow>& data_rows() {
  static const std::vector<DataRow> rows = {
      {"moons",
       [](double noise, uint64_t seed) { return data::half_moons({.points = kPoints, .noise = noise, .seed = seed}); }},
      {"circles",
       [](double noise, uint64_t seed) { return data::circles({.points = kPoints, .noise = noise, .seed = seed}); }},
      {"spirals",
       [](double noise, uint64_t seed) { return data::spirals({.points = kPoints, .noise = noise, .seed = seed}); }},
  };
  return rows;
}

struct ActivationRow {
  std::string name;
  nn::Layer layer;
};
const std::vector<ActivationRow>& activation_rows() {
  static const std::vector<ActivationRow> rows = {{"tanh", nn::Tanh()}, {"relu", nn::Relu()}, {"silu", nn::Silu()}};
  return rows;
}

template <class Row>
const Row& row_named(const std::vector<Row>& rows, const std::string& name) {
  for (const Row& row : rows)
    if (row.name == name) return row;
  throw ConfigError(fmt::format("the playground has no `{}`.", name));
}

template <class Row>
std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> out;
  for (const Row& row : rows) out.push_back(row.name);
  return out;
}

// The smallest square around the points, with a margin.
struct Square {
  double left = 0, top = 0, size = 0;
};
Square square_around(const Array& points) {
  double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
  for (int64_t i = 0; i < points.size(); ++i) {
    low[i % 2] = std::min(low[i % 2], points.at(i));
    high[i % 2] = std::max(high[i % 2], points.at(i));
  }
  const double size = 1.2 * std::max(high[0] - low[0], high[1] - low[1]);
  return {(low[0] + high[0] - size) / 2, (low[1] + high[1] + size) / 2, size};
}

// The centres of the field's cells, rows from the top.
std::vector<double> centres(const Square& square) {
  std::vector<double> out;
  const double cell = square.size / kFieldSide;
  for (int64_t row = 0; row < kFieldSide; ++row)
    for (int64_t column = 0; column < kFieldSide; ++column) {
      out.push_back(square.left + cell * (double(column) + 0.5));
      out.push_back(square.top - cell * (double(row) + 0.5));
    }
  return out;
}

// One architecture in one Context. Points, field and rate are states, so none of them compiles anything again.
struct Model {
  Context ctx;
  Tensor points = input("points", {.batch = {kPoints}, .output = {2}});
  Tensor labels = input("labels", {.batch = {kPoints}, .output = {1}});
  Tensor cells = input("cells", {.batch = {kFieldSide * kFieldSide}, .output = {2}});
  Tensor rate = input("rate", {.batch = Extents{}, .input = Extents{}, .output = Extents{}});
  Index batch{"batch", kPoints / kBatch};
  Tensor loss, accuracy, field;
  std::optional<Routine> step, look;
  std::map<std::string, Array> initial;  // of what training changes
  int64_t steps = 0;

  Model(const PlaygroundSettings& settings, const ContextOptions& options) : ctx(options, {}) {
    Extents widths(size_t(settings.depth), Extent(settings.width));
    widths.push_back(1);
    const nn::Mlp net("net", {.widths = widths, .activation = row_named(activation_rows(), settings.activation).layer});
    auto mean_loss = [&](const Tensor& x, const Tensor& y) { return mean(softplus(-y * net(x))); };
    loss = mean_loss(points, labels);
    accuracy = mean(labels * net(points) > 0);
    field = sigmoid(net(cells));
    const Tensor batch_loss = mean_loss(points.batches(kBatch)[batch], labels.batches(kBatch)[batch]);
    step = ctx.compile(train_step(batch_loss, adam({.lr = rate})));
    for (const std::string& name : ctx.names()) initial.emplace(name, ctx.read(name));
    look = ctx.compile(observe({loss, accuracy, field}));
  }

  void reset() {
    ctx.write(initial);
    steps = 0;
  }

  void train(int64_t wanted) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t done = 0; done < wanted && std::chrono::steady_clock::now() - start < kMoment;) {
      const int64_t some = std::min<int64_t>(wanted - done, 4);
      step->run_steps(some, {{batch, steps % (kPoints / kBatch)}});
      done += some;
      steps += some;
    }
  }
};

bool same_model(const PlaygroundSettings& a, const PlaygroundSettings& b) {
  return a.width == b.width && a.depth == b.depth && a.activation == b.activation && a.seed == b.seed;
}
bool same_data(const PlaygroundSettings& a, const PlaygroundSettings& b) {
  return a.data == b.data && a.noise == b.noise && a.seed == b.seed;
}

}  // namespace

std::vector<std::string> data_names() { return names_of(data_rows()); }
std::vector<std::string> activation_names() { return names_of(activation_rows()); }

Turns::Turn::Turn(Turns& turns, const std::atomic<bool>& left) : turns_(turns) {
  std::unique_lock lock(turns_.mutex_);
  check_there(left);
  if (turns_.at_once_ == turns_.most_at_once_) {
    if (turns_.waiting_ == turns_.most_waiting_)
      throw NotReady(fmt::format("{} models are being compiled and {} wait for that; ask again in a moment.",
                                 turns_.at_once_, turns_.waiting_));
    ++turns_.waiting_;
    while (turns_.at_once_ == turns_.most_at_once_ && !left) turns_.freed_.wait_for(lock, kLook);
    --turns_.waiting_;
    check_there(left);
  }
  ++turns_.at_once_;
}
Turns::Turn::~Turn() {
  {
    const std::scoped_lock lock(turns_.mutex_);
    --turns_.at_once_;
  }
  turns_.freed_.notify_one();
}

struct Playground::Session {
  std::mutex mutex;       // of all but last_used
  int64_t last_used = 0;  // of the Playground's clock and mutex
  PlaygroundSettings settings;
  std::optional<Model> model;
  data::LabelledPoints points;
  Square square;

  void become(const PlaygroundSettings& wanted, const ContextOptions& options, bool reset, Turns& compiles,
              const std::atomic<bool>& left) {
    const bool new_model = !model || !same_model(settings, wanted);
    if (new_model) {
      const Turns::Turn turn(compiles, left);
      model.reset();  // also where the next line throws: the settings are then nobody's
      ContextOptions seeded = options;
      seeded.seed = wanted.seed;
      model.emplace(wanted, seeded);
    }
    if (new_model || !same_data(settings, wanted)) {
      points = row_named(data_rows(), wanted.data).make(wanted.noise, wanted.seed);
      square = square_around(points.points);
      Shape cells;
      cells.batch = {{kFieldSide * kFieldSide}};
      cells.output = {{2}};
      model->ctx.write(model->points, points.points);
      model->ctx.write(model->labels, points.labels);
      model->ctx.write(model->cells, Array(cells, centres(square)));
    }
    model->ctx.write(model->rate, Array::scalar(wanted.rate));
    if (reset) model->reset();
    settings = wanted;
  }

  PlaygroundView view() {
    model->look->run();
    const std::vector<double> field = model->look->read(model->field).values();
    return {.steps = model->steps,
            .loss = model->look->read(model->loss).item(),
            .accuracy = model->look->read(model->accuracy).item(),
            .left = square.left,
            .top = square.top,
            .size = square.size,
            .field = {field.begin(), field.end()},
            .points = points};
  }
};

Playground::Playground(ContextOptions options, const PlaygroundLimits& limits)
    : options_(std::move(options)), most_sessions_(limits.sessions), compiles_(limits.compiles, limits.waiting) {}
Playground::~Playground() = default;

PlaygroundView Playground::advance(const std::string& session, const PlaygroundSettings& settings, int64_t steps,
                                   bool reset, const std::atomic<bool>& left) {
  const std::shared_ptr<Session> mine = find(session);
  std::unique_lock lock(mine->mutex, std::defer_lock);
  while (!lock.try_lock()) {  // rare: two requests of one session. (The thread sanitizer does not know try_lock_for.)
    check_there(left);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  mine->become(settings, options_, reset, compiles_, left);
  mine->model->train(steps);
  return mine->view();
}

size_t Playground::sessions() const {
  const std::scoped_lock lock(mutex_);
  return sessions_.size();
}

// A session that is dropped lives on until the request that is at work in it has its answer.
std::shared_ptr<Playground::Session> Playground::find(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Session>& out = sessions_[id];
  if (!out) out = std::make_shared<Session>();
  out->last_used = ++clock_;
  const std::shared_ptr<Session> kept = out;
  if (sessions_.size() > most_sessions_)
    sessions_.erase(std::min_element(sessions_.begin(), sessions_.end(), [](const auto& a, const auto& b) {
      return a.second->last_used < b.second->last_used;
    }));
  return kept;
}

}  // namespace caravan::serve
