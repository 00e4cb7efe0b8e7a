// caravan plan: what a training step would take on devices that are not here.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/terminal.h"
#include "apps/train/ranks.h"
#include "caravan/base/error.h"
#include "caravan/mesh/mesh.h"
#include "caravan/plan/cluster.h"
#include "caravan/plan/cost.h"
#include "caravan/plan/profile.h"
#include "caravan/runtime/compile_notice.h"
#include "caravan/target/target.h"

namespace caravan::app {

namespace {

// The examples of a step on all devices together: what was asked for, or the recipe's batch for each device. If there
// are too few examples for that, as many as there are.
int64_t batch_of_all(const RecipeRow& row, const Schedule& schedule, const Wishes& wishes, int64_t devices) {
  if (wishes.batch) return *wishes.batch;
  if (schedule.points < devices)
    throw ConfigError(fmt::format("{} devices are more than the {} {} of {}.", devices, schedule.points,
                                  row.defaults.words.many, row.name));
  return std::min(schedule.batch, schedule.points / devices) * devices;
}

struct Memory {
  int64_t states = 0, buffers = 0, data = 0;
};
Memory memory_of(const plan::Plan& plan) {
  Memory out{.buffers = plan.memory.bytes};
  for (const ir::Buffer& b : plan.program.buffers) {
    const int64_t size = b.shape.elements() * bytes(b.dtype);
    if (std::holds_alternative<ir::StateLeaf>(b.kind)) out.states += size;
    if (std::holds_alternative<ir::DataLeaf>(b.kind)) out.data += size;
  }
  return out;
}

std::string bytes_text(int64_t bytes) {
  if (bytes >= 10'000'000) return fmt::format("{:.0f} MB", double(bytes) / 1e6);
  if (bytes >= 10'000) return fmt::format("{:.0f} kB", double(bytes) / 1e3);
  return fmt::format("{} bytes", bytes);
}
std::string time_text(double seconds) {
  if (seconds >= 0.1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-4) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

// What one device computes in a step, by kernel of a plan.
struct Computing {
  double measured = 0;  // seconds of a step of one device with a device's share of the batch; 0: was not measured
  double factor = 1;    // by which a kernel takes longer than the rates of the machine allow
  Peaks peaks;

  std::vector<double> seconds(const plan::Plan& plan) const {
    std::vector<double> out;
    for (const loop::Kernel& kernel : plan.scheduled.kernels) {
      const plan::KernelCost cost = plan::cost(plan.scheduled, kernel);
      out.push_back(factor * peaks.seconds(cost.flops, cost.read_bytes + cost.written_bytes));
    }
    return out;
  }
};

}  // namespace

int plan_command(const PlanOptions& options, const Settings& settings) {
  if (this_rank() != 0) return kDone;  // no device of the mesh need be there: one process computes and prints all
  Mesh mesh = parse_mesh(options.mesh);
  if (options.split_states) mesh.optimizer_states = "data";
  check(mesh);
  const int data_axis = mesh.find("data");
  if (data_axis < 0 || mesh.axes[size_t(data_axis)].size != mesh.devices())
    throw ConfigError(fmt::format(
        "recipes place their batches on the axis `data`, and nothing on another; the mesh is {}.", to_string(mesh)));
  const int64_t shares = mesh.axes[size_t(data_axis)].size;
  const RecipeRow& row = find_recipe(options.recipe);
  check_choices(row, options.wishes);
  auto recipe_with = [&](std::optional<int64_t> batch, std::optional<int64_t> whole_batch = {}) {
    Wishes wishes = options.wishes;
    wishes.batch = batch, wishes.whole_batch = whole_batch;
    return row.make({wishes, settings.seed(), settings.data()});
  };
  const Schedule usual = recipe_with(std::nullopt).schedule;
  const int64_t batch = batch_of_all(row, usual, options.wishes, shares);
  if (batch % shares != 0)
    throw ConfigError(fmt::format("--batch {} is not a multiple of the {} devices along `data` (the mesh is {}).",
                                  batch, shares, to_string(mesh)));
  const Recipe whole = recipe_with(batch);

  Context ctx({.seed = settings.seed(),
               .device = "cpu",
               .threads = int(settings.threads()),
               .quick_start = settings.quick_start(),
               .cache = settings.cache(),
               .compiling = notice_on_terminal()});
  // One device with its share of the batch: the kernels of a device of the mesh, but for what is exchanged.
  const Program& one = shares == 1 ? whole.program : recipe_with(batch / shares, batch).program;
  Computing computing;
  {
    Routine step = ctx.compile(one);
    const plan::Profile profile = step.profile({.steps = options.estimate ? 1 : 0, .first = whole.at(0)});
    computing.peaks = profile.peaks;
    double least = 0;
    for (const plan::KernelProfile& kernel : profile.kernels) least += kernel.least_microseconds;
    if (!options.estimate && least > 0) {
      computing.measured = profile.step_microseconds * 1e-6;
      computing.factor = profile.step_microseconds / least;
    }
  }
  const std::shared_ptr<const plan::Plan> plan = ctx.plan(whole.program, host(int(settings.threads())), mesh);
  std::vector<int64_t> devices;
  for (const MeshAxis& axis : mesh.axes) devices.push_back(axis.size);
  const plan::Network network{options.bandwidth * 1e9, options.latency * 1e-6, options.all_reduce == "tree"};
  const plan::ClusterStep step = plan::step_on_cluster(*plan, computing.seconds(*plan), devices, network);
  const Memory memory = memory_of(*plan);
  const double speedup = step.seconds > 0 ? double(shares) * step.computing / step.seconds : 0;

  if (options.json) {
    nlohmann::ordered_json out{{"recipe", options.recipe},
                               {"mesh", to_string(mesh)},
                               {"devices", mesh.devices()},
                               {"batch", batch},
                               {"bandwidth", network.bandwidth},
                               {"latency", network.latency},
                               {"all_reduce", options.all_reduce},
                               {"measured", computing.measured > 0},
                               {"step_seconds", step.seconds},
                               {"computing_seconds", step.computing},
                               {"exchanging_seconds", step.exchanging},
                               {"hidden_share", step.hidden()},
                               {"examples_per_second", double(batch) / step.seconds},
                               {"speedup", speedup},
                               {"sent_bytes", step.sent},
                               {"state_bytes", memory.states},
                               {"buffer_bytes", memory.buffers},
                               {"data_bytes", memory.data}};
    for (const plan::ClusterExchange& e : step.exchanges)
      out["collectives"].push_back({{"kernel", e.kernel},
                                    {"bytes", e.bytes},
                                    {"sent", e.sent},
                                    {"begins_seconds", e.begins},
                                    {"seconds", e.seconds}});
    std::cout << json_line(out);
    return kDone;
  }
  std::cout << fmt::format("{} on {}: batches of {}, {} for each device\n\n", options.recipe, to_string(mesh), batch,
                           batch / shares);
  const Screen screen = output_screen();
  std::cout << screen.fact(
      "a step", fmt::format("{}; {:.4g} examples a second", time_text(step.seconds), double(batch) / step.seconds));
  std::cout << screen.fact("compute", time_text(step.computing));
  if (!step.exchanges.empty())
    std::cout << screen.fact(
        "exchange", fmt::format("{} in {} {}, {:.0f}% of it hidden; a device sends {}", time_text(step.exchanging),
                                step.exchanges.size(), step.exchanges.size() == 1 ? "call" : "calls",
                                100 * step.hidden(), bytes_text(step.sent)));
  std::cout << screen.fact("speed", fmt::format("{:.4g} times that of one device ({:.0f}% of {})", speedup,
                                                100 * speedup / double(shares), shares));
  std::cout << screen.fact(
      "memory", fmt::format("of a device: {} of states, {} of buffers, {} of data", bytes_text(memory.states),
                            bytes_text(memory.buffers), bytes_text(memory.data)));
  const std::string kernels =
      computing.measured > 0
          ? fmt::format(
                "a step of one device with {} examples takes {}, measured here, and each kernel {:.3g} times "
                "what the rates of this machine allow",
                batch / shares, time_text(computing.measured), computing.factor)
          : "kernels take the least time that the rates of this machine allow";
  const char* messages = network.tree ? "a tree, log2(n) messages for each half of an all-reduce"
                                      : "a ring, n - 1 messages for each half of an all-reduce";
  std::cout << "\nAssumptions:\n"
            << screen.fact("kernels", kernels)
            << screen.fact("network", fmt::format("{:.4g} GB/s for each device, {:.4g} us a message; {}",
                                                  options.bandwidth, options.latency, messages))
            << screen.fact("overlap",
                           "collectives run one after the other, beside kernels, which they do not slow down")
            << screen.fact("devices", "all are equal, begin a step together, and have all data");
  return kDone;
}

}  // namespace caravan::app
