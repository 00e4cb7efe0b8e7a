#include "apps/command_table.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "apps/stages.h"
#include "caravan/base/list_text.h"
#include "caravan/data/places.h"
#include "caravan/ops/op.h"
#include "caravan/runtime/devices.h"
#include "caravan/runtime/mesh_devices.h"

namespace caravan::app {

namespace {

constexpr const char* kSeedDoc = "Another number gives other random data and other first weights [1]";
constexpr const char *kFiles = "Files", *kCompilerOptions = "The compiler";

// An empty name is most likely a variable that is not set.
const CLI::Validator kNotEmpty([](std::string& text) { return text.empty() ? "it is empty" : std::string(); }, "");

// The text as a number, if all of it is one that the type can hold.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number out{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return out;
}
// Numbers are checked here, in words of our own, before the parser converts them.
template <class Number>
CLI::Validator number(const char* kind, bool (*allowed)(Number)) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<Number> given = number_in<Number>(text);
        return given && allowed(*given) ? std::string() : fmt::format("`{}` is not {}", text, kind);
      },
      "");
}
const CLI::Validator kWhole = number<int64_t>("a whole number", [](int64_t) { return true; });
const CLI::Validator kOneOrMore = number<int64_t>("a whole number from 1", [](int64_t n) { return n >= 1; });
const CLI::Validator kCount = number<int64_t>("a whole number from 0", [](int64_t n) { return n >= 0; });
const CLI::Validator kPort =
    number<int64_t>("a whole number from 0 to 65535", [](int64_t n) { return n >= 0 && n <= 65535; });
const CLI::Validator kNumber = number<double>("a number", [](double) { return true; });
const CLI::Validator kPositive = number<double>("a number above 0", [](double n) { return n > 0; });

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& doc, const std::string& examples) {
  CLI::App& out = *app.add_subcommand(name, doc);
  out.footer(examples);
  return out;
}

void add_setting(CLI::App& app, Parsed& parsed, const std::string& name, const std::string& type,
                 const std::string& doc, const std::vector<std::string>& choices = {}) {
  auto keep = [&parsed, name](const std::string& value) { parsed.call.settings[name] = value; };  // Settings checks it
  const CLI::Option* option = app.add_option_function<std::string>("--" + name, keep, doc)->type_name(type);
  if (!choices.empty()) parsed.choices[option] = choices;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> out;
  for (const RecipeRow& row : recipe_rows()) out.push_back(row.name);
  return out;
}

// All values of an option that recipes have.
std::vector<std::string> values_of(std::vector<std::string> RecipeRow::*option) {
  std::vector<std::string> out;
  for (const RecipeRow& row : recipe_rows())
    for (const std::string& value : row.*option)
      if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
  return out;
}

void add_einsum(CLI::App& app, Parsed& parsed) {
  EinsumOptions& o = parsed.einsum;
  CLI::App& command = add_command(app, "einsum", "Shapes, iterators and the loop of a spec",
                                  "  caravan einsum 'ij;jk=>ik' '3,4' '4,5'\n"
                                  "  caravan einsum '...|2*o=+k,ic; k,ic->oc => ...|o,oc' '8|32,3' '5,3->16'\n"
                                  "  caravan einsum '2*o<1+k => o' 9 --size k=3 --op max\n"
                                  "  caravan einsum 'a; b => a^b' 3 2 --op concat --json\n"
                                  "  caravan einsum 'j => i' 6 --size i=6 --where 'j <= i'");
  command.add_option("SPEC", o.spec, "One shape per operand, then the result: 'ij;jk=>ik'")->required();
  command.add_option("SHAPE", o.shapes, "The shape of each operand: '2,8|8->4', '' for a scalar")
      ->required()
      ->expected(1, -1);
  command.add_option("--size", o.sizes, "Binds a name of the spec (may be repeated)")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command.add_option("--where", o.conditions, "A condition on the points that count (may be repeated)")
      ->type_name("CONDITION")
      ->allow_extra_args(false);
  parsed.choices[command.add_option("--op", o.op, "What joins the points: add, max, min or concat [add]")
                     ->type_name("NAME")] = {"add", "max", "min", "concat"};
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings&) { return einsum_command(o); }; });
}

void add_gradcheck(CLI::App& app, Parsed& parsed) {
  GradcheckOptions& o = parsed.gradcheck;
  CLI::App& command =
      add_command(app, "gradcheck", "Gradients of every op, family of specs, layer and loss against differences",
                  "  caravan gradcheck\n  caravan gradcheck 'op pow' window\n  caravan gradcheck --json");
  std::vector<std::string>& names =
      parsed.choices[command.add_option("FILTER", o.filters, "Only cases whose family or name contains one of these")];
  for (const OpRow& row : op_rows()) names.emplace_back(row.name);
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings&) { return gradcheck_command(o); }; });
}

void add_ops(CLI::App& app, Parsed& parsed) {
  OpsOptions& o = parsed.ops;
  CLI::App& command = add_command(app, "ops", "The table of ops and accumulators",
                                  "  caravan ops\n  caravan ops gelu\n  caravan ops --json");
  std::vector<std::string>& names =
      parsed.choices[command.add_option("NAME", o.name, "Everything about one op or accumulator")];
  for (const OpRow& row : op_rows()) names.emplace_back(row.name);
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings&) { return ops_command(o); }; });
}

std::string listed(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

void add_stage_options(CLI::App& command, Parsed& parsed, std::vector<std::string>& passes_off, std::string& dump,
                       std::string& trace) {
  parsed.choices[command
                     .add_option("--pass-off", passes_off,
                                 "Leave out a pass (may be repeated): " + listed(plan::pass_names()))
                     ->type_name("NAME")
                     ->allow_extra_args(false)
                     ->group(kCompilerOptions)] = plan::pass_names();
  command.add_option("--dump", dump, "Folder for a file of every stage, from the graph to C")
      ->check(kNotEmpty)
      ->type_name("DIR")
      ->group(kCompilerOptions);
  command.add_option("--trace", trace, "File for constraints, passes, kernels and values, as JSON")
      ->check(kNotEmpty)
      ->type_name("FILE")
      ->group(kCompilerOptions);
}

void add_memory_limit(CLI::App& command, int64_t& limit) {
  command
      .add_option("--memory-limit", limit,
                  "Most memory for what a step computes, such as 200MB; what does not fit is computed again when it is "
                  "needed, with the same results [no limit]")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
}

// What changes the step of a recipe that is not known yet, with the values that any recipe has.
void add_step_options(CLI::App& command, Parsed& parsed, Wishes& wishes,
                      const std::string& batch_doc = "How many examples a step takes [the recipe's]") {
  auto choice = [&](const char* option, std::optional<std::string>& to, const std::string& doc,
                    std::vector<std::string> names) {
    const CLI::Option* added =
        command.add_option(option, to, doc + listed(names) + " [the recipe's]")->type_name("NAME");
    parsed.choices[added] = std::move(names);
  };
  command.add_option("--batch", wishes.batch, batch_doc)->check(kWhole)->type_name("N");
  choice("--optimizer", wishes.optimizer, "", {optimizer_names().begin(), optimizer_names().end()});
  choice("--size", wishes.size, "Of the model, where a recipe has several: ", values_of(&RecipeRow::sizes));
  choice("--precision", wishes.precision,
         "Of products, where a recipe has several: ", values_of(&RecipeRow::precisions));
}

void add_mesh_options(CLI::App& command, Parsed& parsed, MeshWishes& o, const std::string& devices_doc) {
  command.add_option("--devices", o.devices, devices_doc)->check(kNotEmpty)->type_name("N");
  command
      .add_option("--parts", o.parts,
                  "Add up sums over the batch as so many devices do, so that fewer of them compute the same bits [as "
                  "many as there are]")
      ->check(kOneOrMore)
      ->type_name("N");
  command.add_flag("--split-states", o.split_states,
                   "Each device keeps a part of what the optimiser remembers, and updates that part of the weights");
  const std::vector<std::string> engines = engine_names();
  parsed.choices[command
                     .add_option("--engine", o.engine,
                                 "How devices exchange values: streams (workers of this process), mpi (processes of "
                                 "mpirun), nccl (GPUs) [auto: mpi under mpirun, else streams]")
                     ->check(CLI::IsMember(engines))
                     ->type_name("NAME")] = engines;
}

std::vector<std::string> device_choices() {
  std::vector<std::string> out = device_names();
  out.emplace_back("auto");
  return out;
}

void add_device_settings(CLI::App& command, Parsed& parsed) {
  add_setting(command, parsed, "device", "NAME",
              joined(device_names()) +
                  ", or auto: cuda for large steps where it can be used, "
                  "else cpu where a C compiler works [auto]",
              device_choices());
  add_setting(command, parsed, "threads", "N",
              "How many threads may work on a step; the results do not depend on it [all]");
}

void add_measure(CLI::App& command, bool& measure) {
  command.add_flag("--measure", measure,
                   "With --stage kernels: run the step, and print the share of the time that each kernel takes");
}

void add_inspect(CLI::App& app, Parsed& parsed) {
  InspectOptions& o = parsed.inspect;
  CLI::App& command = add_command(app, "inspect", "The stages of a recipe's training step",
                                  "  caravan inspect moons --stage shapes\n  caravan inspect linear --stage c\n"
                                  "  caravan inspect moons --stage optimized --pass-off fuse --log 1\n"
                                  "  caravan inspect moons --stage kernels --measure\n"
                                  "  caravan inspect moons --dump moons --trace moons.json\n"
                                  "  caravan inspect moons --stage graph --dot | dot -Tsvg > moons.svg");
  parsed.choices[command.add_option("RECIPE", o.recipe, listed(recipe_names()))->required()] = recipe_names();
  parsed.choices[command.add_option("--stage", o.stage, listed(stage_names()) + " [graph]")->type_name("NAME")] =
      stage_names();
  add_step_options(command, parsed, o.wishes);
  add_mesh_options(command, parsed, o.mesh,
                   "The step of one of so many devices; --stage plan shows what they exchange");
  command.add_flag("--dot", o.dot, "The graph for Graphviz, with values and gradients");
  add_measure(command, o.measure);
  command.add_flag("--json", o.json,
                   "Standard output is JSON: the stage as a text, or without --stage what --trace writes");
  add_device_settings(command, parsed);
  add_memory_limit(command, o.memory_limit);
  add_stage_options(command, parsed, o.passes_off, o.dump, o.trace);
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return inspect_command(o, s); }; });
}

void add_data_setting(CLI::App& command, Parsed& parsed) {
  add_setting(command, parsed, "data", "DIR", "Folder of the data set; without it the usual places are looked at");
}

void add_profile(CLI::App& app, Parsed& parsed) {
  ProfileRequest& o = parsed.profile;
  CLI::App& command = add_command(app, "profile", "Where the time of a recipe's training step goes, kernel by kernel",
                                  "  caravan profile moons\n  caravan profile mnist-mlp --batch 128 --threads 1\n"
                                  "  caravan profile mnist-conv --plot profile.svg\n"
                                  "  caravan profile moons --top 0 --json");
  parsed.choices[command.add_option("RECIPE", o.recipe, listed(recipe_names()))->required()] = recipe_names();
  add_step_options(command, parsed, o.wishes);
  add_mesh_options(command, parsed, o.mesh,
                   "One of so many devices that share each batch; how long it waits for the others is shown, too [1]");
  command.add_option("--steps", o.steps, "Steps that are measured [as many as run in about half a second]")
      ->check(kOneOrMore)
      ->type_name("N");
  command.add_option("--top", o.top, "Kernels that are shown, the slowest first; 0: all [10]")
      ->check(kCount)
      ->type_name("N");
  command.add_option("--plot", o.plot, "File for a picture (SVG)")->check(kNotEmpty)->type_name("FILE");
  parsed.choices[command
                     .add_option("--pass-off", o.passes_off,
                                 "Leave out a pass (may be repeated), as in `caravan inspect`")
                     ->type_name("NAME")
                     ->allow_extra_args(false)] = plan::pass_names();
  add_memory_limit(command, o.memory_limit);
  add_setting(command, parsed, "seed", "N", kSeedDoc);
  add_data_setting(command, parsed);
  add_device_settings(command, parsed);
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return profile_command(o, s); }; });
}

void add_plan(CLI::App& app, Parsed& parsed) {
  PlanOptions& o = parsed.plan;
  CLI::App& command =
      add_command(app, "plan", "What a training step would take on many devices: time, memory and exchange",
                  "  caravan plan mnist-conv --mesh data=8\n"
                  "  caravan plan names-transformer --mesh data=1024 --bandwidth 25 --latency 5\n"
                  "  caravan plan names-transformer --mesh data=64 --split-states --all-reduce tree --json");
  parsed.choices[command.add_option("RECIPE", o.recipe, listed(recipe_names()))->required()] = recipe_names();
  command.add_option("--mesh", o.mesh, "The devices, which need not be there: data=1024")
      ->required()
      ->check(kNotEmpty)
      ->type_name("MESH");
  add_step_options(command, parsed, o.wishes,
                   "How many examples all devices take together in a step [the recipe's for each device]");
  command.add_option("--bandwidth", o.bandwidth, "Of each device's network, in each direction [10]")
      ->check(kPositive)
      ->type_name("GB/S");
  command.add_option("--latency", o.latency, "Of a message, in microseconds [10]")->check(kPositive)->type_name("US");
  parsed.choices[command
                     .add_option("--all-reduce", o.all_reduce,
                                 "How values are exchanged: ring, or tree, whose messages are fewer [ring]")
                     ->check(CLI::IsMember({"ring", "tree"}))
                     ->type_name("NAME")] = {"ring", "tree"};
  command.add_flag("--split-states", o.split_states,
                   "Each device keeps a part of what the optimiser remembers, and updates that part of the weights");
  command.add_flag("--estimate", o.estimate,
                   "Do not measure the step of one device; take the least time that this machine's rates allow");
  add_setting(command, parsed, "seed", "N", kSeedDoc);
  add_data_setting(command, parsed);
  add_setting(command, parsed, "threads", "N", "How many threads a device has [all]");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return plan_command(o, s); }; });
}

void add_bench(CLI::App& app, Parsed& parsed) {
  BenchOptions& o = parsed.bench;
  CLI::App& command = add_command(app, "bench", "How fast training steps and products of matrices are on this machine",
                                  "  caravan bench moons mnist-mlp --threads 1\n  caravan bench names --seconds 0.2\n"
                                  "  caravan bench gemm --json\n  caravan bench lenet --profile\n"
                                  "  caravan bench lenet --write records");
  parsed.choices[command.add_option(
      "NAME", o.names,
      "Only these; `names` stands for all that begin with `names-`: " + listed(bench_names()) +
          ". Products may have other sizes: gemm-ROWSxTERMSxCOLUMNS, then nothing, -nt or -tn for an operand that is "
          "transposed")] = bench_names();
  command
      .add_option("--compiler-flag", o.flags,
                  "One more flag for the C compiler, as in --compiler-flag=-mno-avx512f; may be repeated")
      ->allow_extra_args(false)
      ->type_name("FLAG");
  command.add_option("--seconds", o.seconds, "How long the steps of each are measured [1]")
      ->check(kPositive)
      ->type_name("SECONDS");
  command.add_flag("--warm", o.warm, "Keep compiled code in the cache; a cold compilation is then measured only once");
  CLI::Option* write =
      command
          .add_option("--write", o.write,
                      "Measure nothing; write the initial values, the data and the losses of 50 steps, a file each")
          ->check(kNotEmpty)
          ->type_name("DIR");
  command
      .add_flag("--profile", o.profile, "Where the time of a step goes instead, kernel by kernel, as `caravan profile`")
      ->excludes(write);
  command.add_flag("--list", o.list, "Measure nothing; print the names, and what each of them is");
  parsed.choices[command
                     .add_option("--stage", o.stage,
                                 "Measure nothing; print a stage of the step on its way to code, for the device, which "
                                 "need not be there: " +
                                     listed(plan_stage_names()))
                     ->type_name("NAME")
                     ->excludes(write)] = plan_stage_names();
  add_measure(command, o.measure);
  add_setting(command, parsed, "device", "NAME", joined(device_names()) + " [cpu]", device_choices());
  command.add_flag("--tf32", o.tf32, "On a GPU, products may round their factors to 10 bits of fraction");
  add_setting(command, parsed, "threads", "N", "How many threads may work on a step [all]");
  add_memory_limit(command, o.memory_limit);
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return bench_command(o, s); }; });
}

void add_tune(CLI::App& app, Parsed& parsed) {
  TuneRequest& o = parsed.tune;
  CLI::App& command =
      add_command(app, "tune", "Measures how loops are best cut on this machine, and writes a tuning file",
                  "  caravan tune\n  caravan tune mnist-mlp lenet --threads 2\n"
                  "  caravan tune gemm-512x512x512 --number block_rows --number vector_bytes --output tuning");
  parsed.choices[command.add_option("WORKLOAD", o.names,
                                    "What should become faster, as `caravan bench --list` names it [two products and "
                                    "three training steps]")] = bench_names();
  parsed.choices[command
                     .add_option("--number", o.numbers,
                                 "Only change this number (may be repeated): " + listed(tuning_names()) + " [all]")
                     ->type_name("NAME")
                     ->allow_extra_args(false)] = tuning_names();
  command
      .add_option("--output", o.output,
                  "The tuning file to write [caravan/tuning in your configuration folder, where it is found]")
      ->check(kNotEmpty)
      ->type_name("FILE");
  command.add_option("--seconds", o.seconds, "How long each change is measured on each workload [0.3]")
      ->check(kPositive)
      ->type_name("SECONDS");
  add_setting(command, parsed, "threads", "N", "How many threads may work on a step [all]");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return tune_command(o, s); }; });
}

void add_recipe(CLI::App& train, const RecipeRow& row, Parsed& parsed) {
  TrainOptions& o = parsed.train;
  CLI::App& command = add_command(train, row.name, row.doc,
                                  fmt::format("  caravan train {0}\n  caravan train {0} --epochs 10 --seed 3\n  "
                                              "caravan train {0} --json | python3 -m json.tool\n"
                                              "  caravan train {0} --plot pictures --dump stages\n"
                                              "  caravan train {0} --save {0}.safetensors\n"
                                              "  caravan train {0} --resume FILE --save FILE",
                                              row.name));
  const Defaults& d = row.defaults;
  CLI::Option* epochs = command
                            .add_option("--epochs", o.wishes.epochs,
                                        fmt::format("Passes over the {} {} [{}]", d.points, d.words.many, d.epochs))
                            ->check(kWhole)
                            ->type_name("N");
  command.add_option("--steps", o.wishes.steps, "Training steps, instead of epochs")
      ->excludes(epochs)
      ->check(kWhole)
      ->type_name("N");
  command
      .add_option("--batch", o.wishes.batch,
                  fmt::format("How many {} a step takes [{}]{}", d.words.many, d.batch, row.batch_doc))
      ->check(kWhole)
      ->type_name("N");
  command.add_option("--lr", o.wishes.lr, fmt::format("{} [{}]", row.lr_doc, d.lr))
      ->check(kNumber)
      ->type_name("NUMBER");
  parsed.choices[command
                     .add_option("--optimizer", o.wishes.optimizer,
                                 fmt::format("{} [{}]", fmt::join(optimizer_names(), ", "), d.optimizer))
                     ->type_name("NAME")] = {optimizer_names().begin(), optimizer_names().end()};
  if (!row.paper_doc.empty()) command.add_flag("--paper", o.wishes.paper, row.paper_doc);
  if (!row.l2_doc.empty()) command.add_option("--l2", o.wishes.l2, row.l2_doc)->type_name("NUMBER");
  if (!row.sizes.empty())
    parsed.choices[command
                       .add_option("--size", o.wishes.size,
                                   fmt::format("Of the model: {} [{}]", listed(row.sizes), row.sizes[0]))
                       ->type_name("NAME")] = row.sizes;
  if (!row.precisions.empty())
    parsed.choices[command
                       .add_option("--precision", o.wishes.precision,
                                   fmt::format("Of products in training: {} [{}]; the weights are f32",
                                               listed(row.precisions), row.precisions[0]))
                       ->type_name("NAME")] = row.precisions;
  if (!row.data.empty()) add_data_setting(command, parsed);
  add_setting(command, parsed, "seed", "N", kSeedDoc);
  add_device_settings(command, parsed);
  add_mesh_options(command, parsed, o.mesh,
                   "Several devices share each batch: their number, or a list such as cpu:0,cpu:1; also the processes "
                   "of `mpirun -n N caravan train ...` [1]");
  add_memory_limit(command, o.memory_limit);
  command.add_flag("--quiet", o.quiet, "No progress and nothing drawn in the terminal");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  auto file = [&](const char* name, std::string& to, const char* type, const char* doc) {
    command.add_option(name, to, doc)->check(kNotEmpty)->type_name(type)->group(kFiles);
  };
  file("--plot", o.plot, "DIR", "Folder for pictures: loss, accuracy, learning rate, and what the model does");
  file("--save", o.save, "FILE",
       "Checkpoint: written at the end, every minute, and when asked to stop (Ctrl-C, SIGTERM, SIGHUP)");
  command.add_option("--save-every", o.save_every, "Seconds between two checkpoints of a run [60]")
      ->check(kPositive)
      ->type_name("SECONDS")
      ->group(kFiles);
  file("--resume", o.resume, "FILE", "Go on from a checkpoint, as if the run had never stopped");
  command.add_option("--until", o.until, "Stop after this step of the run, to go on later")
      ->check(kWhole)
      ->type_name("STEP")
      ->group(kFiles);
  command
      .add_flag("--check-numbers", o.check_numbers,
                "Stop at the first NaN or infinity and name the operation that made it (slow)")
      ->group(kCompilerOptions);
  command.add_flag("--debug-kernels", o.debug_kernels, "Compile with debug information and say where the C is")
      ->group(kCompilerOptions);
  add_stage_options(command, parsed, o.passes_off, o.dump, o.trace);
  command.callback([&] {
    o.recipe = row.name;
    parsed.call.run = [o](const Settings& s) { return train_command(o, s); };
  });
}

void add_train(CLI::App& app, Parsed& parsed) {
  CLI::App& command =
      add_command(app, "train", "Trains a recipe and shows how it goes",
                  "  caravan train linear\n  caravan train moons --seed 3\n  caravan train moons --help");
  command.require_subcommand(1);
  for (const RecipeRow& row : recipe_rows()) add_recipe(command, row, parsed);
}

void add_eval(CLI::App& app, Parsed& parsed) {
  EvalOptions& o = parsed.eval;
  CLI::App& command = add_command(app, "eval", "What a saved model can do",
                                  "  caravan eval mnist-mlp.safetensors\n"
                                  "  caravan eval mnist-mlp.safetensors --data fashion --quiet --json\n"
                                  "  caravan eval circle.safetensors --plot pictures");
  command.add_option("FILE", o.file, "A checkpoint that `caravan train --save` wrote")->check(kNotEmpty)->required();
  add_data_setting(command, parsed);
  add_device_settings(command, parsed);
  command.add_option("--plot", o.plot, "Folder for pictures of what the model does")
      ->check(kNotEmpty)
      ->type_name("DIR");
  command.add_flag("--quiet", o.quiet, "No text");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return eval_command(o, s); }; });
}

void add_sample(CLI::App& app, Parsed& parsed) {
  SampleOptions& o = parsed.sample;
  CLI::App& command = add_command(app, "sample", "Writes text with a saved language model",
                                  "  caravan sample names-mlp.safetensors\n"
                                  "  caravan sample names-mlp.safetensors --prompt em --count 5 --seed 3\n"
                                  "  caravan sample shakespeare-gpt.safetensors --prompt ROMEO: --temperature 0.8\n"
                                  "  caravan sample --llama stories260K.bin --prompt 'Once upon a time'\n"
                                  "  caravan sample --gpt2 gpt2/ --prompt 'The camel' --top-k 40");
  command.add_option("FILE", o.file, "A checkpoint of a language model that `caravan train --save` wrote")
      ->check(kNotEmpty);
  command.add_option("--llama", o.llama, "A model in a file of llama2.c, instead of FILE")->type_name("FILE");
  command.add_option("--tokenizer", o.tokenizer, "The vocabulary of --llama [the one beside it]")->type_name("FILE");
  command
      .add_option("--gpt2", o.gpt2,
                  "A GPT-2, instead of FILE: a folder with config.json, model.safetensors and its vocabulary")
      ->type_name("DIR");
  command.add_option("--prompt", o.prompt, "What the text begins with")->type_name("TEXT");
  command
      .add_option("--temperature", o.temperature,
                  "Below 1, likely tokens become likelier; 0 takes the likeliest always [1]")
      ->type_name("NUMBER");
  command.add_option("--top-k", o.top_k, "Only the N likeliest tokens; 0: all [0]")->type_name("N");
  command.add_option("--top-p", o.top_p, "Only the likeliest tokens that together have this probability [1]")
      ->type_name("NUMBER");
  command
      .add_option("--repetition-penalty", o.repetition_penalty,
                  "Above 1, tokens that are in the text already become less likely [1]")
      ->type_name("NUMBER");
  command.add_option("--tokens", o.tokens, "At most N tokens after the prompt [500, or to the end of a name]")
      ->type_name("N");
  command.add_option("--count", o.count, "How many texts [1, or 20 names]")->type_name("N");
  add_setting(command, parsed, "seed", "N", "The same seed writes the same text [1]");
  add_device_settings(command, parsed);
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return sample_command(o, s); }; });
}

void add_export(CLI::App& app, Parsed& parsed) {
  ExportOptions& o = parsed.export_;
  CLI::App& command =
      add_command(app, "export", "A saved model, or a part of it, as one C99 file that needs no library",
                  "  caravan export mnist-mlp.safetensors --c digits.c\n"
                  "  caravan export mnist-conv.safetensors --c digits.c --header digits.h\n"
                  "  caravan export mnist-conv.safetensors --c digits.c --weights digits.bin\n"
                  "  cc -O3 -std=c99 -DDIGITS_MAIN digits.c -o digits -lm\n"
                  "  caravan export names-mlp.safetensors --c names.c\n"
                  "  caravan export ae.safetensors --part encoder --safetensors encoder.safetensors");
  command.add_option("FILE", o.file, "A checkpoint that `caravan train --save` wrote")->check(kNotEmpty)->required();
  command.add_option("--c", o.c, "The C file")->check(kNotEmpty)->type_name("FILE");
  command.add_option("--header", o.header, "A header for those who call it")->check(kNotEmpty)->type_name("FILE");
  command.add_option("--weights", o.weights, "The weights in a file of their own, which the C reads")
      ->check(kNotEmpty)
      ->type_name("FILE");
  command.add_option("--safetensors", o.tensors, "The weights alone, by name")->check(kNotEmpty)->type_name("FILE");
  command
      .add_option("--part", o.part,
                  "A part of the model: of mnist-autoencoder classifier, encoder, decoder or autoencoder [the first]")
      ->type_name("NAME");
  command.add_option("--name", o.name, "Starts every name of the C file [the file's]")->type_name("NAME");
  command.add_flag("--quiet", o.quiet, "No text");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return export_command(o, s); }; });
}

void add_parity(CLI::App& app, Parsed& parsed) {
  ParityOptions& o = parsed.parity;
  CLI::App& command = add_command(app, "parity", "Repeats training runs of PyTorch and compares every tensor",
                                  "  caravan parity lenet.safetensors\n"
                                  "  caravan parity fixtures/*.safetensors --quiet --device interp\n"
                                  "  caravan parity lenet.safetensors --json");
  command.add_option("FILE", o.files, "Runs of PyTorch: safetensors files with the model, the data and the losses")
      ->required()
      ->expected(1, -1);
  add_device_settings(command, parsed);
  command.add_flag("--quiet", o.quiet, "One line for each file instead of a table");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return parity_command(o, s); }; });
}

void add_serve(CLI::App& app, Parsed& parsed) {
  ServeOptions& o = parsed.serve;
  CLI::App& command = add_command(app, "serve", "A page to draw digits on and to train small models, on this machine",
                                  "  caravan serve\n  caravan serve --port 0\n  caravan serve digits.safetensors");
  command.add_option("FILE", o.file, "A model of digits that was saved [one that is trained once]");
  command.add_option("--port", o.port, "0 takes any that is free [8080]")->check(kPort)->type_name("PORT");
  command
      .add_option("--host", o.host, "Address to listen on; another than loopback lets other machines in [127.0.0.1]")
      ->type_name("ADDRESS");
  add_setting(command, parsed, "data", "DIR", "The only folder to look at for digits [the usual places]");
  add_device_settings(command, parsed);
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return serve_command(o, s); }; });
}

void add_data(CLI::App& app, Parsed& parsed) {
  DataOptions& o = parsed.data;
  CLI::App& command = add_command(app, "data", "Data sets: what is there, where, and how to get it",
                                  "  caravan data list\n  caravan data where mnist\n  caravan data get mnist");
  command.require_subcommand(1);
  auto add = [&](const std::string& name, const std::string& doc, const std::string& examples,
                 int (*run)(const DataOptions&, const Settings&)) -> CLI::App& {
    CLI::App& sub = add_command(command, name, doc, examples);
    add_setting(sub, parsed, "data", "DIR", "The only folder to look at [the usual places]");
    sub.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
    sub.callback([&parsed, &o, run] { parsed.call.run = [o, run](const Settings& s) { return run(o, s); }; });
    return sub;
  };
  const std::string name_doc = "Of a data set, as in `caravan data list`";
  std::vector<std::string> names;
  for (const data::Dataset& set : data::datasets()) names.emplace_back(set.name);
  add("list", "Every data set that is known, and where it is", "  caravan data list --json", data_list);
  CLI::App& where = add("where", "The folder of a data set", "  caravan data where mnist", data_where);
  parsed.choices[where.add_option("NAME", o.name, name_doc)->required()] = names;
  CLI::App& get = add("get", "Fetches the package of a data set, checks it, and puts it where the recipes look",
                      "  caravan data get mnist\n  caravan data get fashion-mnist --to data", data_get);
  parsed.choices[get.add_option("NAME", o.name, name_doc)->required()] = names;
  get.add_option("--to", o.to,
                 "Folder that gets the data set's own folder [that of --data or CARAVAN_DATA, otherwise your cache]")
      ->type_name("DIR");
}

void add_cache(CLI::App& app, Parsed& parsed) {
  CacheOptions& o = parsed.cache;
  CLI::App& command = add_command(app, "cache", "Compiled kernels that are kept for later runs: how many, where",
                                  "  caravan cache\n  caravan cache --clear\n  CARAVAN_CACHE_LIMIT=200 caravan cache");
  command.add_flag("--clear", o.clear, "Remove them all; later runs compile again");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return cache_command(o, s); }; });
}

void add_doctor(CLI::App& app, Parsed& parsed) {
  DoctorOptions& o = parsed.doctor;
  CLI::App& command = add_command(app, "doctor", "What was built, what is there, and every setting with its source",
                                  "  caravan doctor\n  CARAVAN_SEED=7 caravan doctor --json");
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return doctor_command(o, s); }; });
}

void add_summary(CLI::App& app, Parsed& parsed) {
  SummaryOptions& o = parsed.summary;
  CLI::App& command = add_command(app, "summary", "The layers of a model: what each gives, and its parameters",
                                  "  caravan summary mnist-conv\n  caravan summary digits.safetensors\n"
                                  "  caravan summary mnist-autoencoder --json");
  parsed.choices[command.add_option("WHAT", o.what, "A recipe, or a checkpoint that `caravan train --save` wrote")
                     ->type_name("FILE")
                     ->check(kNotEmpty)
                     ->required()] = recipe_names();
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return summary_command(o, s); }; });
}

void add_new(CLI::App& app, Parsed& parsed) {
  NewOptions& o = parsed.new_;
  CLI::App& command = add_command(app, "new", "A project of your own that uses the library, ready to build",
                                  "  caravan new xor\n  cd xor && cmake -B build && cmake --build build && build/xor\n"
                                  "  caravan new two-moons --recipe moons");
  command.add_option("NAME", o.name, "Of the folder to make, of the project and of the program")->required();
  parsed.choices[command.add_option("--recipe", o.recipe, listed(project_names()) + " [xor]")->type_name("NAME")] =
      project_names();
  command.add_flag("--json", o.json, "Standard output is one line of JSON and nothing else");
  command.callback([&] { parsed.call.run = [o](const Settings&) { return new_command(o); }; });
}

void add_help(CLI::App& app, Parsed& parsed) {
  CLI::App& help = add_command(app, "help", "What a command does and which options it has",
                               "  caravan help\n  caravan help inspect\n  caravan help train moons");
  std::vector<std::string>& commands =
      parsed.choices[help.add_option("COMMAND", parsed.help, "A command, and one of its commands or recipes")];
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    if (command->get_name() != "help") commands.push_back(command->get_name());
  CLI::App& completion = add_command(
      app, "completion", "Completion of commands and options for a shell, as a script",
      "  source <(caravan completion bash)\n  caravan completion fish > ~/.config/fish/completions/caravan.fish\n"
      "  caravan completion zsh > ~/.zsh/_caravan   # a folder of $fpath");
  parsed.choices[completion.add_option("SHELL", parsed.shell, "bash, zsh or fish")->required()] = {"bash", "zsh",
                                                                                                   "fish"};
  CLI::App& man = add_command(app, "man", "Writes the man pages of all commands",
                              "  caravan man pages\n  man -l pages/caravan-train.1");
  man.add_option("DIR", parsed.man_folder, "Folder for them")->check(kNotEmpty)->required();
}

}  // namespace

void add_commands(CLI::App& app, Parsed& parsed) {
  add_setting(
      app, parsed, "log", "N",
      "1: every setting with its source, and the passes with their times; 2: also step, rate and loss while training");
  add_train(app, parsed);
  add_eval(app, parsed);
  add_sample(app, parsed);
  add_summary(app, parsed);
  add_inspect(app, parsed);
  add_profile(app, parsed);
  add_plan(app, parsed);
  add_bench(app, parsed);
  add_tune(app, parsed);
  add_einsum(app, parsed);
  add_ops(app, parsed);
  add_gradcheck(app, parsed);
  add_parity(app, parsed);
  add_serve(app, parsed);
  add_export(app, parsed);
  add_new(app, parsed);
  add_data(app, parsed);
  add_cache(app, parsed);
  add_doctor(app, parsed);
  add_help(app, parsed);
  const std::pair<const char*, std::vector<const char*>> groups[] = {
      {"Train and look", {"train", "eval", "summary", "inspect", "profile", "plan"}},
      {"The notation", {"einsum", "ops", "gradcheck", "parity"}},
      {"Use a model", {"sample", "serve", "export", "new"}},
      {"This machine", {"bench", "tune", "data", "cache", "doctor"}},
      {"Help", {"help", "completion", "man"}}};
  for (const auto& [group, names] : groups)
    for (const char* name : names) app.get_subcommand(name)->group(group);
}

}  // namespace caravan::app
