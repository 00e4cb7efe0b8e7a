#include "apps/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/command_table.h"
#include "apps/manual.h"
#include "apps/output_folder.h"
#include "apps/unknown_name.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"

namespace caravan::app {

namespace {

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

std::vector<CLI::App*> commands_of(const CLI::App& app) {
  return const_cast<CLI::App&>(app).get_subcommands([](const CLI::App*) { return true; });
}
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option*) { return true; });
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

OptionDoc doc_of(const CLI::Option& option, const Parsed& parsed) {
  const bool argument = option.get_positional();
  const std::string other = option.get_snames().empty() ? "" : "-" + option.get_snames()[0];
  std::string group = argument ? "Arguments" : option.get_group();
  if (option.get_lnames() == std::vector<std::string>{"help"}) group = "Everywhere";
  const auto choices = parsed.choices.find(&option);
  return {.name = argument ? option.get_name(true) : "--" + option.get_lnames()[0],
          .other = other,
          .type = is_flag(option) ? "" : option.get_type_name(),
          .doc = option.get_description(),
          .group = group,
          .argument = argument,
          .required = option.get_required(),
          .choices = choices == parsed.choices.end() ? std::vector<std::string>() : choices->second};
}

CommandDoc doc_of(const CLI::App& app, const Parsed& parsed, const std::string& path, const OptionDoc* everywhere) {
  CommandDoc out{.path = path,
                 .name = app.get_name(),
                 .doc = app.get_description(),
                 .group = app.get_group(),
                 .examples = app.get_footer(),
                 .options = {},
                 .commands = {}};
  for (const CLI::Option* option : options_of(app)) out.options.push_back(doc_of(*option, parsed));
  if (everywhere) out.options.push_back(*everywhere);
  // Arguments first, and what every command has last.
  auto place = [](const OptionDoc& option) { return option.argument ? 0 : option.group == "Everywhere" ? 2 : 1; };
  std::stable_sort(out.options.begin(), out.options.end(),
                   [&](const OptionDoc& a, const OptionDoc& b) { return place(a) < place(b); });
  for (const CLI::App* below : commands_of(app)) {
    out.commands.push_back(doc_of(*below, parsed, path + " " + below->get_name(), everywhere));
    if (app.get_name() == "train") out.commands.back().group = "Recipes";
  }
  return out;
}

CommandDoc manual_of(const CLI::App& app, const Parsed& parsed) {
  OptionDoc log = doc_of(*app.get_option("--log"), parsed);
  log.group = "Everywhere";
  CommandDoc out = doc_of(app, parsed, "caravan", &log);
  out.options.pop_back();  // its own --log is there already
  return out;
}

// What stands after `caravan help`, or before `--help`.
const CommandDoc& found(const CommandDoc& program, const std::vector<std::string>& path) {
  const CommandDoc* at = &program;
  for (const std::string& name : path) {
    const CommandDoc* below = at->find(name);
    std::vector<std::string> known;
    for (const CommandDoc& one : at->commands) known.push_back(one.name);
    if (!below && known.empty()) throw ConfigError(fmt::format("`{}` has no commands of its own.", at->path));
    if (!below) throw ConfigError(unknown_name(at->name == "train" ? "recipe" : "command", name, known));
    at = below;
  }
  return *at;
}

// One sentence for what the parser refused, naming what there is instead.
std::string sentence(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  std::string path = "caravan";
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front(), path += " " + at->get_name();

  std::vector<std::string> commands, options;
  for (const CLI::App* below : commands_of(*at)) commands.push_back(below->get_name());
  for (const CLI::Option* option : options_of(*at))
    if (!option->get_positional()) options.push_back("--" + option->get_lnames()[0]);
  const std::vector<std::string> unknown = app.remaining(true);
  const char* kind = at->get_name() == "train" ? "recipe" : "command";
  if (!unknown.empty() && unknown[0].starts_with("-")) {
    const std::string meant = nearest(unknown[0], options);
    return fmt::format(
        "`{}` has no option `{}`; {}", path, unknown[0],
        meant.empty() ? fmt::format("try `{} --help`.", path) : fmt::format("did you mean `{}`?", meant));
  }
  if (!unknown.empty() && !commands.empty()) return unknown_name(kind, unknown[0], commands);
  if (!unknown.empty()) return fmt::format("`{}` does not expect `{}`; try `{} --help`.", path, unknown[0], path);
  if (!commands.empty()) return fmt::format("`{}` needs a {}: {}.", path, kind, joined(commands));
  return fmt::format("`{}`: {}; try `{} --help`.", path, error.what(), path);
}

int write_man_pages(const CommandDoc& program, const std::string& folder) {
  const OutputFolder out(folder, "DIR");
  out.write("caravan.1", man_page(program));
  for (const CommandDoc& command : program.commands)
    out.write(fmt::format("caravan-{}.1", command.name), man_page(command));
  return kDone;
}

}  // namespace

Call parse_command_line(int argc, const char* const* argv) {
  Parsed parsed;
  CLI::App app("Trains neural networks that are written in a tensor notation, compiles them, and shows every stage.",
               "caravan");
  app.set_help_flag("-h,--help", "What this command does and which options it has");
  app.set_version_flag("-V,--version", "caravan " + version(), "The version");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "  caravan einsum 'ij;jk=>ik' '3,4' '4,5'\n  caravan train moons\n  caravan inspect moons --stage assignments\n\n"
      "Exit codes: 0 done, 1 a check failed, 2 wrong usage or input, 3 the machine\n"
      "failed, 128+N stopped by signal N and saved (130: Ctrl-C, 143: SIGTERM).\n"
      "Settings: the command line, then CARAVAN_{DEVICE,THREADS,QUICK_START,CACHE,\n"
      "CACHE_LIMIT,LOG,DATA,SEED}, then caravan.toml (which has no say in CACHE and\n"
      "CACHE_LIMIT), then the default.");
  add_commands(app, parsed);
  const CommandDoc manual = manual_of(app, parsed);
  const Screen screen = output_screen();
  if (argc <= 1) return {short_page(manual, screen), {}, {}};
  try {
    app.parse(protected_arguments(argc, argv));
  } catch (const CLI::CallForHelp&) {
    std::vector<std::string> path;
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) path.push_back((at = at->get_subcommands().front())->get_name());
    if (const std::vector<std::string> unknown = app.remaining(true);
        !unknown.empty() && !commands_of(*at).empty() && !unknown[0].starts_with("-"))
      path.push_back(unknown[0]);
    return {help_text(found(manual, path), screen), {}, {}};
  } catch (const CLI::CallForVersion&) {
    return {app.version() + "\n", {}, {}};
  } catch (const CLI::ParseError& error) {
    throw ConfigError(sentence(app, error));
  }
  if (app.got_subcommand("help")) return {help_text(found(manual, parsed.help), screen), {}, {}};
  if (app.got_subcommand("completion")) return {completion(manual, parsed.shell), {}, {}};
  if (app.got_subcommand("man"))
    parsed.call.run = [manual, folder = parsed.man_folder](const Settings&) { return write_man_pages(manual, folder); };
  return parsed.call;
}

}  // namespace caravan::app
