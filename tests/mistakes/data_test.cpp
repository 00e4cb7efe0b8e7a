// Mistakes in arrays, data, files, exports and threads, and what users are told.
#include <caravan/data/csv.h>
#include <caravan/data/idx.h>
#include <caravan/data/npy.h>
#include <caravan/deploy/c99.h>

#include <future>

#include "mistakes/mistakes.h"
#include "temporary_folder.h"

namespace caravan {
namespace {

TEST(Mistakes, Arrays) {
  const Array x = counting("4|2");
  expect("an array of shape \"4|2\" has 8 elements, but 3 values were given. ([number of values])", [&](Context&) {
    Array(parse_shape("4|2"), {1, 2, 3});  // [number of values]
  });
  expect("an array of shape \"4|2\" has 8 elements, but 7 values were given. ([number of floats])", [&](Context&) {
    const std::vector<float> values(7);
    Array({.batch = {4}, .output = {2}}, values);  // [number of floats]
  });
  expect("an array of shape \"4|2\" has 8 elements, but 7 values were given. ([view])", [&](Context&) {
    const std::vector<float> values(7);
    Array::view({.batch = {4}, .output = {2}}, values);  // [view]
  });
  expect("an array of shape \"-1|\" cannot be: the size -1 is negative. ([negative size])", [&](Context&) {
    Array({.batch = {-1}});  // [negative size]
  });
  expect(
      "shape \"4|x\": expected a size such as 3 in `x`; write shapes as `batch | input -> output`, for example "
      "`2,8|3->4`. ([parse shape])",
      [&](Context&) {
        parse_shape("4|x");  // [parse shape]
      });
  expect("every example must have as many values as the first: example 0 has 2, example 1 has 1. ([unequal examples])",
         [&](Context&) {
           rows({{1, 2}, {3}});  // [unequal examples]
         });
  expect(
      "the number 300 does not fit u8; choose a wider precision, or make the array as f64 and `cast` it. ([300 as u8])",
      [&](Context&) {
        rows({1, 300}, DType::u8);  // [300 as u8]
      });
  expect("every row must have as many values as the first: row 0 has 2, row 1 has 1. ([unequal rows])", [&](Context&) {
    matrix({{1, 2}, {3}});  // [unequal rows]
  });
  expect(
      "batches(3) of an array of shape \"4|2\": 3 does not divide the 4 examples. data::batches({x, y}, 3) has a last "
      "batch of the rest, and a Function takes every size; part(0, 3) leaves the rest out. ([batches of an array])",
      [&](Context&) {
        x.batches(3);  // [batches of an array]
      });
  expect(
      "batches(2) needs a batch axis, but the shape is \"4\"; rows({..}) makes a batch of what it is given. ([batches "
      "without batch])",
      [&](Context&) {
        counting("4").batches(2);  // [batches without batch]
      });
  expect("part(3, 2) of an array of shape \"4|2\", whose leftmost axis has size 4. ([part])", [&](Context&) {
    x.part(3, 2);  // [part]
  });
  expect("take of position 4 of an array of shape \"4|2\", whose leftmost axis has size 4. ([take])", [&](Context&) {
    x.take({0, 4});  // [take]
  });
  expect("item() needs exactly one element, but an array of shape \"4|2\" has 8. ([item])", [&](Context&) {
    x.item();  // [item]
  });
  expect("element 8 of an array of shape \"4|2\", which has 8 elements. ([at])", [&](Context&) {
    x.at(8);  // [at]
  });
  expect(
      "position 2 on axis 1 of an array of shape \"4|2\", where that axis has size 2 (axes are counted in memory "
      "order: batch, output, input). ([at of two])",
      [&](Context&) {
        x.at({0, 2});  // [at of two]
      });
  expect(
      "the elements of this array are f32, not f64; `cast` the array first, or use `copy_to`, which converts. ([as])",
      [&](Context&) {
        x.as<double>();  // [as]
      });
  expect("an array of shape \"4|2\" has 8 elements; it cannot be copied to memory of 3. ([copy to])", [&](Context&) {
    std::vector<float> out(3);
    x.copy_to(std::span(out));  // [copy to]
  });
  expect("an array of shape \"4|2\" has 8 elements and cannot become \"7\", which has 7. ([reshaped])", [&](Context&) {
    x.reshaped({.output = {7}});  // [reshaped]
  });
  expect("zip needs two arrays of one shape, but these have the shapes \"4|2\" and \"4|3\". ([zip])", [&](Context&) {
    Array::zip(x, counting("4|3"), [](double a, double b) { return a + b; });  // [zip]
  });
  expect("random_ids draws from 0 .. range - 1; the range 0 is not in 1 .. 2^31. ([random ids])", [&](Context&) {
    random_ids({.batch = {4}}, 0, 1);  // [random ids]
  });
}

TEST(Mistakes, Data) {
  const Array x = counting("4|2"), y = counting("5|");
  expect(
      "arrays of 4 and 5 examples cannot go together; example i of one must belong to example i of the other. ([arrays "
      "of data batches])",
      [&](Context&) {
        data::batches({x, y}, 2);  // [arrays of data batches]
      });
  expect("a batch of 0 examples cannot be; give a positive number. ([size of data batches])", [&](Context&) {
    data::batches({x}, 0);  // [size of data batches]
  });
  expect("split: the fractions sum to 1.1; at most 1 can be given. ([split])", [&](Context&) {
    data::split({x}, {0.8, 0.3}, 1);  // [split]
  });
  expect("half_moons: 7 points; give an even number, half for each moon. ([half moons])", [&](Context&) {
    data::half_moons({.points = 7});  // [half moons]
  });
  expect("examples of shape \"1\" and \"2\" do not make one array. ([map rows])", [&](Context&) {
    int64_t n = 0;
    data::map_rows(x, [&](const Array& example) { return example.part(0, 1 + n++ % 2); });  // [map rows]
  });
  expect("the data that was normalised by had 2 features, but an array of shape \"4|3\" has 3. ([normalization])",
         [&](Context&) {
           data::Normalization(counting("4|2"), data::Over::each_feature)(counting("4|3"));  // [normalization]
         });
  expect(
      "arrays of 4 and 5 examples cannot go together; example i of one must belong to example i of the other. "
      "([loader])",
      [&](Context&) {
        data::Loader({x, y}, {.batch = 2});  // [loader]
      });
}

TEST(Mistakes, Files) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/rents.csv";
  std::ofstream(path) << "size,rooms,price\n50,2,900\n80,x,1200\n";
  const std::string whole = folder.path + "/whole.csv";
  std::ofstream(whole) << "size,rooms,price\n50,2,900\n";
  auto expect_of_file = [&](const std::string& message, const std::function<void(Context&)>& code) {
    expect(message, code, folder.path);
  };
  expect_of_file("`FILE/missing.csv` cannot be read: No such file or directory. ([no table])", [&](Context&) {
    data::read_csv(folder.path + "/missing.csv");  // [no table]
  });
  expect_of_file(
      "`FILE/rents.csv` is not a usable table: line 3, column 2: `x` is not a number that can be read. ([no number])",
      [&](Context&) {
        data::read_csv(path, {.header = true});  // [no number]
      });
  expect_of_file(
      "the table `FILE/whole.csv` has no column `prise`; did you mean `price`? It has `size`, `rooms`, `price`. "
      "([column])",
      [&](Context&) {
        data::read_csv(whole, {.header = true}).columns({"size", "prise"});  // [column]
      });
  expect_of_file("columns(2, 2) of the table `FILE/whole.csv`, which has 3 columns. ([columns])", [&](Context&) {
    data::read_csv(whole, {.header = true}).columns(2, 2);  // [columns]
  });
  expect_of_file("`FILE/rents.csv` is not a usable .npy file: it does not begin with \\x93NUMPY. ([no numpy])",
                 [&](Context&) {
                   data::read_npy(path);  // [no numpy]
                 });
  expect_of_file(
      "`FILE/rents.csv` is not a usable IDX file: it begins with the bytes 73 69 instead of 00 00. Fetch it again, or "
      "give another. ([no idx])",
      [&](Context&) {
        data::read_idx(path);  // [no idx]
      });
  expect_of_file("`FILE` has no train-images-idx3-ubyte, packed or not. ([no digits])", [&](Context&) {
    data::load_digits(folder.path);  // [no digits]
  });
}

TEST(Mistakes, Exports) {
  const Tensor x = input("x", {.batch = {1}, .output = {2}});
  const nn::Mlp net("net", {.widths = {8, 1}});
  expect(
      "`linear net.1` reads the state `net.0.weight`, which has no value in the Context; write it, or run a program "
      "that uses it, before the export. ([weights without values])",
      [&](Context& ctx) {
        deploy::to_c99(ctx, x, net(x));  // [weights without values]
      });
  expect(
      "`2d` cannot start the names of a C file: use letters, digits and underscores, a letter first. ([name of a "
      "file])",
      [&](Context& ctx) {
        deploy::to_c99(ctx, x, x * 2, {.name = "2d"});  // [name of a file]
      });
}

TEST(Mistakes, Threads) {
  expect(
      "this Context is in use by another thread at this moment; a Context is for one thread at a time, with its "
      "Routines and Functions. Give each thread one of its own: Context mine = ctx.reader(), and function.in(mine). "
      "([function in two threads])",
      [&](Context& ctx) {
        std::function<void()> call;
        Function twice(ctx, [&](Tensor t) {
          call();  // while the first call is under way
          return t * 2;
        });  // [function in two threads]
        call = [&] { std::async(std::launch::async, [&] { twice(rows({{1, 2}})); }).get(); };
        twice(rows({{1, 2}}));
      });
  expect(
      "this Context is in use by another thread at this moment; a Context is for one thread at a time, with its "
      "Routines and Functions. Give each thread one of its own: Context mine = ctx.reader(), and function.in(mine). "
      "([routine in two threads])",
      [&](Context& ctx) {
        Routine routine = ctx.compile(observe(param("w", 1.0)));
        Function slow(ctx, [&](Tensor t) {
          std::async(std::launch::async, [&] {
            routine.run();  // [routine in two threads]
          }).get();
          return t * 2;
        });
        slow(rows({{1, 2}}));
      });
  Context ctx({.device = "interp"});  // one after the other is well
  Function twice(ctx, [&](Tensor t) { return t * 2; });
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(std::async(std::launch::async, [&] { return twice(rows({1, 2})).at(1); }).get(), 4);
}

}  // namespace
}  // namespace caravan
