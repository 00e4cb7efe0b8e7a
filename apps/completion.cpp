// Completions for shells from the table of commands.
#include <fmt/format.h>

#include <algorithm>

#include "apps/manual.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"

namespace caravan::app {

namespace {

bool is_folder(const OptionDoc& option) { return option.type == "DIR" || (option.argument && option.name == "DIR"); }
bool is_file(const OptionDoc& option) { return option.type == "FILE" || (option.argument && option.name == "FILE"); }
bool takes_files(const CommandDoc& command) {  // as its arguments
  return std::any_of(command.options.begin(), command.options.end(),
                     [](const OptionDoc& o) { return o.argument && (is_file(o) || is_folder(o)); });
}

// For bash: one case for each command, and one for each option of it that takes a value. `below` are the commands that
// may stand behind it, `words` what its arguments may be.
void add_bash(std::string& out, const CommandDoc& command) {
  std::string values, below, words, options, files;
  for (const CommandDoc& one : command.commands) add_to_list(below, one.name, " ");
  for (const OptionDoc& option : command.options) {
    const std::string kind = is_folder(option) ? "-d" : is_file(option) ? "-f" : "";
    if (option.argument) {
      for (const std::string& choice : option.choices) add_to_list(words, choice, " ");
      if (!kind.empty()) files = kind;
      continue;
    }
    add_to_list(options, option.name, " ");
    if (!option.type.empty())
      values += fmt::format("        {}) below= options= words='{}' files={} ;;\n", option.name,
                            joined(option.choices, " "), kind);
  }
  out += fmt::format("    '{}')\n      below='{}' words='{}' files={}\n      options='{}'\n", command.path, below,
                     words, files, options);
  if (!values.empty()) out += fmt::format("      case $before in\n{}      esac\n", values);
  out += "      ;;\n";
  for (const CommandDoc& below : command.commands) add_bash(out, below);
}

std::string paths_of(const CommandDoc& command) {
  std::string out;
  for (const CommandDoc& below : command.commands) {
    add_to_list(out, fmt::format("'{}'", below.path), " | ");
    if (const std::string more = paths_of(below); !more.empty()) add_to_list(out, more, " | ");
  }
  return out;
}

std::string bash(const CommandDoc& program) {
  std::string cases;
  add_bash(cases, program);
  return fmt::format(R"sh(# Completion of caravan for bash, written by `caravan completion bash`.
_caravan() {{
  local path=caravan word at below= words= options= files= asked=
  local before=${{COMP_WORDS[COMP_CWORD - 1]}} current=${{COMP_WORDS[COMP_CWORD]}}
  for ((at = 1; at < COMP_CWORD; ++at)); do
    word=${{COMP_WORDS[at]}}
    if ((at == 1)) && [[ $word == help ]]; then asked=1; continue; fi
    case "$path $word" in {}) path="$path $word" ;; esac
  done
  case $path in
{}  esac
  if [[ $asked ]]; then words= options= files=; fi
  words="$below $words"
  if [[ $current == -* || (-z ${{words// }} && -z $files) ]]; then words=$options files=; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $files ]]; then compopt -o filenames; COMPREPLY+=($(compgen "$files" -- "$current")); fi
}}
complete -F _caravan caravan
)sh",
                     paths_of(program), cases);
}

// A text between single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return "'" + out + "'";
}

// What zsh shows beside a word: without brackets and colons, which mean something there.
std::string described(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c == '[' || c == ']' || c == ':')
      out += std::string("\\") + c;
    else
      out += c;
  return out;
}

std::string zsh_values(const OptionDoc& option) {
  const std::string files = is_folder(option) ? "_files -/" : is_file(option) ? "_files" : " ";
  if (option.choices.empty()) return files;
  const std::string choices = fmt::format("({})", joined(option.choices, " "));
  return files == " " ? choices : fmt::format("{{_alternative \"names:name:{}\" \"files:file:{}\"}}", choices, files);
}

void add_zsh(std::string& out, const CommandDoc& command) {
  std::string name = command.path;
  for (char& c : name)
    if (c == ' ' || c == '-') c = '_';
  std::string body = "  _arguments -C \\\n";
  for (const OptionDoc& option : command.options) {
    if (option.argument)
      body += fmt::format("    {} \\\n", quoted(fmt::format("*:{}:{}", option.name, zsh_values(option))));
    else
      body += fmt::format(
          "    {} \\\n",
          quoted(fmt::format("{}[{}]{}", option.name, described(option.doc),
                             option.type.empty() ? "" : fmt::format(":{}:{}", option.type, zsh_values(option)))));
  }
  if (command.commands.empty()) {
    out += fmt::format("_{}() {{\n{}    && return\n}}\n", name, body);
    return;
  }
  std::string cases, choices;
  for (const CommandDoc& below : command.commands) {
    std::string called = below.path;
    for (char& c : called)
      if (c == ' ' || c == '-') c = '_';
    choices += fmt::format("    {}\n", quoted(below.name + ":" + described(below.doc)));
    cases += fmt::format("      {}) _{} ;;\n", below.name, called);
  }
  out += fmt::format(
      "_{}() {{\n  local state line\n{}    '1: :->command' '*:: :->rest' && return\n  case $state in\n    command)\n"
      "    local -a commands=(\n{}    )\n    _describe command commands ;;\n    rest)\n    case $line[1] in\n{}    "
      "esac ;;\n  esac\n}}\n",
      name, body, choices, cases);
  for (const CommandDoc& below : command.commands) add_zsh(out, below);
}

void add_fish(std::string& out, const CommandDoc& command, const std::string& condition) {
  const std::string start = fmt::format("complete -c caravan -n {}", quoted(condition));
  std::string names;
  for (const CommandDoc& below : command.commands) add_to_list(names, below.name, " ");
  // Where one of the commands is there already, the others are not offered.
  const bool top = command.path == "caravan";
  const std::string none =
      top ? condition : fmt::format("{}; and not __fish_seen_subcommand_from {}", condition, names);
  for (const CommandDoc& below : command.commands)
    out += fmt::format("complete -c caravan -n {} -f -a {} -d {}\n", quoted(none), below.name, quoted(below.doc));
  if (command.commands.empty()) out += fmt::format("{} {}\n", start, takes_files(command) ? "-F" : "-f");
  for (const OptionDoc& option : command.options) {
    const std::string values = option.choices.empty() ? "" : fmt::format(" -a {}", quoted(joined(option.choices, " ")));
    if (option.argument && !values.empty()) out += fmt::format("{}{}\n", start, values);
    if (option.argument) continue;
    const bool files = is_file(option) || is_folder(option);
    out += fmt::format("{} -l {}{}{} -d {}\n", start, option.name.substr(2),
                       option.type.empty() ? ""
                       : files             ? " -r -F"
                                           : " -x",
                       values, quoted(option.doc));
  }
  for (const CommandDoc& below : command.commands) {
    const std::string seen = "__fish_seen_subcommand_from " + below.name;
    add_fish(out, below, top ? seen : condition + "; and " + seen);
  }
}

}  // namespace

std::string completion(const CommandDoc& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  std::string out;
  if (shell == "zsh") {
    out = "#compdef caravan\n# Completion of caravan for zsh, written by `caravan completion zsh`.\n";
    add_zsh(out, program);
    return out + "_caravan \"$@\"\n";
  }
  if (shell == "fish") {
    out = "# Completion of caravan for fish, written by `caravan completion fish`.\n";
    add_fish(out, program, "__fish_use_subcommand");
    return out;
  }
  throw ConfigError(fmt::format("there is no completion for `{}`; there is one for bash, zsh and fish.", shell));
}

}  // namespace caravan::app
