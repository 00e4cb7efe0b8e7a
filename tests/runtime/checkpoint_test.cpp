// Checkpoints: every state comes back bit for bit, and what does not fit is listed whole and changes nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "caravan/caravan.h"
#include "caravan/data/atomic_file.h"
#include "this_device.h"

namespace caravan {
namespace {

using nn::Mlp;

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/checkpoint_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

struct Problem {
  Index batch{"batch", 8}, step{"step"};
  Mlp mlp{"mlp", {.widths = {6, 3}, .activation = nn::Tanh()}};
  Tensor loss;
  Problem() {
    Tensor x = normal("x", {.batch = {8, 5}, .output = {4}, .step = 0})[batch],
           y = normal("y", {.batch = {8, 5}, .output = {3}, .step = 0})[batch];
    Tensor noisy = nn::Dropout("drop", 0.3)(x, nn::training({.step = step}));  // the random step counts too
    loss = nn::mse(mlp(noisy), y);
  }
};

std::map<std::string, Optimizer> optimizers(const Problem& p) {
  Tensor lr = linear_decay(p.step, 40, 0.05);
  return {{"sgd", sgd({.lr = lr, .weight_decay = 1e-3})},
          {"momentum", sgd({.lr = lr, .momentum = 0.9})},
          {"nesterov", sgd({.lr = lr, .momentum = 0.9, .nesterov = true})},
          {"adam", adam({.lr = lr})},
          {"adamw", adamw({.lr = lr, .weight_decay = 0.01})},
          {"rmsprop", rmsprop({.lr = lr, .momentum = 0.5})},
          {"lion", lion({.lr = lr})}};
}

std::string bits(const Context& ctx) { return data::safetensors_content(checkpoint(ctx)); }

TEST_F(Checkpoint, GoingOnIsNeverHavingStopped) {
  const Problem p;
  for (const auto& [name, optimizer] : optimizers(p)) {
    const Program program = train_step(p.loss, optimizer) & averages(parameters(p.mlp), 0.9);
    auto run = [&](Context& ctx, int64_t from, int64_t to) {
      Routine step = ctx.compile(program);
      for (int64_t s = from; s < to; ++s) step.run({{p.batch, s % 8}, {p.step, s}});
    };
    Context whole(here(3));
    run(whole, 0, 40);
    for (const int64_t stop : {1, 17, 39}) {
      Context first(here(3));
      run(first, 0, stop);
      save_checkpoint(file(name), first, {{"step", std::to_string(stop)}});
      Context second(here(3));
      second.compile(program);
      load_checkpoint(file(name), second);
      EXPECT_EQ(bits(second), bits(first)) << name;
      run(second, stop, 40);
      EXPECT_EQ(bits(second), bits(whole)) << name << " stopped at " << stop;
    }
    EXPECT_EQ(data::read_safetensors(file(name)).metadata.at("step"), "39");
  }
}

TEST_F(Checkpoint, ListsEverythingThatDoesNotFitAndChangesNothing) {
  Context saved(here(1)), other(here(2));
  Tensor x = tensor({1, 2, 3});
  saved.compile(observe(Mlp("a", {.widths = {4, 2}})(x)) & observe(Mlp("b", {.widths = {2}})(x)));
  other.compile(observe(Mlp("a", {.widths = {5, 2}})(x)) & observe(Mlp("c", {.widths = {2}})(x)));
  save_checkpoint(file("saved"), saved);
  const LoadReport report = compare(data::read_safetensors(file("saved")), other);
  EXPECT_EQ(report.missing, (std::vector<std::string>{"c.0.bias", "c.0.weight"}));
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"b.0.bias", "b.0.weight"}));
  ASSERT_EQ(report.misshapen.size(), 3u);
  EXPECT_EQ(report.misshapen[0].name, "a.0.bias");
  const std::string kept = saved.device() == "interp" ? "f64" : "f32";
  EXPECT_EQ(report.misshapen[1].in_file, kept + " [4, 3]");
  EXPECT_EQ(report.misshapen[1].in_context, "f32 [5, 3]");

  const std::string before = bits(other);
  try {
    load_checkpoint(file("saved"), other);
    FAIL() << "it fits";
  } catch (const ConfigError& error) {
    for (const std::string& part : {std::string("nothing was loaded"), std::string("missing (2): c.0.bias, c.0.weight"),
                                    std::string("unexpected (2): b.0.bias, b.0.weight"),
                                    "a.0.weight is " + kept + " [4, 3], the program has f32 [5, 3]"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << "\n" << error.what();
  }
  EXPECT_EQ(bits(other), before);
}

// Files of an earlier version have the tables of embeddings as [dim, num].
TEST_F(Checkpoint, SaysThatATableIsTransposed) {
  const nn::Embedding table("table", {.num = 5, .dim = 3});
  const Tensor rows = table(tensor(Array({.batch = {2}}, std::vector<int32_t>{4, 1})));
  Context first(here(1)), second(here(2));
  const std::vector<double> values = first.eval(rows).values();
  second.compile(observe(rows));
  data::Tensors old = checkpoint(first);
  old.list["table.weight"] = data::transposed(old.list["table.weight"]);
  EXPECT_EQ(old.find("table.weight")->sizes, (std::vector<int64_t>{3, 5}));
  const LoadReport report = compare(old, second);
  ASSERT_EQ(report.misshapen.size(), 1u);
  EXPECT_TRUE(report.misshapen[0].transposed);
  EXPECT_NE(report.to_string().find("data::transposed turns them"), std::string::npos) << report.to_string();
  old.list["table.weight"] = data::transposed(old.list["table.weight"]);
  load_checkpoint(old, "old", second);
  EXPECT_EQ(second.eval(rows).values(), values);
}

TEST_F(Checkpoint, APartIsSavedAndLoadedOnItsOwn) {
  Tensor x = tensor({1, 2, 3});
  const Mlp encoder("encoder", {.widths = {2}}), decoder("decoder", {.widths = {3}});
  Context ctx(here(1));
  ctx.compile(observe(decoder(encoder(x))));
  save_checkpoint(file("encoder"), ctx, {}, parameters(encoder));

  Context alone(here(2));
  Routine encode = alone.compile(observe(encoder(x)));
  load_checkpoint(file("encoder"), alone);
  EXPECT_EQ(alone.eval(encoder(x)).values(), ctx.eval(encoder(x)).values());

  Context both(here(2));
  both.compile(observe(decoder(encoder(x))));
  const Array decoder_weight = both.read("decoder.0.weight");
  EXPECT_THROW(load_checkpoint(file("encoder"), both), ConfigError);
  load_checkpoint(file("encoder"), both, {.allow_missing = true});
  EXPECT_EQ(both.read("encoder.0.weight").values(), ctx.read("encoder.0.weight").values());
  EXPECT_EQ(both.read("decoder.0.weight").values(), decoder_weight.values());
}

TEST_F(Checkpoint, OneCountForAllParametersIsOfAnEarlierVersion) {
  Tensor a = param("a", {1, 2}), b = param("b", {3, 4});
  Context ctx(here(1));
  ctx.run(train_step(sum(a * b), adam({})));
  data::Tensors old = checkpoint(ctx);
  old.list.emplace("adam.step", *old.find("a.adam.step"));
  old.list.erase("a.adam.step"), old.list.erase("b.adam.step");
  try {
    load_checkpoint(old, "old", ctx);
    FAIL() << "it fits";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("adam.step counts the steps of all parameters, as files of an earlier version do"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("Write its value to a.adam.step and the others"), std::string::npos)
        << error.what();
  }
}

TEST_F(Checkpoint, PrecisionsAreKeptAndMustAgree) {
  Tensor half = param("half", {.output = {3}, .init = normal_init(), .dtype = DType::bf16});
  Tensor count = state(
      "count", {.batch = Extents{}, .input = Extents{}, .output = Extents{}, .init = zeros(), .dtype = DType::i32});
  Context ctx(here(1)), again(here(2));
  const Program program = observe(half) & assign(count, count + 3);
  ctx.run(program);
  save_checkpoint(file("typed"), ctx);
  again.compile(program);
  load_checkpoint(file("typed"), again);
  EXPECT_EQ(bits(again), bits(ctx));
  if (ctx.device() == "interp") return;  // it keeps everything in double, which goes anywhere
  Context wide(here(2));
  wide.compile(observe(param("half", {.output = {3}})) & observe(count));
  EXPECT_THROW(load_checkpoint(file("typed"), wide), ConfigError);
}

TEST_F(Checkpoint, GoesFromOneDeviceToAnother) {
  const Tensor y = Mlp("m", {.widths = {4, 2}, .activation = nn::Tanh()})(tensor({1, 2, 3}));
  Context one({.seed = 1, .device = "interp"}), other({.seed = 2, .device = "cpu"});
  one.compile(observe(y));
  other.compile(observe(y));
  save_checkpoint(file("one"), one);
  load_checkpoint(file("one"), other);
  const std::vector<double> a = one.eval(y).values(), b = other.eval(y).values();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  save_checkpoint(file("other"), other);
  load_checkpoint(file("other"), one);
  EXPECT_EQ(one.read("m.0.weight").values(), other.read("m.0.weight").values());
}

TEST_F(Checkpoint, InputsAreTheProgramsNotTheModels) {
  Tensor x = input("x", {.batch = {2}, .output = {3}}), y = Mlp("m", {.widths = {2}})(x);
  Tensor cache = state("cache", {.batch = {2}, .output = {2}});  // without an initialiser, but a program assigns it
  Context ctx(here(1)), again(here(2));
  const Program program = observe(y) & assign(cache, y);
  Routine run = ctx.compile(program);
  const Array batch(parse_shape("2|3"), {1, 2, 3, 4, 5, 6});
  ctx.write(x, batch);
  run.run();
  save_checkpoint(file("model"), ctx);
  EXPECT_EQ(data::read_safetensors(file("model")).find("x"), nullptr);
  EXPECT_NE(data::read_safetensors(file("model")).find("cache"), nullptr);
  again.compile(program);
  again.write(x, batch);
  again.write(cache, Array(parse_shape("2|2")));
  load_checkpoint(file("model"), again);
  EXPECT_EQ(again.read("cache").values(), ctx.read("cache").values());
  EXPECT_EQ(again.eval(y).values(), ctx.eval(y).values());
}

TEST_F(Checkpoint, ABrokenFileIsRefusedAndAFailedSaveKeepsTheOldOne) {
  Context ctx(here(1));
  ctx.compile(observe(Mlp("m", {.widths = {2}})(tensor({1, 2}))));
  save_checkpoint(file("good"), ctx);
  const std::string content = data::read_file(file("good")), before = bits(ctx);
  for (size_t size = 0; size < content.size(); size += 7) {
    data::write_file(file("cut"), content.substr(0, size));
    EXPECT_THROW(load_checkpoint(file("cut"), ctx), ConfigError) << size;
  }
  EXPECT_EQ(bits(ctx), before);
  EXPECT_THROW(save_checkpoint(file("none/such/file"), ctx), ConfigError);
  EXPECT_THROW(load_checkpoint(file("absent"), ctx), ConfigError);
}

TEST_F(Checkpoint, LoadsIntoAContextThatHasNoProgramYet) {
  const Problem p;
  Context ctx(here(1));
  Routine step = ctx.compile(train_step(p.loss, adam({.lr = 0.05})));
  step.run_steps(5, {{p.batch, 0}, {p.step, 0}});
  save_checkpoint(file("all"), ctx);
  save_checkpoint(file("weights"), ctx, {}, parameters(p.mlp));

  const Array x = random_normal({.batch = {3}, .output = {4}}, 1);
  const Array expected = Function(ctx, p.mlp)(x);
  for (const char* name : {"all", "weights"}) {
    Context other(here(2));
    load_checkpoint(file(name), other);
    EXPECT_EQ(Function(other, p.mlp)(x).values(), expected.values());
    EXPECT_EQ(to_string(other.read("mlp.0.weight").shape()), "4->6");
  }
  Context going_on(here(1));  // with the moments of the optimiser
  load_checkpoint(file("all"), going_on);
  Routine next = going_on.compile(train_step(p.loss, adam({.lr = 0.05})));
  next.run({{p.batch, 5}, {p.step, 5}}), step.run({{p.batch, 5}, {p.step, 5}});
  EXPECT_EQ(going_on.read("mlp.0.weight").values(), ctx.read("mlp.0.weight").values());

  Context other(here(2));
  load_checkpoint(file("weights"), other);
  const Mlp wider("mlp", {.widths = {7, 3}}), deeper("mlp", {.widths = {6, 3, 2}});
  EXPECT_THROW(Function(other, wider)(x), ShapeError);
  try {
    Function(other, deeper)(x);
    ADD_FAILURE() << "not refused";
  } catch (const StateError& e) {
    EXPECT_NE(std::string(e.what()).find("`mlp.2.weight`"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("not among the states that were loaded"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace caravan
