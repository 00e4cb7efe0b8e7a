// caravan help, completion, man, summary and new.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "command.h"

namespace {

TEST_F(Command, HelpIsAskedForInThreeWays) {
  const string help = run({"help", "train", "moons"}).out;
  EXPECT_EQ(run({"train", "moons", "--help"}).out, help);
  EXPECT_EQ(run({"train", "moons", "-h"}).out, help);
  for (const char* title : {"\nOptions\n", "\nFiles\n", "\nThe compiler\n", "\nEverywhere\n"})
    EXPECT_CONTAINS(help, title);
  EXPECT_LT(help.find("--epochs"), help.find("--pass-off"));
  EXPECT_EQ(run({"--help"}).out.find("\nSubcommands\n"), string::npos) << "a command is in no group";
  const Outcome alone = run({});
  EXPECT_EQ(alone.code, 0);
  EXPECT_CONTAINS(alone.out, "`caravan help COMMAND`");
  EXPECT_LT(std::count(alone.out.begin(), alone.out.end(), '\n'), 20);
  EXPECT_EQ(run({"-V"}).out, run({"--version"}).out);
}

TEST_F(Command, ShellsCompleteWhatTheTableHas) {
  auto completed = [&](const string& words, int count) {
    const string script = string("source <(\"$0\" completion bash); COMP_WORDS=(") + words +
                          "); COMP_CWORD=" + std::to_string(count) +
                          "; compopt() { :; }; _caravan; echo \"${COMPREPLY[*]}\"";
    return run_program({"/bin/bash", "-c", script, CARAVAN_COMMAND}).out;
  };
  EXPECT_EQ(completed("caravan tr", 1), "train\n");
  EXPECT_EQ(completed("caravan train mo", 2), "moons\n");
  EXPECT_EQ(completed("caravan train moons --ep", 3), "--epochs\n");
  EXPECT_EQ(completed("caravan train moons --optimizer ad", 4), "adam adamw\n");
  EXPECT_EQ(completed("caravan inspect moons --stage con", 4), "constraints\n");
  std::ofstream(folder_ + "/model.safetensors");
  EXPECT_EQ(completed("caravan eval mod", 2), "model.safetensors\n");
  const string files = completed("caravan eval ''", 2);
  EXPECT_CONTAINS(files, "model.safetensors");
  EXPECT_EQ(files.find("--"), string::npos) << files;
  EXPECT_CONTAINS(completed("caravan eval -", 2), "--plot");
  EXPECT_EQ(completed("caravan train moons --save mod", 4), "model.safetensors\n");
  EXPECT_EQ(completed("caravan summary mo", 2), "moons model.safetensors\n");
  EXPECT_EQ(completed("caravan help tr", 2), "train\n");
  EXPECT_EQ(completed("caravan help train mo", 3), "moons\n");
  EXPECT_EQ(completed("caravan data get na", 3), "names\n");
  EXPECT_EQ(completed("caravan gradcheck softp", 2), "softplus\n");
  EXPECT_EQ(completed("caravan bench gpt", 2), "gpt-char-b4 gpt-char-b64 gpt2-124m\n");
  const std::pair<const char*, const char*> others[] = {
      {"zsh", "'--epochs[Passes over the 800 points \\[80\\]]:N: '"},
      {"fish", "-n '__fish_seen_subcommand_from train; and __fish_seen_subcommand_from moons' -l epochs -x"}};
  for (const auto& [shell, phrase] : others) {
    const Outcome script = run({"completion", shell});
    EXPECT_CONTAINS(script.out, phrase);
    const string program = string("/usr/bin/") + shell;
    std::ofstream(folder_ + "/script") << script.out;
    if (exists(program)) {
      EXPECT_EQ(run_program({program, "-n", folder_ + "/script"}).err, "");
    }
  }
  if (!exists("/usr/bin/fish")) return;
  auto in_fish = [&](const string& line) {
    return run_program({"/usr/bin/fish", "-c",
                        "source script; complete -C '" + line + "' | string split -f1 \\t | string join ' '"})
        .out;
  };
  EXPECT_EQ(in_fish("caravan data get fash"), "fashion-mnist\n");
  EXPECT_EQ(in_fish("caravan data get wher"), "") << "get is there already";
  EXPECT_EQ(in_fish("caravan help tra"), "train\n");
  EXPECT_EQ(in_fish("caravan summary mo"), "model.safetensors moons\n");
  EXPECT_EQ(in_fish("caravan eval mo"), "model.safetensors\n");
}

TEST_F(Command, EveryCommandHasAManPage) {
  EXPECT_EQ(run({"man", "pages"}).code, 0);
  for (const char* page : {"caravan", "caravan-train", "caravan-einsum", "caravan-data", "caravan-new"}) {
    const string path = folder_ + "/pages/" + page + ".1";
    EXPECT_TRUE(content(path).starts_with(".TH ")) << page;
    if (!exists("/usr/bin/groff")) continue;
    const Outcome o = run_program({"/usr/bin/groff", "-man", "-Tascii", "-ww", path});
    EXPECT_EQ(o.err, "") << page;
    EXPECT_GT(o.out.size(), 500u);
  }
  EXPECT_CONTAINS(content(folder_ + "/pages/caravan-train.1"), "\\fB\\-\\-optimizer\\fR \\fINAME\\fR");
}

TEST_F(Command, SummaryListsTheLayersOfARecipeOrAFile) {
  const string recipe = run({"summary", "mnist-conv"}).out;
  EXPECT_CONTAINS(recipe, "one example has 784 numbers, 28,28,1");
  EXPECT_CONTAINS(recipe, "conv 2           5,5,64                 18,496\n");
  EXPECT_CONTAINS(recipe, "in all                                 225,034\n");
  ASSERT_EQ(run({"train", "moons", "--steps", "20", "--quiet", "--save", "moons"}).code, 0);
  const string file = run({"summary", "moons"}).out;  // a file that is there comes before a recipe
  EXPECT_CONTAINS(file, "saved    20 steps of 20, loss ");
  EXPECT_CONTAINS(file, "hidden 2         16                        272\n");
  const auto json = nlohmann::json::parse(run({"summary", "moons", "--json"}).out);
  EXPECT_EQ(json.at("parts").at(0).at("layers").at(0).at("parameters"), 48);
}

TEST_F(Command, NewMakesAProject) {
  for (const string recipe :
       {"", "linear", "moons", "circle", "multiply-small", "multiply-large", "mnist-mlp", "mnist-conv"}) {
    const string name = recipe.empty() ? "xor" : "my-" + recipe;
    Arguments arguments = {"new", name};
    if (!recipe.empty()) arguments.insert(arguments.end(), {"--recipe", recipe});
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_CONTAINS(o.out, "next     cd " + name + " && cmake -B build");
    const string source = content(folder_ + "/" + name + "/main.cpp");
    EXPECT_CONTAINS(source, "int main() {");
    EXPECT_EQ(source.find('@'), string::npos) << source;
    EXPECT_CONTAINS(content(folder_ + "/" + name + "/CMakeLists.txt"), "find_package(caravan REQUIRED)");
  }
  EXPECT_TRUE(exists(folder_ + "/my-moons/moons.csv"));
  EXPECT_EQ(content(folder_ + "/xor/main.cpp"), content("examples/xor.cpp")) << "the program of the start page";
  EXPECT_CONTAINS(run({"new", "auto", "--recipe", "mnist-autoencoder"}).err,
                  "there is no project to start from for the recipe mnist-autoencoder; there is one for xor, linear,");
  const Outcome again = run({"new", "xor"});
  EXPECT_EQ(again.code, 2);
  EXPECT_CONTAINS(again.err, "`xor` is there already");
}

TEST_F(Command, HelpHasExamplesEverywhere) {
  for (const Arguments& path : std::vector<Arguments>{{},
                                                      {"einsum"},
                                                      {"gradcheck"},
                                                      {"ops"},
                                                      {"inspect"},
                                                      {"train"},
                                                      {"train", "linear"},
                                                      {"train", "moons"},
                                                      {"train", "multiply-small"},
                                                      {"parity"},
                                                      {"cache"},
                                                      {"doctor"}}) {
    Arguments all = path;
    all.push_back("--help");
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all);
    EXPECT_CONTAINS(o.out, "Example");
    EXPECT_CONTAINS(o.out, "caravan" + joined(path));
  }
  for (const char* option : {"--epochs", "--device", "--plot", "--dump", "--pass-off", "--debug-kernels"})
    EXPECT_CONTAINS(run({"train", "moons", "--help"}).out, option);
}

}  // namespace
