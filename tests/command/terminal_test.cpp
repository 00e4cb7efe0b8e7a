// What is shown to whom: at 80 columns and wider, in a pipe, on a terminal that can do little, in a locale without
// UTF-8; and --json, which is JSON and nothing else.
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <pty.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "caravan/plot/words.h"
#include "command.h"

namespace {

class Terminal : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    ASSERT_EQ(run({"train", "circle", "--steps", "50", "--quiet", "--save", "model"}).code, 0);
  }

  // All that a terminal of so many columns is sent.
  string shown(Arguments arguments, unsigned short columns, const Arguments& more = {}) const {
    arguments.insert(arguments.begin(), CARAVAN_COMMAND);
    Arguments environment = more;
    const char* path = getenv("PATH");
    environment.insert(environment.end(), {"HOME=" + folder_, "CARAVAN_CACHE=" + cache_, "TERM=xterm", "LANG=C.UTF-8",
                                           string("PATH=") + (path ? path : "/usr/bin:/bin")});
    winsize size{50, columns, 0, 0};
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      std::vector<char*> argv, env;
      for (string& a : arguments) argv.push_back(a.data());
      for (string& e : environment) env.push_back(e.data());
      argv.push_back(nullptr), env.push_back(nullptr);
      if (chdir(folder_.c_str()) == 0) execve(argv[0], argv.data(), env.data());
      _exit(127);
    }
    string out;
    char buffer[4096];
    for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;) out.append(buffer, size_t(n));
    close(terminal);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << joined(arguments) << out;
    return out;
  }

  static void expect_narrow(const string& text, int64_t columns) {
    const std::regex escapes("\x1b\\[[0-9;]*[A-Za-z]");
    std::istringstream lines(std::regex_replace(text, escapes, ""));
    for (string line; std::getline(lines, line);) {
      std::istringstream drawings(line);  // a line that is drawn again begins with a carriage return
      for (string drawn; std::getline(drawings, drawn, '\r');)
        EXPECT_TRUE(drawn.starts_with("caravan: ") ||
                    caravan::plot::columns(drawn) <= columns)  // a message may be long
            << drawn;
    }
  }

  // Everything that draws or makes a table; the stages of `inspect` are code, and as long as code is.
  const std::vector<Arguments> kCommands = {{"train", "moons", "--epochs", "4"},
                                            {"train", "linear"},
                                            {"train", "circle", "--steps", "300"},
                                            {"train", "multiply-small", "--steps", "100"},
                                            {"train", "mnist-mlp", "--steps", "30", "--seed", "2"},
                                            {"eval", "model"},
                                            {"summary", "model"},
                                            {"summary", "mnist-autoencoder"},
                                            {},
                                            {"help"},
                                            {"help", "train", "mnist-conv"},
                                            {"help", "einsum"},
                                            {"ops"},
                                            {"ops", "where"},
                                            {"gradcheck", "op add"},
                                            {"data", "list"}};
};

TEST_F(Terminal, LinesAreAsLongAsItIsWide) {
  for (const Arguments& command : kCommands)
    for (const unsigned short columns : {80, 120}) {
      SCOPED_TRACE(joined(command));
      expect_narrow(shown(command, columns), columns);
    }
  expect_narrow(run({"train", "moons", "--epochs", "4"}, {"LANG=C.UTF-8"}).out, 80);
  auto dots = [&](unsigned short columns) {
    const string text = shown({"train", "moons", "--epochs", "4"}, columns);
    return std::count(text.begin(), text.end(), '.');
  };
  EXPECT_GT(dots(120), dots(80) * 3 / 2) << "a wider terminal has a larger drawing";
  // A command is never broken, so that it can be copied.
  EXPECT_CONTAINS(shown({"train", "moons", "--epochs", "4"}, 40), "--save model.safetensors --plot plots\r\n");
}

TEST_F(Terminal, ColoursAreLeftOutWhereTheyAreNotWanted) {
  const Arguments train = {"train", "moons", "--epochs", "40"};
  const string colours = "\x1b[";
  EXPECT_CONTAINS(shown(train, 80), "\x1b[34m");
  EXPECT_EQ(run(train).out.find(colours), string::npos) << "in a pipe";
  const string plain = shown(train, 80, {"NO_COLOR=1"});
  EXPECT_FALSE(std::regex_search(plain, std::regex("\x1b\\[[0-9;]*m")));
  for (const Arguments& command : kCommands) {
    const string dumb = shown(command, 80, {"TERM=dumb"});
    EXPECT_EQ(dumb.find('\x1b'), string::npos) << joined(command);
    EXPECT_FALSE(std::regex_search(dumb, std::regex("\r[^\n]"))) << joined(command);
  }
}

TEST_F(Terminal, ALocaleWithoutUtf8HasAscii) {
  for (const Arguments& command : kCommands)
    for (const char* set : {"LC_ALL=C", "LANG="}) {
      const Outcome o = run(command, {set});
      for (const string& text : {o.out, o.err})
        EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
            << joined(command) << text;
    }
  EXPECT_CONTAINS(run({"train", "moons", "--epochs", "4"}, {"LC_ALL=C.UTF-8"}).out, "•");
  EXPECT_CONTAINS(run({"train", "moons", "--epochs", "4"}, {"LC_ALL=C", "LANG=C.UTF-8"}).out, " |*");
}

TEST_F(Terminal, ALineIsDrawnAgainWhileARunGoesOn) {
  const string out = shown({"train", "circle", "--steps", "60000"}, 80);
  EXPECT_CONTAINS(out, "\r");
  EXPECT_TRUE(std::regex_search(out, std::regex(" \\d+ %  loss [0-9.]+ [▁-█]+  accuracy [0-9.]+ %"))) << out;
  const string log = run({"train", "circle", "--steps", "300", "--quiet", "--log", "2"}).err;
  EXPECT_TRUE(std::regex_search(log, std::regex("\nstep +150  rate 0.005[0-9]* +loss [0-9.]+\n"))) << log;
}

TEST_F(Terminal, JsonIsNothingButJson) {
  const std::vector<Arguments> commands = {{"train", "moons", "--epochs", "2"},
                                           {"train", "moons", "--epochs", "2", "--quiet"},
                                           {"train", "mnist-mlp", "--steps", "10", "--debug-kernels"},
                                           {"eval", "model"},
                                           {"summary", "model"},
                                           {"inspect", "linear"},
                                           {"inspect", "linear", "--stage", "c"},
                                           {"inspect", "linear", "--dot"},
                                           {"export", "model", "--c", "model.c"},
                                           {"einsum", "ij=>ji", "2,3"},
                                           {"ops"},
                                           {"ops", "tanh"},
                                           {"gradcheck", "op add"},
                                           {"data", "list"},
                                           {"cache"},
                                           {"doctor"},
                                           {"new", "project"}};
  for (Arguments command : commands) {
    command.push_back("--json");
    const Outcome o = run(command);
    EXPECT_EQ(o.code, 0) << joined(command) << o.err;
    EXPECT_TRUE(nlohmann::json::accept(o.out)) << joined(command) << "\n" << o.out.substr(0, 400);
  }
}

}  // namespace

#else
TEST(Terminal, IsTested) { GTEST_SKIP() << "The command is not built."; }
#endif
