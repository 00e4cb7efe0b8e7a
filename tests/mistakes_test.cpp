// Mistakes in models, specs, states and training, and what users are told (mistakes.h).
#include "mistakes.h"

#include "temporary_folder.h"

namespace caravan {
namespace {

// --- labels and losses ---

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

// --- layers ---

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
      "`text` holds the id 2 at [0, 2], but ids of input axis 1 of `tok.weight` (embedding tok, [token out of range]) "
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

// --- specs ---

TEST(Mistakes, Specs) {
  const Tensor a = tensor(counting("3,4"), "a"), b = tensor(counting("4,5"), "b");  // [a and b]
  expect(
      "sizes do not match in `i, j; i, k => j, k` ([sizes of a spec]): axis `i` is 3 for output axis 1 of `a` ([a and "
      "b]), but 4 for output axis 1 of `b` ([a and b]).",
      [&](Context& ctx) {
        ctx.eval(einsum("i, j; i, k => j, k", a, b));  // [sizes of a spec]
      });
  expect(
      "in `bx | ch => bx |` ([letters]): 2 batch axes by the spec, but 1 by `data` ([letters]); this spec has no "
      "comma, so every letter is an axis and every number an index: `bx` is 2 of them; with a comma anywhere, as in "
      "`bx,`, names may be longer.",
      [&](Context& ctx) {
        ctx.eval(einsum("bx | ch => bx |", counting("3|4")));  // [letters]
      });
  expect(
      "in `x0 | x1 => x0 |` ([letter and number]): 2 batch axes by the spec, but 1 by `data` ([letter and number]); "
      "this spec has no comma, so every letter is an axis and every number an index: `x0` is 2 of them; with a comma "
      "anywhere, as in `x0,`, names may be longer.",
      [&](Context& ctx) {
        ctx.eval(einsum("x0 | x1 => x0 |", counting("3|4")));  // [letter and number]
      });
  expect(
      "in `ij, k => ij` ([comma]): 3 output axes by `data` ([comma]), but 2 by the spec; this spec separates names by "
      "commas, so `ij` is one axis.",
      [&](Context& ctx) {
        ctx.eval(einsum("ij, k => ij", counting("3,4,5")));  // [comma]
      });
  expect(
      "spec \"a; b => a^b\" ([concat]): its operands would be multiplied; to put one behind the other, write "
      "concat(\"a; b => a^b\", ..).",
      [&](Context& ctx) {
        ctx.eval(einsum("a; b => a^b", counting("3"), counting("4")));  // [concat]
      });
  expect(
      "spec \"row, column => row\" ([bound name]): `colum` is bound or captured but does not stand in the spec; did "
      "you mean `column`?",
      [&](Context& ctx) {
        ctx.eval(einsum("row, column => row", a, {{"colum", 4}}));  // [bound name]
      });
  expect(
      "spec error ([syntax]): expected `,` between axes (this spec has names of many letters), at column 11\n  i, j => "
      "k j\n            ^",
      [&](Context& ctx) {
        const std::string from_a_file = "i, j => k j";
        ctx.eval(einsum(spec(from_a_file), a));  // [syntax]
      });
  expect("spec \"i, j; j, k => i, k\" ([operands]) has 2 shapes before `=>`, but the call has 1 operand.",
         [&](Context& ctx) {
           const std::string from_a_file = "i, j; j, k => i, k";
           ctx.eval(einsum(spec(from_a_file), a));  // [operands]
         });
  expect(
      "in `i, j => i, j, n` ([size not known]): the size of `n` is not determined; bind it at the call, {\"n\", n}, or "
      "size a tensor that has it.",
      [&](Context& ctx) {
        ctx.eval(einsum("i, j => i, j, n", a));  // [size not known]
      });
  expect(
      "in `i, 4 => i` ([fixed index]): the fixed index 4 is beyond the axis of size 4 (output axis 2 of `a` ([a and "
      "b])).",
      [&](Context& ctx) {
        ctx.eval(einsum("i, 4 => i", a));  // [fixed index]
      });
  expect(
      "in `i, two&j => i, j` ([factor]), axis `two&j`: the factor 3 does not divide 4 (output axis 2 of `a` ([a and "
      "b])).",
      [&](Context& ctx) {
        ctx.eval(einsum("i, two&j => i, j", a, {{"two", 3}}));  // [factor]
      });
  expect("the Dim used at [dim] is captured by no spec of this program; name it in one, {\"name\", dim}.",
         [&](Context& ctx) {
           Dim n;
           ctx.eval(sum(a) / n);  // [dim]
         });
  expect(
      "sizes do not match in `i, j; k, j => i^k, j` ([concat parts]): axis `j` is 4 for output axis 2 of `a` ([a and "
      "b]), but 5 for output axis 2 of `b` ([a and b]).",
      [&](Context& ctx) {
        ctx.eval(concat("i, j; k, j => i^k, j", a, b));  // [concat parts]
      });
  expect(
      "sizes do not match in `w * data` ([w times x]): an axis is 5 for output axis 1 of `w` ([w]), but 4 for output "
      "axis 1 of `data` ([w times x]). To apply a linear map write w(x), not w * x.",
      [&](Context& ctx) {
        const Tensor w = param("w", {.input = {4}, .output = {5}});  // [w]
        ctx.eval(w * counting("3|4"));                               // [w times x]
      });
  expect(
      "sizes do not match in `a + b` ([plus]): an axis is 3 for output axis 1 of `a` ([a and b]), but 4 for output "
      "axis 1 of `b` ([a and b]).",
      [&](Context& ctx) {
        ctx.eval(a + b);  // [plus]
      });
  expect(
      "sizes do not match in `dot` ([dot]): an axis is 3 for output axis 1 of `a` ([a and b]), but 4 for output axis 1 "
      "of `b` ([a and b]). It was given a `3,4` and b `4,5`.",
      [&](Context& ctx) {
        ctx.eval(dot(a, b));  // [dot]
      });
  expect(
      "in `slice i` ([slice]): the index has the range 11, but the sliced axis has size 10 (batch axis 1 of `data` "
      "([slice])).",
      [&](Context& ctx) {
        ctx.eval(tensor(counting("10|2"))[Index("i", 11)]);  // [slice]
      });
  expect(
      "in `batches(3)` ([batches]): the factor 3 does not divide 10 (batch axis 1 of `rows` ([batches])). It was given "
      "the tensor `10|2`.",
      [&](Context& ctx) {
        ctx.eval(param("rows", {.batch = {10}, .output = {2}}).batches(3));  // [batches]
      });
}

// --- precisions ---

TEST(Mistakes, Precisions) {
  const Tensor bytes = tensor(counting("4", DType::u8), "bytes");  // [bytes]
  expect("the number 300 ([300]) does not fit into u8, the precision of the tensor it meets; cast the tensor first.",
         [&](Context& ctx) {
           ctx.eval(bytes + 300);  // [300]
         });
  expect(
      "the gradient of `sum` ([grad of integers]) asked for at [grad of integers] does not exist: it is i32, not a "
      "float.",
      [&](Context& ctx) {
        const Tensor w = param("w", {1, 2, 3});
        ctx.eval(grad(sum(cast(w, DType::i32)), w));  // [grad of integers]
      });
  expect("the gradient by `bytes` ([bytes]) asked for at [grad by bytes] does not exist: it is u8, not a float.",
         [&](Context& ctx) {
           ctx.eval(grad(sum(bytes * param("w", 2.0)), bytes));  // [grad by bytes]
         });
  expect("`count` ([initial value]) is i32, which cannot hold its initial value 0.5.", [&](Context&) {
    param("count", {.init = constant(0.5), .dtype = DType::i32});  // [initial value]
  });
  expect("gather ([ids of gather]): the ids are f32; they must be integers (cast(ids, DType::i32)).", [&](Context&) {
    gather(counting("3->2"), counting("4"));  // [ids of gather]
  });
  expect("`n` is i32; the value 0.5 does not fit. ([half])", [&](Context& ctx) {
    const Tensor n = input("n", {.output = {2}, .dtype = DType::i32});
    ctx.write(n, Array::vector({0.5, 1}));  // [half]
  });
}

// --- states and runs ---

TEST(Mistakes, States) {
  const Tensor w = param("weight", {1, 2, 3}), i = input("image", {.output = {3}});  // [weight]
  expect("the Context has no state `wieght`; did you mean `weight`? It has: weight. ([read name])", [&](Context& ctx) {
    ctx.eval(w);
    ctx.read("wieght");  // [read name]
  });
  expect(
      "no program of this Context has a state `wieght`; did you mean `weight`? To write it for a program that comes "
      "later, write it by its tensor or with {.create = true}. ([write name])",
      [&](Context& ctx) {
        ctx.eval(w);
        ctx.write("wieght", counting("3"));  // [write name]
      });
  expect(
      "`wieght` was written, but no program has a state of that name; did you mean `weight`, which nothing was written "
      "to? If both exist, write `wieght` by its tensor or with {.create = true}. ([written before])",
      [&](Context& ctx) {
        ctx.write("wieght", counting("3"));
        ctx.eval(w);  // [written before]
      });
  expect("`weight` has the shape 3; an array of shape 4 cannot be written to it. ([write shape])", [&](Context& ctx) {
    ctx.eval(w);
    ctx.write(w, counting("4"));  // [write shape]
  });
  expect("`image` ([weight]) was declared with the output axes [3]; an array of shape 3| cannot be written to it.",
         [&](Context& ctx) {
           ctx.write(i, counting("3|"));  // [write declared]
         });
  expect("`weight * 2` ([twice]) is computed, not state: it cannot be written.", [&](Context& ctx) {
    const Tensor twice = w * 2;  // [twice]
    ctx.write(twice, counting("3"));
  });
  expect("`weight * 3` ([thrice]) is computed, not state: observe it in a program, or use eval.", [&](Context& ctx) {
    const Tensor thrice = w * 3;  // [thrice]
    ctx.read(thrice);
  });
  expect(
      "state `image` was never initialised; set it, or run a program that assigns it, before `mul`. ([never written])",
      [&](Context& ctx) {
        ctx.eval(i * 2);  // [never written]
      });
  expect("`weight` has no value yet: run the routine before reading it. ([read before run])", [&](Context& ctx) {
    Routine routine = ctx.compile(observe(w));
    routine.read(w);  // [read before run]
  });
  expect(
      "`weight + 1` ([not observed]) is not observed by this program; add `& observe(tensor)` to it, or use "
      "Context::read for a state.",
      [&](Context& ctx) {
        Routine routine = ctx.compile(observe(w));
        routine.run();
        routine.read(w + 1);  // [not observed]
      });
  expect("the index `step` is not bound; run it with {{step, value}}. ([not bound])", [&](Context& ctx) {
    const Index step("step", 4);
    Routine routine = ctx.compile(observe(tensor(counting("4|2"))[step]));
    routine.run();  // [not bound]
  });
  expect("the index `step` is 4, but must be in 0..3. ([out of range])", [&](Context& ctx) {
    const Index step("step", 4);
    Routine routine = ctx.compile(observe(tensor(counting("4|2"))[step]));
    routine.run({{step, 4}});  // [out of range]
  });
  expect("two different Index objects have the name `step` ([two indices]).", [&](Context& ctx) {
    ctx.eval(tensor(counting("4|2"))[Index("step", 4)] + tensor(counting("4|2"))[Index("step", 4)]);  // [two indices]
  });
  expect(
      "two different tensors have the name `weight`: one made at [weight], one at [second weight]; give each parameter "
      "and state a name of its own.",
      [&](Context& ctx) {
        ctx.eval(w + param("weight", {1, 2, 3}));  // [second weight]
      });
  expect("`weight` is f32 in the Context, but the program ([another precision]) has it as f64.", [&](Context& ctx) {
    ctx.eval(w);
    ctx.eval(param("weight", {.output = {3}, .dtype = DType::f64}));  // [another precision]
  });
  expect("a Context cannot have -1 threads; 0 takes one for each processor. ([threads])", [&](Context&) {
    Context none({.threads = -1});  // [threads]
  });
  expect("device kind `gpu` is not built into this library; it has: cpu, interp. ([device])", [&](Context&) {
    Context gpu({.device = "gpu"});  // [device]
  });
  expect("an undefined Tensor was used ([undefined]); assign it before (Tensor x = param(\"x\"), ...).",
         [&](Context& ctx) {
           Tensor forgotten;
           ctx.eval(w * forgotten);  // [undefined]
         });
  expect(
      "normal(\"noise\") ([no step]) would draw the same numbers in every run; give it a .step, such as an Index or a "
      "state that counts, or .step = 0 if they are to stay the same.",
      [&](Context&) {
        normal("noise", {.output = {3}});  // [no step]
      });
  expect(
      "the random stream `noise` is drawn from at [first draw] and at [second draw] at the same step, which gives the "
      "same numbers; give each a stream or a step of its own, or use one tensor in both places.",
      [&](Context& ctx) {
        ctx.eval(uniform("noise", {.output = {3}, .step = 0}) -  // [first draw]
                 uniform("noise", {.output = {3}, .step = 0}));  // [second draw]
      });
}

// --- training ---

TEST(Mistakes, Training) {
  const Tensor w = param("w", {1, 2, 3}), loss = sum(square(w));  // [loss]
  expect("the loss `sum` ([no parameter]) depends on no parameter, so that there is nothing to train ([no parameter]).",
         [&](Context&) {
           train_step(sum(tensor(counting("3"))), sgd({.lr = 0.1}));  // [no parameter]
         });
  expect(
      "the loss `sum` ([right]) is i32, and only floats have gradients ([accuracy as loss]); what counts, such as an "
      "accuracy, can be observed but not trained by.",
      [&](Context&) {
        const Tensor right = sum(cast(w > 1, DType::i32));  // [right]
        train_step(right, sgd({.lr = 0.1}));                // [accuracy as loss]
      });
  expect(
      "the loss `mean` ([cut]) depends on parameters only through integers, comparisons or stop_gradient, so that no "
      "gradient reaches them ([cut off]).",
      [&](Context&) {
        const Tensor cut = mean(stop_gradient(w));  // [cut]
        train_step(cut, sgd({.lr = 0.1}));          // [cut off]
      });
  expect("`train_step` ([many losses]): the loss is `3`, but must be one number: mean(loss) or sum(loss).",
         [&](Context& ctx) {
           ctx.compile(train_step(square(w), sgd({.lr = 0.1})));  // [many losses]
         });
  expect("`train_step` ([no reduction]): the loss is `4|1`, but must be one number: mean(loss) or sum(loss).",
         [&](Context& ctx) {
           const nn::Mlp net("net", {.widths = {8, 1}});
           const Tensor each = nn::mse(net(counting("4|2")), counting("4|1"), {.reduction = nn::Reduction::none});
           ctx.compile(train_step(each, adam({.lr = 0.1})));  // [no reduction]
         });
  expect(
      "`accumulated_step` ([many accumulated losses]): the loss is `3`, but must be one number: mean(loss) or "
      "sum(loss).",
      [&](Context& ctx) {
        ctx.compile(accumulated_step(square(w), Index("step"), 4, sgd({})));  // [many accumulated losses]
      });
  expect("`gradients` ([gradients of many]): the loss is `3`, but must be one number: mean(loss) or sum(loss).",
         [&](Context& ctx) {
           ctx.compile(sgd({})(gradients(square(w))));  // [gradients of many]
         });
  expect(
      "`grad` ([grad of many]): y is `3`, but must be one number: sum(y) or mean(y); or give .cotangent, of the shape "
      "of y.",
      [&](Context& ctx) {
        ctx.eval(grad(square(w), w));  // [grad of many]
      });
  expect("sgd ([nesterov]): .nesterov needs a .momentum.", [&](Context&) {
    sgd({.lr = 0.1, .nesterov = true});  // [nesterov]
  });
  expect("an undefined Optimizer was used ([optimizer]); make one first (Optimizer o = adam({.lr = 1e-3})).",
         [&](Context&) {
           Optimizer forgotten;
           train_step(loss, forgotten);  // [optimizer]
         });
  expect(
      "`w.adam.mean` belongs to the `adam` made at [first adam]; the `adam` made at [second adam] would change it too. "
      "To go on with its values, use one Optimizer for both, or give both the same .name; for a state of its own, give "
      "one of them another name; to begin anew, call reset(\"adam\") of the Context first.",
      [&](Context& ctx) {
        ctx.compile(train_step(loss, adam({.lr = 0.1})));   // [first adam]
        ctx.compile(train_step(loss, adam({.lr = 0.01})));  // [second adam]
      });
  expect(
      "`w.adam.mean` belongs to the `adam` made at [adam in a loop]; another `adam`, which the same line made later "
      "(in a loop, or in a function that is called for each size), would change it too. To go on with its values, use "
      "one Optimizer for both, or give both the same .name; for a state of its own, give one of them another name; to "
      "begin anew, call reset(\"adam\") of the Context first.",
      [&](Context& ctx) {
        for (double rate : {0.1, 0.01}) ctx.compile(train_step(loss, adam({.lr = rate})));  // [adam in a loop]
      });
  for (const bool is_adam : {false, true})
    expect("`" + std::string(is_adam ? "adam" : "sgd") + "` ([rates]): .lr is `4`, but must be one number.",
           [&](Context& ctx) {
             const Tensor rates = tensor(counting("4"));
             ctx.compile(train_step(loss, is_adam ? adam({.lr = rates}) : sgd({.lr = rates})));  // [rates]
           });
  expect("linear_decay ([decay]): `steps` is 0, but must be above 0.", [&](Context&) {
    linear_decay(Index("step"), 0, 0.1);  // [decay]
  });
  expect(
      "in `bias := data` ([another number of axes]): 1 output axis by `data` ([another number of axes]), but none by "
      "`bias` ([another number of axes]).",
      [&](Context& ctx) {
        ctx.compile(assign(param("bias", 0.0), counting("2")));  // [another number of axes]
      });
  expect(
      "`w` is assigned twice in one program: at [assigned twice] and at [assigned twice]; use then(p, q) if one comes "
      "after the other.",
      [&](Context& ctx) {
        ctx.compile(train_step(loss, sgd({.lr = 0.1})) & assign(w, w * 0.9));  // [assigned twice]
      });
  expect("only a parameter or a state can be assigned to, not `w * 2` ([assigned to a product]).", [&](Context&) {
    assign(w * 2, w);  // [assigned to a product]
  });
  expect("accumulated_step ([accumulated]): `every` is 0; it must be at least 1.", [&](Context&) {
    accumulated_step(loss, Index("step"), 0, sgd({}));  // [accumulated]
  });
  expect("no program of this Context has an optimiser `adm` that keeps states; there is adam. ([reset])",
         [&](Context& ctx) {
           ctx.compile(train_step(loss, adam({})));
           ctx.reset("adm");  // [reset]
         });
  expect(
      "the gradient of `sum` ([loss]) by `v` ([unused]) was asked for at [unused], but the former does not depend on "
      "the latter; check the graph, or give .allow_unused = true for zeros.",
      [&](Context&) {
        grad(loss, param("v", 1.0));  // [unused]
      });
}

TEST(Mistakes, Functions) {
  const nn::Mlp net("net", {.widths = {8, 1}});
  expect(
      "sizes do not match in `linear fc` ([predict]): an axis is 7 for input axis 1 of `fc.weight` ([fc of a "
      "function]), but 2 for output axis 1 of `argument 1 (f32 4|2)` ([predict]). It was given x `4|2`.",
      [&](Context& ctx) {
        const nn::Linear fc("fc", {.output = {3}, .input = {7}});  // [fc of a function]
        Function predict(ctx, fc);                                 // [predict]
        predict(counting("4|2"));
      });
  expect(
      "a Function ([predict of one]) was called with 3 arrays, but what it was made of cannot be called with so many "
      "tensors.",
      [&](Context& ctx) {
        Function predict(ctx, net);  // [predict of one]
        predict(counting("4|2"), counting("4|1"), counting("4|1"));
      });
  expect(
      "`nn::mse` ([mse of a step]): the prediction is `4|1` and the target is `4|`, but both must have one shape. Give "
      "the target an axis of 1, einsum(\"... | => ... | 0\", target), or take that of the prediction, einsum(\"... | 0 "
      "=> ... |\", prediction).",
      [&](Context& ctx) {
        const Optimizer optimizer = sgd({.lr = 0.1});
        Function step(ctx, [&](Tensor x, Tensor y) {
          return train_step(nn::mse(net(x), y), optimizer);  // [mse of a step]
        });
        step(counting("4|2"), counting("4|"));
      });
  expect("the index `epoch` is not bound; run it with {{epoch, value}}. ([epoch])", [&](Context& ctx) {
    const Index epoch("epoch");
    Function noisy(ctx, [&](Tensor x) { return x + epoch; });
    noisy.run({counting("4|2")});  // [epoch]
  });
}

TEST(Mistakes, Checkpoints) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/model.safetensors";
  const Tensor weight = param("fc.weight", {1, 2, 3});
  {
    Context ctx({.device = "interp"});
    ctx.eval(weight + param("fc.bias", 0.0));
    save_checkpoint(path, ctx);
  }
  auto expect_of_file = [&](std::string message, const std::function<void(Context&)>& code) {
    expect(message, code, path);
  };
  expect_of_file(
      "FILE does not fit the program; nothing was loaded:\n  missing (1): fc.wieght\n  unexpected (2): fc.bias, "
      "fc.weight\n  fc.weight may be what the program calls fc.wieght ([names of a file])",
      [&](Context& ctx) {
        ctx.eval(param("fc.wieght", {1, 2, 3}));
        load_checkpoint(path, ctx);  // [names of a file]
      });
  expect_of_file(
      "FILE does not fit the program; nothing was loaded:\n  misshapen: fc.weight is f64 [3], the program has f32 [2] "
      "([shapes of a file])",
      [&](Context& ctx) {
        ctx.eval(param("fc.weight", {1, 2}) + param("fc.bias", 0.0));
        load_checkpoint(path, ctx);  // [shapes of a file]
      });
  expect_of_file("`FILE.old` cannot be read: No such file or directory. ([no file])", [&](Context& ctx) {
    ctx.eval(weight);
    load_checkpoint(path + ".old", ctx);  // [no file]
  });
  expect_of_file("`FILE/model.safetensors` cannot be written: Not a directory. ([no folder])", [&](Context& ctx) {
    ctx.eval(weight);
    save_checkpoint(path + "/model.safetensors", ctx);  // [no folder]
  });
}

}  // namespace
}  // namespace caravan
