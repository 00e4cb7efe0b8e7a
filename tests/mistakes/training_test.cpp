// Mistakes in training, functions and checkpoints, and what users are told.
#include "mistakes/mistakes.h"
#include "temporary_folder.h"

namespace caravan {
namespace {

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
