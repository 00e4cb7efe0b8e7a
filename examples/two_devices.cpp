// Two devices share the weights of a network: each has half of its hidden layer. Two workers of one process train it,
// or two processes: mpirun -n 2 two_devices.
#include <caravan/caravan.h>
using namespace caravan;

int main() {
  const auto moons = data::half_moons({.points = 400, .noise = 0.1, .seed = 1});
  Tensor x = moons.points, y = moons.labels;

  nn::Linear hidden("hidden", {.output = {64}}), out("out", {.output = {1}});
  hidden.weight = place(hidden.weight, "model", RowKind::output);  // what belongs to it is divided with it
  Tensor score = out(relu(hidden(x)));
  Tensor loss = mean(relu(1 - y * score)), right = mean(cast(y * score > 0, DType::f32));

  for (const Mesh& mesh : {Mesh{}, Mesh{{"model", 2}}}) {  // one device; two
    Context ctx({.seed = 1, .mesh = mesh});
    Routine step = ctx.compile(train_step(loss, adam({.lr = 0.01})) & observe(right));
    step.run_steps(300);
    const double found = step.read(right).item();
    const int64_t sent = ctx.take_exchanged().bytes / 300;
    if (process_rank() == 0)
      std::cout << mesh.devices() << (mesh.devices() == 1 ? " device:  " : " devices: ") << 100 * found
                << " % of the points are right; each device sends " << sent << " bytes in a step\n";
  }
}
