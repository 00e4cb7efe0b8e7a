// Man pages from the table of commands.
#include <fmt/format.h>

#include <algorithm>

#include "apps/commands.h"
#include "apps/manual.h"

namespace caravan::app {

namespace {

// Text for roff: a backslash, and a dot or a quote at the beginning of a line, would be commands; a hyphen is one of
// ASCII.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += fmt::format("\\&{}", c);
    else
      out += c;
  }
  return out;
}

std::string dashed(std::string path) {
  std::replace(path.begin(), path.end(), ' ', '-');
  return path;
}

void add_options(std::string& out, const std::vector<OptionDoc>& options) {
  std::string group;
  for (const OptionDoc& option : options) {
    if (option.group != group) out += fmt::format(".SS {}\n", roff(option.group));
    group = option.group;
    out += fmt::format(
        ".TP\n\\fB{}\\fR{}\n{}\n", roff(option.other.empty() ? option.name : option.other + ", " + option.name),
        option.type.empty() || option.argument ? "" : fmt::format(" \\fI{}\\fR", roff(option.type)), roff(option.doc));
  }
}

// "Training steps [80]" without the default, where the commands of a page have different ones.
std::string without_default(const std::string& doc) { return doc.substr(0, doc.rfind(" [")); }

// The options that the commands below have, each once.
std::vector<OptionDoc> options_below(const CommandDoc& command) {
  std::vector<OptionDoc> out = command.options;
  for (const CommandDoc& below : command.commands)
    for (const OptionDoc& option : below.options) {
      const auto same = std::find_if(out.begin(), out.end(), [&](const OptionDoc& o) { return o.name == option.name; });
      if (same == out.end())
        out.push_back(option);
      else if (same->doc != option.doc)
        same->doc = without_default(same->doc);
    }
  std::stable_sort(out.begin(), out.end(), [&](const OptionDoc& a, const OptionDoc& b) {
    auto first = [&](const std::string& group) {
      return std::find_if(out.begin(), out.end(), [&](const OptionDoc& o) { return o.group == group; }) - out.begin();
    };
    return first(a.group) < first(b.group);
  });
  return out;
}

}  // namespace

std::string man_page(const CommandDoc& command) {
  std::string out = fmt::format(
      ".TH {} 1 \"\" \"caravan {}\" \"Caravan\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR",
      roff(dashed(command.path)), version(), roff(dashed(command.path)), roff(command.doc), roff(command.path));
  if (!command.commands.empty()) out += command.name == "train" ? " \\fIRECIPE\\fR" : " \\fICOMMAND\\fR";
  for (const OptionDoc& option : command.options)
    if (option.argument) {
      const std::string name = fmt::format("\\fI{}\\fR", roff(option.name));
      out += option.required ? " " + name : " [" + name + "]";
    }
  out += " [\\fIOPTIONS\\fR]\n";
  const bool program = command.path == "caravan";
  if (!command.commands.empty()) {
    out += command.name == "train" ? ".SH RECIPES\n" : ".SH COMMANDS\n";
    for (const CommandDoc& below : command.commands)
      out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(below.name), roff(below.doc));
  }
  out += ".SH OPTIONS\n";
  add_options(out, program ? command.options : options_below(command));
  out += fmt::format(".SH EXAMPLES\n.nf\n{}\n.fi\n", roff(command.examples));
  out +=
      ".SH \"EXIT STATUS\"\n0 done, 1 a check failed, 2 wrong usage or input, 3 the machine failed, 128+N stopped by "
      "signal N and saved.\n";
  return out + (program ? ".SH \"SEE ALSO\"\n\\fBcaravan help\\fR \\fICOMMAND\\fR, \\fBcaravan\\-train\\fR(1)\n"
                        : ".SH \"SEE ALSO\"\n\\fBcaravan\\fR(1)\n");
}

}  // namespace caravan::app
