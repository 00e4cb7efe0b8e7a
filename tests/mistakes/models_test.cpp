// Mistakes in labels, losses and layers, and what users are told.
#include "contains.h"
#include "mistakes/mistakes.h"

namespace caravan {
namespace {

// A std::function calls the layer from a header of the standard library. Then the line is that of what it is given.
TEST(Mistakes, LayersInStandardFunctions) {
  const nn::Linear fc("fc", {.output = {3}, .input = {7}});  // [fc in a function]
  const std::function<Tensor(Tensor)> model = fc;
  const Tensor x = tensor(counting("4|2"), "x");  // [x of a function]
  try {
    Context ctx({.device = "interp"});
    ctx.eval(model(x));
    FAIL() << "it was computed";
  } catch (const ShapeError& error) {
    EXPECT_EQ(std::string(error.what()).find("invoke.h"), std::string::npos) << error.what();
    EXPECT_CONTAINS(std::string(error.what()), "`linear fc` (models_test.cpp:");
  }
}

TEST(Mistakes, Labels) {
  const Tensor x = tensor(counting("4|2"), "x"), y = tensor(counting("4|"), "y"),
               ids = tensor(counting("4|", DType::i32), "ids");
  const nn::Mlp net("net", {.widths = {8, 1}});
  const nn::Mlp classifier("classifier", {.widths = {8, 3}});  // [classifier]
  expect(
      "`nn::mse` ([mse]): the prediction is `4|1` and the target is `4|`, but both must have one shape. Give the "
      "target an axis of 1, einsum(\"... | => ... | 0\", target), or take that of the prediction, einsum(\"... | 0 => "
      "... |\", prediction).",
      [&](Context& ctx) {
        Tensor loss = nn::mse(net(x), y);  // [mse]
        ctx.compile(train_step(loss, sgd({.lr = 0.1})));
      });
  expect(
      "`nn::mae` ([mae]): the prediction is `4|` and the target is `4|1`, but both must have one shape. Give the "
      "prediction an axis of 1, einsum(\"... | => ... | 0\", prediction), or take that of the target, einsum(\"... | 0 "
      "=> ... |\", target).",
      [&](Context& ctx) {
        ctx.eval(nn::mae(y, net(x)));  // [mae]
      });
  expect(
      "`nn::binary_cross_entropy` ([bce]): the logits are `4|3` and the targets are `4|`, but both must have one "
      "shape.",
      [&](Context& ctx) {
        ctx.eval(nn::binary_cross_entropy(classifier(x), y));  // [bce]
      });
  expect(
      "`nn::binary_cross_entropy` ([bce without an axis]): the logits are `4|1` and the targets are `4|`, but both "
      "must have one shape. Give the targets an axis of 1, einsum(\"... | => ... | 0\", targets), or take that of the "
      "logits, einsum(\"... | 0 => ... |\", logits).",
      [&](Context& ctx) {
        ctx.eval(nn::binary_cross_entropy(net(x), y));  // [bce without an axis]
      });
  expect(
      "`nn::binary_cross_entropy` ([bce of a number]): the logits are `4|1` and the targets are a single number, but "
      "both must have one shape.",
      [&](Context& ctx) {
        ctx.eval(nn::binary_cross_entropy(net(x), 1));  // [bce of a number]
      });
  expect(
      "`nn::hinge` ([hinge]): the scores are `4|1` and the signs are `4|`, but both must have one shape. Give the "
      "signs an axis of 1, einsum(\"... | => ... | 0\", signs), or take that of the scores, einsum(\"... | 0 => ... "
      "|\", scores).",
      [&](Context& ctx) {
        ctx.eval(nn::hinge(net(x), y));  // [hinge]
      });
  expect(
      "`nn::mse` ([one example]): the prediction is `1` and the target is `4,1`, but both must have one shape. Before "
      "`|` stands the number of examples, so `4,1` is one example of 4 x 1 numbers; rows({..}) makes a batch of what "
      "it is given.",
      [&](Context& ctx) {
        const Tensor points = tensor(counting("4,2")), wanted = tensor(counting("4,1"));
        ctx.eval(nn::mse(net(points), wanted));  // [one example]
      });
  expect(
      "`nn::cross_entropy` ([f32 labels]): the targets are f32, so they are distributions over the classes and must be "
      "`4|3`, as the logits are; they are `4|`. For ids, cast(targets, DType::i32).",
      [&](Context& ctx) {
        ctx.eval(nn::cross_entropy(classifier(x), y));  // [f32 labels]
      });
  expect(
      "`nn::cross_entropy` ([labels without batch]): the logits are `4|3`, so the targets must be `4|`, one id for "
      "each; they are `4`. Before `|` stands the number of examples, so `4` is one example of 4 numbers; rows({..}) "
      "makes a batch of what it is given.",
      [&](Context& ctx) {
        ctx.eval(nn::cross_entropy(classifier(x), counting("4", DType::i32)));  // [labels without batch]
      });
  expect(
      "`nn::cross_entropy` ([labels with an axis]): the logits are `4|3`, so the targets must be `4|`, one id for "
      "each; they are `4|1`.",
      [&](Context& ctx) {
        ctx.eval(nn::cross_entropy(classifier(x), counting("4|1", DType::i32)));  // [labels with an axis]
      });
  expect(
      "`nn::cross_entropy` ([one hot of i32]): the logits are `4|3`, so the targets must be `4|`, one id for each; "
      "they are `4|3`. Targets of i32 are ids; distributions over the classes must be floats: cast(targets, "
      "DType::f32).",
      [&](Context& ctx) {
        ctx.eval(nn::cross_entropy(classifier(x), counting("4|3", DType::i32)));  // [one hot of i32]
      });
  expect("`nn::cross_entropy` ([no classes]): the logits are `4|`, without an output axis for the classes.",
         [&](Context& ctx) {
           ctx.eval(nn::cross_entropy(y, ids));  // [no classes]
         });
  expect(
      "`nn::cross_entropy` ([other number of labels]): the logits are `4|3`, so the targets must be `4|`, one id for "
      "each; they are `5|`.",
      [&](Context& ctx) {
        ctx.eval(nn::cross_entropy(classifier(x), counting("5|", DType::i32)));  // [other number of labels]
      });
  expect(
      "`labels` holds the id 3 at [2], but there are 3 `classes` (nn::cross_entropy, [label out of range]), so ids "
      "must lie in 0..2.",
      [&](Context& ctx) {
        const Tensor labels = tensor(Array(parse_shape("4|"), {0, 1, 3, 2}, DType::i32), "labels");
        ctx.eval(nn::cross_entropy(classifier(x), labels));  // [label out of range]
      });
  expect(
      "sizes do not match in `nn::cross_entropy` ([class weights]): axis `c` is 3 for output axis 1 of "
      "`classifier.1.weight` ([classifier]), but 2 for output axis 1 of `data` ([class weights]). It was given the "
      "logits `4|3` and the targets `4|`.",
      [&](Context& ctx) {
        ctx.eval(nn::cross_entropy(classifier(x), ids, {.class_weights = counting("2")}));  // [class weights]
      });
  expect("`nn::cross_entropy` ([smoothing]): .label_smoothing is 2, but is a share, 0 to 1.", [&](Context& ctx) {
    ctx.eval(nn::cross_entropy(classifier(x), ids, {.label_smoothing = 2}));  // [smoothing]
  });
  expect(
      "`nn::cross_entropy` ([ignore]): .ignore is an id, but the targets are distributions; give weights of 0 to rows "
      "instead.",
      [&](Context& ctx) {
        ctx.eval(nn::cross_entropy(classifier(x), counting("4|3"), {.ignore = -100}));  // [ignore]
      });
  expect("`nn::huber` ([huber]): delta is 0, but must be above 0.", [&](Context& ctx) {
    ctx.eval(nn::huber(net(x), net(x), 0));  // [huber]
  });
  expect("`nn::softmax` ([softmax]): it works over the last output axis, but x is `4|` and has none.",
         [&](Context& ctx) {
           ctx.eval(nn::softmax(y));  // [softmax]
         });
  expect(
      "softmax ([softmax over nothing]) with `b | c => b | c` runs over nothing: write 0 for each axis it runs over, "
      "as in `b | c => b | 0`.",
      [&](Context& ctx) {
        ctx.eval(nn::softmax("b | c => b | c", x));  // [softmax over nothing]
      });
}

// What the messages advise.
TEST(Mistakes, TheirAdviceHelps) {
  Context ctx({.device = "interp"});
  const Tensor prediction = tensor(counting("4|1")), target = tensor(counting("4|"));
  EXPECT_EQ(ctx.eval(nn::mse(prediction, einsum("... | => ... | 0", target))).item(), 0);
  EXPECT_EQ(ctx.eval(nn::mse(einsum("... | 0 => ... |", prediction), target)).item(), 0);
  EXPECT_EQ(ctx.shape(nn::Conv2d("conv", {.channels = 4})(einsum("... | h, w => ... | h, w, 0", counting("2|8,8")))),
            parse_shape("2|6,6,4"));
  EXPECT_EQ(ctx.eval(concat("a; b => a^b", counting("3"), counting("4"))).size(), 7);
}

TEST(Mistakes, Layers) {
  const Tensor x = tensor(counting("4|2"), "x");  // [x]
  expect(
      "sizes do not match in `linear fc` ([another width]): an axis is 2 for input axis 1 of `fc.weight` ([fc]) by "
      "`fc.weight in the Context`, but 5 for output axis 1 of `data` ([another width]). It was given x `4|5`.",
      [&](Context& ctx) {
        const nn::Linear fc("fc", {.output = {3}});  // [fc]
        ctx.eval(fc(x));
        ctx.eval(fc(counting("4|5")));  // [another width]
      });
  expect(
      "sizes do not match in `linear fc` ([given width]): an axis is 7 for input axis 1 of `fc.weight` ([fc of 7]), "
      "but 2 for output axis 1 of `x` ([x]). It was given x `4|2`.",
      [&](Context& ctx) {
        const nn::Linear fc("fc", {.output = {3}, .input = {7}});  // [fc of 7]
        ctx.eval(fc(x));                                           // [given width]
      });
  expect(
      "parameter `fc.weight`: its output axes are not determined; give `.output = {...}` here ([no output])\nparameter "
      "`fc.bias`: its output axes are not determined; give `.output = {...}` here ([no output])",
      [&](Context& ctx) {
        const nn::Linear fc("fc");  // [no output]
        ctx.eval(fc(x));
      });
  expect(
      "in `linear net.0` ([examples after a matrix]): 2 output axes by `net.0.weight in the Context`, but 1 by `data` "
      "([examples after a matrix]). It was given x `4|2`.",
      [&](Context& ctx) {
        const nn::Mlp net("net", {.widths = {8, 1}});
        ctx.eval(net(counting("4,2")));
        ctx.eval(net(counting("4|2")));  // [examples after a matrix]
      });
  expect("mlp `net` ([no widths]) needs .widths, the outputs of each of its layers.", [&](Context&) {
    nn::Mlp("net", {});  // [no widths]
  });
  expect(
      "two different tensors have the name `fc.weight`, both made at [two of one name]; give each parameter and state "
      "a name of its own, or make it once and use it twice.",
      [&](Context& ctx) {
        std::vector<nn::Layer> layers;
        for (int i = 0; i < 2; ++i) layers.push_back(nn::Linear("fc", {.output = {3}}));  // [two of one name]
        ctx.eval(nn::Sequential(layers)(x));
      });
  expect(
      "two different tensors have the name `fc.weight`: one made at [second fc], one at [first fc]; give each "
      "parameter and state a name of its own.",
      [&](Context& ctx) {
        const nn::Sequential net({nn::Linear("fc", {.output = {3}}),    // [first fc]
                                  nn::Linear("fc", {.output = {3}})});  // [second fc]
        ctx.eval(net(x));
      });
  expect(
      "`conv2d conv` ([no channels]): images are `batch | height, width, channels`, but x is `2|8,8`. An axis of one "
      "channel comes from einsum(\"... | h, w => ... | h, w, 0\", x).",
      [&](Context& ctx) {
        const nn::Conv2d conv("conv", {.channels = 4});
        ctx.eval(conv(counting("2|8,8")));  // [no channels]
      });
  expect(
      "`conv2d conv` ([images without batch]): images are `batch | height, width, channels`, but x is `8,8,1,2`. "
      "Before `|` stands the number of examples, so `8,8,1,2` is one example of 8 x 8 x 1 x 2 numbers; rows({..}) "
      "makes a batch of what it is given.",
      [&](Context& ctx) {
        const nn::Conv2d conv("conv", {.channels = 4});
        ctx.eval(conv(counting("8,8,1,2")));  // [images without batch]
      });
  expect(
      "in `conv2d conv` ([kernel too large]): a window of 9 (kernel 9, dilation 1) does not fit into 8. It was given x "
      "`2|8,8,1`.",
      [&](Context& ctx) {
        const nn::Conv2d conv("conv", {.channels = 4, .kernel = 9});
        ctx.eval(conv(counting("2|8,8,1")));  // [kernel too large]
      });
  expect("convolution `conv` ([channels not given]) needs .channels, the number that go out.", [&](Context&) {
    nn::Conv2d("conv", {.kernel = 3});  // [channels not given]
  });
  expect("convolution `conv` ([groups]) has 4 channels in 3 groups; .groups must divide .channels.", [&](Context&) {
    nn::Conv2d("conv", {.channels = 4, .groups = 3});  // [groups]
  });
  expect("a pool ([pool padding]) has .padding 2, more than half of its kernel: some windows would be empty.",
         [&](Context& ctx) {
           ctx.eval(nn::MaxPool2d{{.kernel = 2, .padding = 2}}(counting("2|8,8,1")));  // [pool padding]
         });
  expect("`flatten` ([flatten]): images are `batch | height, width, channels`, but x is `4|2`.", [&](Context& ctx) {
    ctx.eval(nn::Flatten()(x));  // [flatten]
  });
  expect("dropout `drop` ([dropout rate]) has the rate 1.5; it must be at least 0 and below 1.", [&](Context&) {
    nn::Dropout("drop", 1.5);  // [dropout rate]
  });
  expect(
      "`drop` ([dropout without a step]) draws random numbers in training and needs a step: training({.step = step}).",
      [&](Context&) {
        nn::Dropout drop("drop", 0.5);
        drop(x, nn::training());  // [dropout without a step]
      });
  expect("`layer_norm ln` ([layer norm]): it works over the last output axis, but x is `4|` and has none.",
         [&](Context& ctx) {
           const nn::LayerNorm norm("ln");
           ctx.eval(norm(counting("4|")));  // [layer norm]
         });
  expect("`group_norm gn` ([group norm]): its 3 groups do not divide the 8 channels of x, which is `2|4,4,8`.",
         [&](Context& ctx) {
           const nn::GroupNorm norm("gn", 3);
           ctx.eval(norm(counting("2|4,4,8")));  // [group norm]
         });
  expect(
      "the program trains `bn.weight` of `batch_norm bn` ([batch norm]) but leaves `bn.running_mean` as it is: add the "
      "updates of the phase, once the model was called, `train_step(loss, ..) & phase.updates()`; or say that they are "
      "to stay as they are, training({.statistics = false}).",
      [&](Context& ctx) {
        const nn::Sequential net({nn::Linear("fc", {.output = {3}}), nn::BatchNorm("bn")});
        const nn::Phase phase = nn::training();
        Tensor loss = sum(net(x, phase));  // [batch norm]
        ctx.compile(train_step(loss, sgd({.lr = 0.1})));
      });
}

TEST(Mistakes, Sequences) {
  const Tensor sequence = tensor(counting("2,6|8"), "sequence"), text = tensor(counting("2,6|", DType::i32), "text");
  expect(
      "`positions pos` ([longer than the context]): it has 4 positions (.num, the .ctx of a Gpt), but x is `2,6|8`, a "
      "sequence of 6.",
      [&](Context& ctx) {
        const nn::Gpt gpt({.vocab = 3, .ctx = 4, .dim = 8, .heads = 2});
        ctx.eval(gpt(text));  // [longer than the context]
      });
  expect("`embedding tok` ([ids of f32]): the ids are f32; they must be integers (cast(ids, DType::i32)).",
         [&](Context& ctx) {
           const nn::Gpt gpt({.vocab = 3, .ctx = 8, .dim = 8, .heads = 2});
           ctx.eval(gpt(counting("6|")));  // [ids of f32]
         });
  expect(
      "`text` holds the id 2 at [0, 2], but ids of batch axis 1 of `tok.weight` (embedding tok, [token out of range]) "
      "must lie in 0..1.",
      [&](Context& ctx) {
        const nn::Gpt gpt({.vocab = 2, .ctx = 8, .dim = 8, .heads = 2});
        ctx.eval(gpt(text));  // [token out of range]
      });
  expect("embedding `tok` ([embedding without num]) needs .num and .dim.", [&](Context&) {
    nn::Embedding("tok", {.dim = 8});  // [embedding without num]
  });
  expect("`lstm lstm` ([lstm]): it takes sequences of just 5 steps (.context), but x is `2,6|8`, a sequence of 6.",
         [&](Context& ctx) {
           const nn::Lstm lstm("lstm", {.hidden = 4, .context = 5});
           ctx.eval(lstm(sequence));  // [lstm]
         });
  expect(
      "`attention attn` ([time not in the batch]): sequences are `batch, time | channels`, the time being the last "
      "axis before `|`, but x is `2|6,8`.",
      [&](Context& ctx) {
        const nn::SelfAttention attention("attn", {.dim = 8, .heads = 2});
        ctx.eval(attention(counting("2|6,8")));  // [time not in the batch]
      });
  expect(
      "attention `attn` ([heads]) has .dim 8, .heads 3 and .kv_heads 3; heads must divide dim, and kv_heads must "
      "divide heads.",
      [&](Context&) {
        nn::SelfAttention("attn", {.dim = 8, .heads = 3});  // [heads]
      });
  auto heads = [](const char* shape, const char* name) { return tensor(counting(shape), name); };
  expect(
      "`nn::attend` ([kv heads]): the 3 heads of k and v do not divide the 4 heads of q. Each head of "
      "k and v serves the same number of heads of q.",
      [&](Context& ctx) {
        ctx.eval(nn::attend(heads("2,6|4,8", "q"), heads("2,6|3,8", "k"), heads("2,6|3,8", "v")));  // [kv heads]
      });
  expect("`nn::attend` ([heads of v]): k has 2 heads and v has 4; they must be equal.", [&](Context& ctx) {
    ctx.eval(nn::attend(heads("2,6|4,8", "q"), heads("2,6|2,8", "k"), heads("2,6|4,8", "v")));  // [heads of v]
  });
  expect(
      "`nn::attend` ([width of heads]): q has 8 numbers in a head and k has 6; they must be equal.", [&](Context& ctx) {
        ctx.eval(nn::attend(heads("2,6|4,8", "q"), heads("2,6|4,6", "k"), heads("2,6|4,8", "v")));  // [width of heads]
      });
  expect("`nn::attend` ([positions of v]): k has 6 positions and v has 5; they must be equal.", [&](Context& ctx) {
    ctx.eval(nn::attend(heads("2,6|4,8", "q"), heads("2,6|4,8", "k"), heads("2,5|4,8", "v")));  // [positions of v]
  });
  expect(
      "`nn::attend` ([no heads]): queries, keys and values are `batch, time | heads, width of a head`, but q is "
      "`2,6|8`.",
      [&](Context& ctx) {
        ctx.eval(nn::attend(sequence, sequence, sequence));  // [no heads]
      });
  expect(
      "the mask `data` ([mask of f32]) is f32, but a mask must be boolean, true where a position may be seen; write "
      "`mask > -1` for one that is added, 0 or -inf.",
      [&](Context& ctx) {
        const nn::SelfAttention attention("attn", {.dim = 8, .heads = 2});
        ctx.eval(attention(sequence, counting("6|6->")));  // [mask of f32]
      });
  expect(
      "sizes do not match in `attention attn` ([mask of another length]): axis `t` is 5 for batch axis 1 of `mask` "
      "([mask]), but 6 for input axis 1 of `mask` ([mask]). It was given x `2,6|8` and the mask `5|6->`.",
      [&](Context& ctx) {
        const nn::SelfAttention attention("attn", {.dim = 8, .heads = 2});
        const Tensor mask = tensor(counting("5|6->", DType::boolean), "mask");  // [mask]
        ctx.eval(attention(sequence, mask));                                    // [mask of another length]
      });
}

}  // namespace
}  // namespace caravan
