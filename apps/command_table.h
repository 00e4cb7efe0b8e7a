// Every command with its options, as the parser of the command line knows them. Only this and command_line.cpp include
// the parser.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "apps/commands.h"

namespace caravan::app {

// Everything the options are parsed into.
struct Parsed {
  EinsumOptions einsum;
  GradcheckOptions gradcheck;
  OpsOptions ops;
  InspectOptions inspect;
  ProfileRequest profile;
  PlanOptions plan;
  BenchOptions bench;
  TuneRequest tune;
  SummaryOptions summary;
  TrainOptions train;
  EvalOptions eval;
  SampleOptions sample;
  ExportOptions export_;
  NewOptions new_;
  ParityOptions parity;
  ServeOptions serve;
  DataOptions data;
  CacheOptions cache;
  DoctorOptions doctor;
  std::vector<std::string> help;  // `caravan help train moons`: train, moons
  std::string shell, man_folder;  // of `completion`, and of `man`
  Call call;
  std::map<const CLI::Option*, std::vector<std::string>> choices;  // what an option may be, where that is known
};

void add_commands(CLI::App& app, Parsed& parsed);

}  // namespace caravan::app
