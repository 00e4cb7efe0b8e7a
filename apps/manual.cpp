#include "apps/manual.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/commands.h"
#include "caravan/base/list_text.h"

namespace caravan::app {

namespace {

std::string left_side(const OptionDoc& option) {
  std::string out = option.other.empty() ? option.name : option.other + ", " + option.name;
  return option.type.empty() || option.argument ? out : out + " " + option.type;
}

template <class Item>
std::vector<std::string> groups_of(const std::vector<Item>& items) {  // in the order of their first members
  std::vector<std::string> out;
  for (const Item& item : items)
    if (std::find(out.begin(), out.end(), item.group) == out.end()) out.push_back(item.group);
  return out;
}

struct Line {
  std::string left, right;
};
// A left side of more than `most` columns has its line alone.
std::string lines(const std::vector<Line>& all, int width, size_t most = 22) {
  size_t wide = 0;
  for (const Line& line : all) wide = std::max(wide, std::min(line.left.size(), most));
  const int indent = int(wide) + 4;
  std::string out;
  for (const Line& line : all) {
    const bool alone = line.left.size() > most;
    const std::string right = indented(wrapped(line.right, width - indent), indent);
    out += alone ? fmt::format("  {}\n{:{}}{}\n", line.left, "", indent, right)
                 : fmt::format("  {:<{}}  {}\n", line.left, wide, right);
  }
  return out;
}

std::string usage(const CommandDoc& command) {
  std::string out = command.path;
  if (!command.commands.empty()) out += command.name == "train" ? " RECIPE" : " COMMAND";
  for (const OptionDoc& option : command.options)
    if (option.argument) out += option.required ? " " + option.name : " [" + option.name + "]";
  return out + " [OPTIONS]";
}

}  // namespace

const CommandDoc* CommandDoc::find(const std::string& command) const {
  for (const CommandDoc& one : commands)
    if (one.name == command) return &one;
  return nullptr;
}

std::string help_text(const CommandDoc& command, const Screen& screen) {
  auto title = [&](const std::string& text) { return "\n" + screen.styled(Style::strong, text) + "\n"; };
  std::string out = wrapped(command.doc, screen.width) + "\n" + title("Usage") + "  " + usage(command) + "\n";
  for (const std::string& group : groups_of(command.commands)) {
    std::vector<Line> all;
    for (const CommandDoc& one : command.commands)
      if (one.group == group) all.push_back({one.name, one.doc});
    out += title(group) + lines(all, screen.width);
  }
  for (const std::string& group : groups_of(command.options)) {
    std::vector<Line> all;
    for (const OptionDoc& option : command.options)
      if (option.group == group) all.push_back({left_side(option), option.doc});
    out += title(group) + lines(all, screen.width);
  }
  return out + title("Examples") + command.examples + "\n";
}

std::string short_page(const CommandDoc& program, const Screen& screen) {
  std::string names;
  for (const CommandDoc& command : program.commands) add_to_list(names, command.name);
  return wrapped(fmt::format("caravan {}: {}", version(), program.doc), screen.width) + "\n\n" +
         lines({{"caravan train moons", "trains a small network, and shows it"},
                {"caravan einsum 'ij;jk=>ik' 3,4 4,5", "what a spec does to shapes"},
                {"caravan inspect moons --stage c", "the C that a training step becomes"},
                {"caravan serve", "a page to draw digits on, in your browser"},
                {"caravan new xor", "a project of your own, ready to build"}},
               screen.width, 40) +
         "\n" + wrapped("Commands: " + names, screen.width) + "\n\n" +
         "`caravan help` and `caravan help COMMAND` say more.\n";
}

}  // namespace caravan::app
