// The command line as a call. Only command_line.cpp knows the option parser.
#pragma once

#include <functional>
#include <string>

#include "apps/settings.h"

namespace caravan::app {

struct Call {
  std::string text;  // help or version: to be printed, and nothing else
  std::function<int(const Settings&)> run;
  Settings::CommandLine settings;  // those given on the command line
};
Call parse_command_line(int argc, const char* const* argv);  // throws ConfigError, one sentence

}  // namespace caravan::app
