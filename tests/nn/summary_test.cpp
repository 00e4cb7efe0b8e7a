// The table of a model: layers, shapes, parameters and work.
#include <gtest/gtest.h>

#include <sstream>

#include "nn/layers.h"

namespace caravan {
namespace {

TEST(Summary, ListsLayersShapesParametersAndWork) {
  Sequential net({Conv2d("conv", {.channels = 4, .kernel = 3, .padding = same}), Relu(), MaxPool2d{}, Flatten(),
                  Linear("fc", {.output = {10}})});
  ModelSummary s = summary(net, "2|6,6,1");
  ASSERT_EQ(s.rows.size(), 3u);
  EXPECT_EQ(s.rows[0].layer, "conv2d conv");
  EXPECT_EQ(to_string(s.rows[0].output), "2|6,6,4");
  EXPECT_EQ(s.rows[0].parameters, 9 * 4 + 4);
  EXPECT_EQ(s.rows[0].flops, 2 * 2 * 36 * 9 * 4 + 2 * 36 * 4);  // a product and a sum for each tap, then the bias
  EXPECT_EQ(s.rows[0].output_bytes, 2 * 36 * 4 * 4);
  EXPECT_EQ(s.rows[1].layer, "max_pool2d 2x2");
  EXPECT_EQ(s.rows[1].flops, 2 * 36 * 4 + 2 * 9 * 4 * 4);  // relu, then a maximum of four
  EXPECT_EQ(s.rows[2].parameters, 36 * 10 + 10);
  EXPECT_EQ(s.total.parameters, 40 + 370);
  EXPECT_EQ(s.total.parameter_bytes, 4 * 410);
  std::ostringstream text;
  text << s;
  EXPECT_NE(text.str().find("linear fc       2|10              370        1460\n"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("parameters take 1.6 KiB"), std::string::npos) << text.str();
}

TEST(Summary, OfModelsOfIdsOfTwoInputsAndOfAnyTensor) {
  Gpt model({.vocab = 65, .ctx = 32, .dim = 48, .heads = 4, .layers = 2, .tied = true});
  ModelSummary s = summary(model, "4,32|", DType::i32);
  int64_t count = 0;
  Context ctx(kInDouble);
  ctx.compile(observe(model(ids("1,2|", {1, 2}))));
  for (const Tensor& p : parameters(model)) count += ctx.read(p).size();
  EXPECT_EQ(s.total.parameters, count);
  EXPECT_EQ(s.rows.back().layer, "linear tok");
  EXPECT_EQ(to_string(s.rows.back().output), "4,32|65");
  EXPECT_EQ(s.rows.back().parameters, 0);  // counted where it was first used
  EXPECT_EQ(
      summary(DecoderBlock("d", {.dim = 4, .heads = 2}), drawn_tensor("x", "2,3|4"), drawn_tensor("memory", "2,5|4"))
          .rows.back()
          .layer,
      "then add");
  EXPECT_EQ(summary(OwnModel(), "2|5,5,1").rows.size(), 3u);
  EXPECT_EQ(summary(drawn_tensor("x", "2|3") * 2).rows.size(), 1u);
}

}  // namespace
}  // namespace caravan
