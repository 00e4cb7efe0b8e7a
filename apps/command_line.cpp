#include "apps/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/commands.h"
#include "apps/stages.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/runtime/devices.h"

namespace caravan::app {

namespace {

// Everything the options are parsed into.
struct Parsed {
  EinsumOptions einsum;
  GradcheckOptions gradcheck;
  OpsOptions ops;
  InspectOptions inspect;
  ProfileRequest profile;
  TrainOptions train;
  EvalOptions eval;
  ExportOptions export_;
  ParityOptions parity;
  ServeOptions serve;
  DataOptions data;
  CacheOptions cache;
  DoctorOptions doctor;
  Call call;

  void add_setting(CLI::App& app, const std::string& name, const std::string& type, const std::string& doc) {
    auto keep = [this, name](const std::string& value) { call.settings[name] = value; };  // Settings checks it
    app.add_option_function<std::string>("--" + name, keep, doc)->type_name(type);
  }
};

// An empty name is most likely a variable that is not set.
const CLI::Validator kNotEmpty([](std::string& text) { return text.empty() ? "it is empty" : std::string(); }, "");

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& doc, const std::string& examples) {
  CLI::App& out = *app.add_subcommand(name, doc);
  out.footer("Examples:\n" + examples);
  return out;
}

void add_einsum(CLI::App& app, Parsed& parsed) {
  EinsumOptions& o = parsed.einsum;
  CLI::App& command = add_command(app, "einsum", "Shapes, iterators and the loop of a spec",
                                  "  caravan einsum 'ij;jk=>ik' '3,4' '4,5'\n"
                                  "  caravan einsum '... | 2*o=+k, ic; k, ic -> oc => ... | o, oc' '8|32,3' '5,3->16'\n"
                                  "  caravan einsum '2*o<1+k => o' 9 --size k=3 --op max\n"
                                  "  caravan einsum 'a; b => a^b' 3 2 --op concat --json\n"
                                  "  caravan einsum 'j => i' 6 --size i=6 --where 'j <= i'");
  command.add_option("SPEC", o.spec, "One shape per operand, then the result: 'ij;jk=>ik'")->required();
  command.add_option("SHAPE", o.shapes, "The shape of each operand: '2,8|8->4', '' for a scalar")
      ->required()
      ->expected(1, -1);
  command.add_option("--size", o.sizes, "NAME=N binds a name of the spec (may be repeated)")->allow_extra_args(false);
  command.add_option("--where", o.conditions, "A condition on the points that count (may be repeated)")
      ->allow_extra_args(false);
  command.add_option("--op", o.op, "What joins the points: add, max, min or concat")->capture_default_str();
  command.add_flag("--json", o.json, "One line of JSON instead of text");
  command.callback([&] { parsed.call.run = [o](const Settings&) { return einsum_command(o); }; });
}

void add_gradcheck(CLI::App& app, Parsed& parsed) {
  GradcheckOptions& o = parsed.gradcheck;
  CLI::App& command =
      add_command(app, "gradcheck", "Gradients of every op, family of specs, layer and loss against differences",
                  "  caravan gradcheck\n  caravan gradcheck 'op pow' window\n  caravan gradcheck --json");
  command.add_option("FILTER", o.filters, "Only cases whose family or name contains one of these");
  command.add_flag("--json", o.json, "End with one line of JSON");
  command.callback([&] { parsed.call.run = [o](const Settings&) { return gradcheck_command(o); }; });
}

void add_ops(CLI::App& app, Parsed& parsed) {
  OpsOptions& o = parsed.ops;
  CLI::App& command = add_command(app, "ops", "The table of ops and accumulators",
                                  "  caravan ops\n  caravan ops gelu\n  caravan ops --json");
  command.add_option("NAME", o.name, "Everything about one op or accumulator");
  command.add_flag("--json", o.json, "One line of JSON instead of text");
  command.callback([&] { parsed.call.run = [o](const Settings&) { return ops_command(o); }; });
}

std::string listed(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

void add_stage_options(CLI::App& command, std::vector<std::string>& passes_off, std::string& dump, std::string& trace) {
  command.add_option("--pass-off", passes_off, "Leave out a pass (may be repeated): " + listed(plan::pass_names()))
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_option("--dump", dump, "Folder for a file of every stage")->check(kNotEmpty)->type_name("DIR");
  command.add_option("--trace", trace, "File for constraints, passes, kernels and values, as JSON")
      ->check(kNotEmpty)
      ->type_name("FILE");
}

void add_inspect(CLI::App& app, Parsed& parsed) {
  InspectOptions& o = parsed.inspect;
  CLI::App& command = add_command(app, "inspect", "The stages of a recipe's training step",
                                  "  caravan inspect moons --stage shapes\n  caravan inspect linear --stage c\n"
                                  "  caravan inspect moons --stage optimized --pass-off fuse --log 1\n"
                                  "  caravan inspect moons --dump moons --trace moons.json\n"
                                  "  caravan inspect moons --stage graph --dot | dot -Tsvg > moons.svg");
  std::vector<std::string> recipes;
  for (const RecipeRow& row : recipe_rows()) recipes.push_back(row.name);
  command.add_option("RECIPE", o.recipe, listed(recipes))->required();
  command.add_option("--stage", o.stage, listed(stage_names()) + " [graph]");
  command.add_flag("--dot", o.dot, "The graph for Graphviz");
  add_stage_options(command, o.passes_off, o.dump, o.trace);
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return inspect_command(o, s); }; });
}

void add_device_settings(CLI::App& command, Parsed& parsed) {
  parsed.add_setting(command, "device", "NAME",
                     joined(device_names()) + ", or auto: cpu where a C compiler works [auto]");
  parsed.add_setting(command, "threads", "INT", "At most so many run a step; the results are the same [all]");
}

void add_profile(CLI::App& app, Parsed& parsed) {
  ProfileRequest& o = parsed.profile;
  CLI::App& command = add_command(app, "profile", "Where the time of a recipe's training step goes, kernel by kernel",
                                  "  caravan profile moons\n  caravan profile mnist-mlp --batch 128 --threads 1\n"
                                  "  caravan profile mnist-conv --plot profile.svg\n"
                                  "  caravan profile moons --top 0 --json");
  std::vector<std::string> recipes;
  for (const RecipeRow& row : recipe_rows()) recipes.push_back(row.name);
  command.add_option("RECIPE", o.recipe, listed(recipes))->required();
  command.add_option("--batch", o.wishes.batch, "Examples in a step [the recipe's]");
  command.add_option("--steps", o.steps, "Steps that are measured [as many as run in about half a second]")
      ->check(CLI::PositiveNumber);
  command.add_option("--top", o.top, "Kernels that are shown, the slowest first; 0: all [10]");
  command.add_option("--plot", o.plot, "File for a picture (SVG)")->check(kNotEmpty)->type_name("FILE");
  command.add_option("--pass-off", o.passes_off, "Leave out a pass (may be repeated), as in `caravan inspect`")
      ->type_name("NAME")
      ->allow_extra_args(false);
  parsed.add_setting(command, "seed", "INT", "Of the data and the initial values [1]");
  parsed.add_setting(command, "data", "DIR", "Folder of the data set; without it the usual places are looked at");
  add_device_settings(command, parsed);
  command.add_flag("--json", o.json, "One line of JSON instead of text");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return profile_command(o, s); }; });
}

void add_data_setting(CLI::App& command, Parsed& parsed) {
  parsed.add_setting(command, "data", "DIR", "Folder of the data set; without it the usual places are looked at");
}

void add_recipe(CLI::App& train, const RecipeRow& row, Parsed& parsed) {
  TrainOptions& o = parsed.train;
  CLI::App& command = add_command(
      train, row.name, row.doc,
      fmt::format("  caravan train {0}\n  caravan train {0} --epochs 10 --seed 3\n  caravan train {0} --quiet --json\n"
                  "  caravan train {0} --plot pictures --dump stages\n"
                  "  caravan train {0} --save {0}.safetensors\n"
                  "  caravan train {0} --resume {0}.safetensors --save {0}.safetensors",
                  row.name));
  const Defaults& d = row.defaults;
  CLI::Option* epochs = command.add_option(
      "--epochs", o.wishes.epochs,
      fmt::format("Passes over the {} {} [{}]", d.points, row.data.empty() ? "points" : "images", d.epochs));
  command.add_option("--steps", o.wishes.steps, "Training steps, instead of epochs")->excludes(epochs);
  command.add_option("--batch", o.wishes.batch,
                     fmt::format("{} in a step [{}]", row.data.empty() ? "Points" : "Images", d.batch));
  command.add_option("--lr", o.wishes.lr, fmt::format("{} [{}]", row.lr_doc, d.lr));
  command.add_option("--optimizer", o.wishes.optimizer,
                     fmt::format("{} [{}]", fmt::join(optimizer_names(), ", "), d.optimizer));
  if (!row.paper_doc.empty()) command.add_flag("--paper", o.wishes.paper, row.paper_doc);
  if (!row.data.empty()) add_data_setting(command, parsed);
  parsed.add_setting(command, "seed", "INT", "Of the data and the initial values [1]");
  add_device_settings(command, parsed);
  command
      .add_option("--save", o.save,
                  "Checkpoint: written at the end, now and then, and when asked to stop (Ctrl-C, SIGTERM, SIGHUP)")
      ->check(kNotEmpty)
      ->type_name("FILE");
  command.add_option("--save-every", o.save_every, "Seconds between two checkpoints of a run [60]")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  command.add_option("--resume", o.resume, "Go on from a checkpoint, as if it had never stopped")
      ->check(kNotEmpty)
      ->type_name("FILE");
  command.add_option("--until", o.until, "Stop after this step of the run, to go on later")->type_name("STEP");
  command.add_option("--plot", o.plot, "Folder for pictures: loss, learning rate, and what the model does")
      ->check(kNotEmpty)
      ->type_name("DIR");
  add_stage_options(command, o.passes_off, o.dump, o.trace);
  command.add_flag("--check-numbers", o.check_numbers,
                   "Stop at the first NaN or infinity and name the operation that made it (slow)");
  command.add_flag("--debug-kernels", o.debug_kernels, "Compile with debug information and say where the C is");
  command.add_flag("--quiet", o.quiet, "No progress and nothing drawn in the terminal");
  command.add_flag("--json", o.json, "End with one line of JSON");
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
  command.add_flag("--json", o.json, "End with one line of JSON");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return eval_command(o, s); }; });
}

void add_export(CLI::App& app, Parsed& parsed) {
  ExportOptions& o = parsed.export_;
  CLI::App& command =
      add_command(app, "export", "A saved model, or a part of it, as one C99 file that needs no library",
                  "  caravan export mnist-mlp.safetensors --c digits.c\n"
                  "  caravan export mnist-conv.safetensors --c digits.c --header digits.h\n"
                  "  caravan export mnist-conv.safetensors --c digits.c --weights digits.bin\n"
                  "  cc -O3 -std=c99 -DDIGITS_MAIN digits.c -o digits -lm\n"
                  "  caravan export mnist-autoencoder.safetensors --part encoder --safetensors "
                  "encoder.safetensors");
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
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return export_command(o, s); }; });
}

void add_parity(CLI::App& app, Parsed& parsed) {
  ParityOptions& o = parsed.parity;
  CLI::App& command = add_command(app, "parity", "Repeats training runs of PyTorch and compares every tensor",
                                  "  caravan parity lenet.safetensors\n"
                                  "  caravan parity fixtures/*.safetensors --quiet --device interp\n"
                                  "  caravan parity lenet.safetensors --json");
  command.add_option("FILE", o.files, "Fixtures: safetensors files that describe and hold a run")
      ->required()
      ->expected(1, -1);
  add_device_settings(command, parsed);
  command.add_flag("--quiet", o.quiet, "One line for each file instead of a table");
  command.add_flag("--json", o.json, "End with one line of JSON");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return parity_command(o, s); }; });
}

void add_serve(CLI::App& app, Parsed& parsed) {
  ServeOptions& o = parsed.serve;
  CLI::App& command = add_command(app, "serve", "A page to draw digits on and to train small models, on this machine",
                                  "  caravan serve\n  caravan serve --port 0\n  caravan serve digits.safetensors");
  command.add_option("FILE", o.file, "A model of digits that was saved [one that is trained once]");
  command.add_option("--port", o.port, "0: any that is free")->check(CLI::Range(0, 65535))->capture_default_str();
  command.add_option("--host", o.host, "Address to listen on; another than loopback lets other machines in")
      ->type_name("ADDRESS")
      ->capture_default_str();
  parsed.add_setting(command, "data", "DIR", "The only folder to look at for digits [the usual places]");
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
    parsed.add_setting(sub, "data", "DIR", "The only folder to look at [the usual places]");
    sub.callback([&parsed, &o, run] { parsed.call.run = [o, run](const Settings& s) { return run(o, s); }; });
    return sub;
  };
  const std::string name_doc = "Of a data set, as in `caravan data list`";
  CLI::App& list =
      add("list", "Every data set that is known, and where it is", "  caravan data list --json", data_list);
  list.add_flag("--json", o.json, "One line of JSON instead of text");
  CLI::App& where = add("where", "The folder of a data set", "  caravan data where mnist", data_where);
  where.add_option("NAME", o.name, name_doc)->required();
  CLI::App& get = add("get", "Fetches the package of a data set, checks it and installs it for you alone",
                      "  caravan data get mnist\n  caravan data get fashion-mnist --to data", data_get);
  get.add_option("NAME", o.name, name_doc)->required();
  get.add_option("--to", o.to, "Folder to hold the data set's own folder [the user's cache]")->type_name("DIR");
}

void add_cache(CLI::App& app, Parsed& parsed) {
  CacheOptions& o = parsed.cache;
  CLI::App& command = add_command(app, "cache", "Compiled kernels that are kept for later runs: how many, where",
                                  "  caravan cache\n  caravan cache --clear\n  CARAVAN_CACHE_LIMIT=200 caravan cache");
  command.add_flag("--clear", o.clear, "Remove them all; later runs compile again");
  command.add_flag("--json", o.json, "One line of JSON instead of text");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return cache_command(o, s); }; });
}

void add_doctor(CLI::App& app, Parsed& parsed) {
  DoctorOptions& o = parsed.doctor;
  CLI::App& command = add_command(app, "doctor", "What was built, what is there, and every setting with its source",
                                  "  caravan doctor\n  CARAVAN_SEED=7 caravan doctor --json");
  command.add_flag("--json", o.json, "One line of JSON instead of text");
  command.callback([&] { parsed.call.run = [o](const Settings& s) { return doctor_command(o, s); }; });
}

// A spec or a shape may begin with `-` (reversed axes, no input axes). White space means nothing in either, so a space
// in front keeps the parser from taking it for an option.
std::vector<std::string> protected_arguments(int argc, const char* const* argv) {
  std::vector<std::string> out;  // in reverse, as the parser wants them
  for (int i = argc - 1; i >= 1; --i) {
    const std::string argument = argv[i];
    const bool notation =
        argument.starts_with("->") || (argument.starts_with("-") && argument.find("=>") != std::string::npos);
    out.push_back((notation ? " " : "") + argument);
  }
  return out;
}

// One sentence for what the parser refused, naming what there is instead.
std::string sentence(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  std::string path = "caravan";
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front(), path += " " + at->get_name();

  std::string choices;
  for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
    add_to_list(choices, sub->get_name());
  const std::vector<std::string> unknown = app.remaining(true);
  const char* kind = at->get_name() == "train" ? "recipe" : "command";
  if (!unknown.empty() && unknown[0].starts_with("-"))
    return fmt::format("`{}` has no option `{}`; try `{} --help`.", path, unknown[0], path);
  if (!unknown.empty() && !choices.empty())
    return fmt::format("there is no {} `{}`; there are: {}.", kind, unknown[0], choices);
  if (!unknown.empty()) return fmt::format("`{}` does not expect `{}`; try `{} --help`.", path, unknown[0], path);
  if (!choices.empty()) return fmt::format("`{}` needs a {}: {}.", path, kind, choices);
  return fmt::format("`{}`: {}; try `{} --help`.", path, error.what(), path);
}

}  // namespace

Call parse_command_line(int argc, const char* const* argv) {
  Parsed parsed;
  CLI::App app("Tensor notation, differentiated, compiled and shown at every stage.", "caravan");
  app.set_version_flag("--version", "caravan " + version());
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Examples:\n  caravan einsum 'ij;jk=>ik' '3,4' '4,5'\n  caravan train moons\n  caravan inspect moons --stage "
      "assignments\n\n"
      "`caravan COMMAND --help` says more. Exit codes: 0 done, 1 a check failed, 2 wrong usage or input, 3 the machine "
      "failed, 128+N stopped by signal N and saved (130: Ctrl-C, 143: SIGTERM).\n"
      "Settings: the command line, then CARAVAN_{DEVICE,THREADS,CACHE,CACHE_LIMIT,LOG,DATA,SEED}, then caravan.toml "
      "(which has no say in CACHE and CACHE_LIMIT), then the default.");
  parsed.add_setting(app, "log", "INT", "1: print every setting with its source, and the passes with their times");
  add_einsum(app, parsed);
  add_gradcheck(app, parsed);
  add_ops(app, parsed);
  add_inspect(app, parsed);
  add_profile(app, parsed);
  add_train(app, parsed);
  add_eval(app, parsed);
  add_export(app, parsed);
  add_parity(app, parsed);
  add_serve(app, parsed);
  add_data(app, parsed);
  add_cache(app, parsed);
  add_doctor(app, parsed);
  try {
    app.parse(protected_arguments(argc, argv));
  } catch (const CLI::CallForHelp&) {
    return {app.help(), {}, {}};
  } catch (const CLI::CallForVersion&) {
    return {app.version() + "\n", {}, {}};
  } catch (const CLI::ParseError& error) {
    throw ConfigError(sentence(app, error));
  }
  return parsed.call;
}

}  // namespace caravan::app
