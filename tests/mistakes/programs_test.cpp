// Mistakes in specs, precisions, states and runs, and what users are told.
#include "mistakes/mistakes.h"

namespace caravan {
namespace {

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
  expect("device kind `gpu` is not built into this library; it has: cpu, interp, cuda. ([device])", [&](Context&) {
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

}  // namespace
}  // namespace caravan
