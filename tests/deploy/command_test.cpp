// caravan export: saved models as C.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "caravan/data/digits.h"
#include "caravan/data/loader.h"
#include "caravan/data/safetensors.h"
#include "deploy/deploy.h"

namespace caravan::deploy {
namespace {

#ifdef CARAVAN_COMMAND
class ExportCommand : public Deploy {
 protected:
  Ran caravan(const std::string& arguments) const {
    return shell("cd '" + folder_.string() + "' && '" CARAVAN_COMMAND "' " + arguments);
  }
  void train(const std::string& recipe, const std::string& options) const {
    const Ran ran = caravan("train " + recipe + " --quiet --seed 2 --save model.safetensors " + options);
    ASSERT_EQ(ran.status, 0) << ran.error;
  }
  // What the library computes with the weights of the checkpoint.
  std::vector<double> expected(const Tensor& x, const Array& value, const Tensor& y) const {
    Context ctx;
    ctx.write(x, value);
    ctx.eval(y);
    const data::Tensors saved = data::read_safetensors(path("model.safetensors"));
    for (const std::string& name : ctx.names())
      if (name != x.name()) ctx.write(name, saved.array(name).reshaped(ctx.read(name).shape()));
    return ctx.eval(y).values();
  }
  // Test images, MNIST's where it is found, through the program `digits`.
  void check_digits(int64_t count, const std::function<Tensor(const Tensor&)>& model) const {
    ASSERT_TRUE(compiles("-DDIGITS_MAIN digits.c -o digits -lm"));
    std::vector<int64_t> rows(size_t(count), 0);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = int64_t(i);
    const Array images = data::unit_pixels(data::find_digits(data::usual_places(), 5).test.images.take(rows));
    const Tensor x = input("images", {.batch = {count}, .output = {28, 28, 1}});
    const Ran ran = shell(path("digits"), text_of({images}));
    ASSERT_EQ(ran.status, 0) << ran.error;
    expect_near(ran.numbers(), expected(x, images, softmax(model(x))), 1e-5, "images");
    double sure = 0;
    for (double p : ran.numbers()) sure = std::max(sure, p);
    EXPECT_GT(sure, 0.9) << "it has learnt something";
  }
};
TEST_F(ExportCommand, ADenseNetworkOfDigits) {
  train("mnist-mlp", "--steps 2000");
  const Ran ran = caravan("export model.safetensors --c digits.c --header digits.h");
  ASSERT_EQ(ran.status, 0) << ran.error;
  EXPECT_EQ(ran.out, "digits.c: " + std::to_string(contents(path("digits.c")).size()) +
                         " bytes\ndigits.h: " + std::to_string(contents(path("digits.h")).size()) + " bytes\n");
  EXPECT_TRUE(
      contents(path("digits.c")).starts_with("/* classifier of the recipe mnist-mlp, after 2000 steps of training"))
      << contents(path("digits.c")).substr(0, 200);
  check_digits(1000, [](const Tensor& x) {
    return Mlp("mlp", {.widths = {100, 100, 100, 10}, .activation = Tanh()})(einsum("... | h, w, c => ... | h&w&c", x));
  });
}
TEST_F(ExportCommand, AConvolutionalNetworkOfDigits) {
  train("mnist-conv", "--steps 40");
  ASSERT_EQ(caravan("export model.safetensors --c digits.c --quiet").out, "");
  check_digits(100, [](const Tensor& x) {
    const MaxPool2d pool;
    Tensor y = pool(relu(Conv2d("conv2", {.channels = 64})(pool(relu(Conv2d("conv1", {.channels = 32})(x))))));
    return Linear("dense2", {.output = {10}})(
        relu(Linear("dense1", {.output = {128}})(einsum("... | h, w, c => ... | h&w&c", y))));
  });
}
TEST_F(ExportCommand, APartWithItsWeightsBeside) {
  train("mnist-autoencoder", "--steps 3");
  ASSERT_EQ(caravan("export model.safetensors --c c/code.c --weights c/code.bin --part encoder --name net").status, 0);
  ASSERT_TRUE(compiles("-DNET_MAIN c/code.c -o code -lm"));
  const Ran ran = shell(path("code") + " " + path("c/code.bin"), text_of({Array(parse_shape("784"))}));
  EXPECT_EQ(ran.numbers().size(), 16u) << ran.error;
}
TEST_F(ExportCommand, APartsWeightsAlone) {
  train("mnist-autoencoder", "--steps 3");
  ASSERT_EQ(caravan("export model.safetensors --part decoder --safetensors decoder.safetensors").status, 0);
  const data::Tensors saved = data::read_safetensors(path("decoder.safetensors")),
                      whole = data::read_safetensors(path("model.safetensors"));
  std::string names;
  for (const auto& [name, tensor] : saved.list) {
    names += name + " ";
    EXPECT_EQ(tensor.elements, whole.find(name)->elements);
  }
  EXPECT_EQ(names, "decoder.0.bias decoder.0.weight decoder.1.bias decoder.1.weight decoder.2.bias decoder.2.weight ");
  // It fills a decoder of one's own.
  Context ctx({.device = "interp"});
  ctx.compile(observe(Mlp("decoder", {.widths = {32, 64, 784}, .activation = Tanh()})(input("z", {.output = {16}}))));
  load_checkpoint(path("decoder.safetensors"), ctx);
}
TEST_F(ExportCommand, RefusesInOneSentenceAndWritesNothing) {
  train("linear", "--steps 1");
  write("no_model.safetensors", "");
  const struct {
    std::string arguments, phrase;
  } kWrong[] = {
      {"export model.safetensors", "`caravan export` needs --c FILE for a C file or --safetensors FILE"},
      {"export model.safetensors --safetensors w --header out.h", "--header and --weights belong to a C file"},
      {"export nothing.safetensors --c out.c", "nothing.safetensors"},
      {"export no_model.safetensors --c out.c", "no_model.safetensors"},
      {"export model.safetensors --c 2.c", "`2` cannot start the names of a C file"},
      {"export model.safetensors --c out.c --name a-b", "`a-b` cannot start the names of a C file"},
      {"export model.safetensors --c out.c --part head", "has no part `head`; there are: "},
      {"export model.safetensors --c out.c --header out.c", "`out.c` cannot be two files at once"},
      {"export model.safetensors --c model.safetensors", "`model.safetensors` cannot be two files at once"},
      {"export model.safetensors --safetensors ./model.safetensors",
       "`./model.safetensors` cannot be two files at once"},
      {"export model.safetensors --c out.c --header .", "--header `.` is a folder"},
  };
  for (const auto& [arguments, phrase] : kWrong) {
    const Ran ran = caravan(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_NE(ran.error.find(phrase), std::string::npos) << arguments << ": " << ran.error;
    EXPECT_EQ(std::count(ran.error.begin(), ran.error.end(), '\n'), 1) << ran.error;
  }
  EXPECT_FALSE(std::filesystem::exists(path("out.c")));
}
#endif

}  // namespace
}  // namespace caravan::deploy
