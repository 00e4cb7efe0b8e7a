// Regression on a table: the rent of a flat from its size and age. A fifth of the rows is kept to test.
#include <caravan/caravan.h>
#include <caravan/data/csv.h>
using namespace caravan;

int main() {
  data::Table table = data::read_csv("flats.csv", {.header = true});
  Array x = table.columns({"size", "age"}), y = table.columns({"rent"});  // 60|2 and 60|1
  auto parts = data::split({x, y}, {0.8, 0.2}, 1);
  auto train = parts[0], test = parts[1];
  data::Normalization scaled(train[0], data::Over::each_feature);

  nn::Linear model("model", {.output = {1}});
  Context ctx({.seed = 1});
  Routine step = ctx.compile(train_step(nn::mse(model(scaled(train[0])), train[1]), adam({.lr = 10})));
  step.run_steps(1000);

  Function predict(ctx, model);
  Array rents = predict(scaled(test[0])), small = predict(scaled(rows({{40, 10}})));
  std::cout << "mean error of the test rents: " << ctx.eval(round(nn::mae(rents, test[1]))) << '\n';
  std::cout << "40 m², 10 years: " << ctx.eval(round(small)) << '\n';
}
