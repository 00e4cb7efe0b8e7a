// The commands and their options as words: what help, man pages and completions are written from.
#pragma once

#include <string>
#include <vector>

#include "apps/terminal.h"

namespace caravan::app {

struct OptionDoc {
  std::string name;   // "--epochs"; of an argument "RECIPE"
  std::string other;  // "-h"; empty: none
  std::string type;   // what stands behind it, "FILE"; empty: nothing
  std::string doc, group;
  bool argument = false, required = false;
  std::vector<std::string> choices;  // what it may be, where that is known
};

struct CommandDoc {
  std::string path;  // "caravan train moons"
  std::string name, doc, group, examples;
  std::vector<OptionDoc> options;
  std::vector<CommandDoc> commands;

  const CommandDoc* find(const std::string& command) const;
};

std::string help_text(const CommandDoc& command, const Screen& screen);
std::string short_page(const CommandDoc& program, const Screen& screen);  // for someone who typed `caravan` alone

// For man(1), in roff. Of a command whose commands differ little (train), one page has the options of all.
std::string man_page(const CommandDoc& command);

// A script for "bash", "zsh" or "fish".
std::string completion(const CommandDoc& program, const std::string& shell);

}  // namespace caravan::app
