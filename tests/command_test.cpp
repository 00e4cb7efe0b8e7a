// The command as a user meets it: arguments in, text, JSON and an exit code out.
#include <gtest/gtest.h>

#ifdef CARAVAN_COMMAND
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using std::string;
using Arguments = std::vector<string>;

struct Outcome {
  int code = -1;
  string out, err;
  string last_line() const {
    const string text = out.substr(0, out.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
};

string content(const string& path) {
  std::ifstream file(path);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

class Command : public testing::Test {
 protected:
  void SetUp() override {
    string pattern = testing::TempDir() + "caravan.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs the command in an empty folder, with no CARAVAN_* but those given ("CARAVAN_SEED=3").
  Outcome run(const Arguments& arguments, const Arguments& environment = {}) const {
    const string out = folder_ + "/stdout", err = folder_ + "/stderr", home = "HOME=" + folder_;
    const pid_t child = fork();
    if (child == 0) {
      std::vector<char*> argv, env;
      auto add = [](std::vector<char*>& list, const string& text) { list.push_back(const_cast<char*>(text.c_str())); };
      const string command = CARAVAN_COMMAND;
      add(argv, command);
      for (const string& a : arguments) add(argv, a);
      add(env, home);
      for (const string& e : environment) add(env, e);
      argv.push_back(nullptr), env.push_back(nullptr);
      const bool ready = chdir(folder_.c_str()) == 0 &&
                         dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1) == 1 &&
                         dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2) == 2;
      if (ready) execve(argv[0], argv.data(), env.data());
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(out), content(err)};
  }

  string folder_;
};

#define EXPECT_CONTAINS(text, phrase) EXPECT_NE((text).find(phrase), string::npos) << (text)

// The value of a key in a line of JSON, as it is written there.
string field(const string& json, const string& key) {
  const size_t at = json.find("\"" + key + "\":");
  if (at == string::npos) return "no " + key;
  const size_t from = at + key.size() + 3;
  return json.substr(from, json.find_first_of(",}", from) - from);
}
double number(const string& json, const string& key) {
  try {
    return std::stod(field(json, key));
  } catch (const std::exception&) {
    ADD_FAILURE() << key << " is not a number in " << json;
    return 0;
  }
}

string joined(const Arguments& arguments) {
  string out;
  for (const string& a : arguments) out += " " + a;
  return out;
}

TEST_F(Command, EinsumPrintsShapesIteratorsAndTheLoop) {
  const Outcome o = run({"einsum", "ij;jk=>ik", "3,4", "4,5"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "result   3,5");
  EXPECT_CONTAINS(o.out, "4  reduced");
  EXPECT_CONTAINS(o.out, "result[i, k] += A[i, j] * B[j, k]   for i < 3, k < 5, j < 4");
}

TEST_F(Command, EinsumJsonIsOneLine) {
  const Outcome o = run({"einsum", "ij;jk=>ik", "3,4", "4,5", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(
      o.out,
      R"({"spec":"ij;jk=>ik","op":"add","operands":["3,4","4,5"],"result":"3,5","iterators":[)"
      R"({"name":"i","extent":3,"reduced":false},{"name":"k","extent":5,"reduced":false},{"name":"j","extent":4,"reduced":true}]})"
      "\n");
  EXPECT_EQ(o.err, "");
}

TEST_F(Command, EinsumTakesEveryKindOfSpec) {
  struct {
    Arguments arguments;
    string result;
  } rows[] = {
      {{"... s | h d; ... t | h d => ... s | t -> h", "2,8|4,64", "2,8|4,64"}, "2,8|8->4"},
      {{"... | 2*o=+k, ic; k, ic -> oc => ... | o, oc", "8|32,3", "5,3->16"}, "8|16,16"},
      {{"2*o<1+k => o", "9", "--size", "k=3", "--op", "max"}, "5"},
      {{"--size", "k=3", "--op", "min", "2*o+k => o", "9"}, "4"},
      {{"x&y => x, y", "12", "--size", "y=4"}, "3,4"},
      {{"o; k => s*o+d*k", "4", "3", "--size", "s=2", "--size", "d=1"}, "9"},
      {{"a; b => a^b", "3", "2", "--op", "concat"}, "5"},
      {{"r, a; r, b; r, c; r, d => r, a^b^c^d", "2,1", "2,2", "2,3", "2,4", "--op", "concat"}, "2,10"},
      {{"3^rest => rest", "8"}, "5"},
      {{"-i=>i", "6"}, "6"},
      {{"->i=>i", "->6"}, "6"},
      {{"i;j;k=>ijk", "1", "2", "3"}, "1,2,3"},
      {{"j => i", "6", "--size", "i=6", "--where", "j <= i"}, "6"},
      {{"ij=>", "2,3"}, ""},
      {{"=>i", "", "--size", "i=3"}, "3"},
  };
  for (const auto& [arguments, result] : rows) {
    Arguments all = {"einsum", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all) << ": " << o.err;
    EXPECT_CONTAINS(o.out, "\"result\":\"" + result + "\"");
  }
}

TEST_F(Command, EinsumListsTheIteratorsOfAllParts) {
  const Outcome o = run({"einsum", "r, a; r, b => r, a^b", "2,3", "2,4", "--op", "concat", "--json"});
  EXPECT_CONTAINS(
      o.out,
      R"("iterators":[{"name":"r","extent":2,"reduced":false},{"name":"a","extent":3,"reduced":false},{"name":"b","extent":4,"reduced":false}])");
}

TEST_F(Command, RefusesWrongInputWithCodeTwoAndOneClearSentence) {
  struct {
    Arguments arguments;
    string phrase;
  } rows[] = {
      {{"einsum", "ij;jk=>ik", "3,4", "5,6"}, "axis `j` is 4 for output axis 2 of `A`, but 5 for output axis 1 of `B`"},
      {{"einsum", "ij;jk=>ik", "3,4"}, "has 2 shapes before `=>`"},
      {{"einsum", "i=>..", "3"}, "  i=>..\n       ^"},
      {{"einsum", "ij", "3"}, "^"},
      {{"einsum", "i=>i", "3", "--size", "q=3"}, "`q`"},
      {{"einsum", "i=>i", "3", "--size", "i=4"}, "axis `i` is 3"},
      {{"einsum", "i=>i", "3", "--size", "i"}, "NAME=N"},
      {{"einsum", "i=>i", "3", "--size", "i=x"}, "NAME=N"},
      {{"einsum", "i=>i", "3,,4"}, "3,,4"},
      {{"einsum", "i=>i", "three"}, "three"},
      {{"einsum", "i=>i", "-3"}, "-3"},
      {{"einsum", "i=>i", "0"}, "size 0"},
      {{"einsum", "i=>i", "3", "--op", "median"}, "no --op `median`"},
      {{"einsum", "i=>ij", "3"}, "--size j=N"},
      {{"einsum", "i5=>i", "3,4"}, "fixed index 5"},
      {{"einsum", "x&y=>x,y", "12", "--size", "y=5"}, "5 does not divide 12"},
      {{"einsum", "ii=>i", "3,4"}, "axis `i` is 3"},
      {{"einsum", "i;j;k;l=>ijkl", "1", "2", "3", "4"}, "one to three operands"},
      {{"einsum", "i=>i", "3", "--where", "i <"}, "condition"},
      {{"einsum"}, "SPEC is required"},
      {{"einsum", "i=>i", "3", "--shape"}, "no option `--shape`"},
      {{}, "needs a command: einsum, gradcheck"},
      {{"learn"}, "no command `learn`; there are: einsum, gradcheck"},
      {{"--frobnicate"}, "no option `--frobnicate`"},
      {{"gradcheck", "nosuchcase"}, "no gradient check matches `nosuchcase`"},
      {{"ops", "nosuchop"}, "no op or accumulator `nosuchop`"},
      {{"inspect", "moons", "--stage", "kernels"}, "this build has no stage `kernels`"},
      {{"inspect", "moons", "--stage", "loops"}, "this build has no stage `loops`"},
      {{"inspect", "moons", "--stage", "soup"}, "no stage `soup`; there are: graph, shapes"},
      {{"inspect", "moons", "--stage", "shapes", "--dot"}, "--dot draws the graph"},
      {{"inspect", "venus"}, "no recipe `venus`; there are: linear, moons"},
      {{"train"}, "needs a recipe: linear, moons"},
      {{"train", "venus"}, "no recipe `venus`; there are: linear, moons"},
      {{"train", "moons", "--epochs", "0"}, "--epochs is 0"},
      {{"train", "moons", "--steps", "-5"}, "--steps is -5"},
      {{"train", "moons", "--epochs", "few"}, "--epochs = few"},
      {{"train", "moons", "--epochs", "1", "--steps", "2"}, "excludes"},
      {{"train", "moons", "--batch", "7"}, "--batch 7 does not divide the 800 points"},
      {{"train", "moons", "--lr", "0"}, "--lr is 0"},
      {{"train", "moons", "--seed", "-1"}, "seed (from command line) is `-1`"},
      {{"train", "moons", "--device", "abacus"}, "device `abacus`"},
      {{"train", "moons", "slowly"}, "does not expect `slowly`"},
      {{"doctor", "--log", "much"}, "log (from command line) is `much`"},
  };
  for (const auto& [arguments, phrase] : rows) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments) << ": " << o.err;
    EXPECT_NE(o.err.find(phrase), string::npos) << joined(arguments) << ": " << o.err;
    EXPECT_EQ(o.err.find("caravan: "), 0u) << o.err;
    EXPECT_EQ(o.out, "") << joined(arguments);
  }
}

TEST_F(Command, GradcheckPasses) {
  const Outcome o = run({"gradcheck", "--json"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_CONTAINS(o.out, "op pow");
  EXPECT_CONTAINS(o.out, "transposed window");
  EXPECT_GT(number(o.last_line(), "checked"), 250);
  EXPECT_EQ(field(o.last_line(), "failed"), "0");
  EXPECT_LT(number(o.last_line(), "worst"), 1e-6);
}

TEST_F(Command, GradcheckTakesFilters) {
  const Outcome o = run({"gradcheck", "op pow", "diagonals: read"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.last_line(), "checked 6, failed 0, worst ");
}

TEST_F(Command, OpsShowsTheTableAndARow) {
  EXPECT_CONTAINS(run({"ops"}).out, "softplus");
  EXPECT_CONTAINS(run({"ops"}).out, "argmax=");
  const Outcome one = run({"ops", "max"});
  EXPECT_EQ(one.code, 0);
  EXPECT_CONTAINS(one.out, "op max");
  EXPECT_CONTAINS(one.out, "where(a >= b, g, 0)");
  EXPECT_CONTAINS(one.out, "accumulator max");
  EXPECT_EQ(field(run({"ops", "exp", "--json"}).out, "c"), "\"exp(a)\"");
  const Outcome all = run({"ops", "--json"});
  EXPECT_EQ(all.out.find('\n'), all.out.size() - 1);
  EXPECT_CONTAINS(all.out, R"("name":"clamp","arity":3)");
}

TEST_F(Command, InspectShowsEachStage) {
  struct {
    Arguments arguments;
    string phrase;
  } rows[] = {
      {{"moons"}, "relu <- ["},
      {{"moons", "--stage", "graph"}, "w1(x"},
      {{"moons", "--stage", "graph", "--dot"}, "digraph"},
      {{"moons", "--stage", "shapes"}, "2->16"},
      {{"moons", "--stage", "constraints"}, "w1"},
      {{"moons", "--stage", "assignments"}, "w1 := "},
      {{"linear", "--stage", "graph"}, "square <- ["},
      {{"linear", "--stage", "shapes"}, "4|"},
      {{"linear", "--stage", "assignments"}, "for b0 < 4"},
  };
  for (const auto& [arguments, phrase] : rows) {
    Arguments all = {"inspect"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all) << ": " << o.err;
    EXPECT_CONTAINS(o.out, phrase);
  }
}

TEST_F(Command, TrainLinearFindsTheLineAndShowsTheWay) {
  const Outcome o = run({"train", "linear", "--device", "interp", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "square <- [");  // the graph with values
  EXPECT_CONTAINS(o.out, "grad=");
  EXPECT_CONTAINS(o.out, "d loss / d ");     // the backward pass
  EXPECT_CONTAINS(o.out, "epoch 20 of 20");  // plain lines in a pipe
  EXPECT_CONTAINS(o.out, "Loss, summed over an epoch");
  EXPECT_CONTAINS(o.out, "learned     true");
  EXPECT_NEAR(number(o.last_line(), "w"), number(o.last_line(), "true_w"), 0.05);
  EXPECT_NEAR(number(o.last_line(), "b"), number(o.last_line(), "true_b"), 0.05);
  EXPECT_EQ(field(o.last_line(), "recipe"), "\"linear\"");
  EXPECT_EQ(field(o.last_line(), "device"), "\"interp\"");
  for (const char* key : {"threads", "seed", "steps", "seconds", "steps_per_second", "loss"})
    number(o.last_line(), key);
}

TEST_F(Command, TrainMoonsLearns) {
  const Outcome o = run({"train", "moons", "--epochs", "4", "--seed", "3", "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "epoch 4 of 4: loss ");
  EXPECT_CONTAINS(o.out, "Decision boundary");
  EXPECT_EQ(field(o.last_line(), "steps"), "320");
  EXPECT_EQ(field(o.last_line(), "seed"), "3");
  EXPECT_LT(number(o.last_line(), "epoch_loss"), 8);
  EXPECT_GT(number(o.last_line(), "train_accuracy"), 0.9);
}

TEST_F(Command, TrainRepeatsBitForBitAndSeedsDiffer) {
  auto loss = [&](const char* seed) {
    return field(run({"train", "moons", "--steps", "30", "--quiet", "--json", "--seed", seed}).out, "loss");
  };
  EXPECT_EQ(loss("2"), loss("2"));
  EXPECT_NE(loss("2"), loss("3"));
}

TEST_F(Command, TrainIsQuietWhenAsked) {
  EXPECT_EQ(run({"train", "moons", "--steps", "5", "--quiet"}).out, "");
  const Outcome o = run({"train", "moons", "--steps", "5", "--batch", "20", "--lr", "0.05", "--quiet", "--json"});
  EXPECT_EQ(o.out.find('\n'), o.out.size() - 1);
  EXPECT_EQ(field(o.out, "steps"), "5");
  EXPECT_EQ(field(o.out, "batch"), "20");
}

TEST_F(Command, TrainThatDivergesFailsItsCheck) {
  const Outcome o = run({"train", "linear", "--lr", "1000", "--quiet"});
  EXPECT_EQ(o.code, 1);
  EXPECT_CONTAINS(o.err, "diverged");
}

TEST_F(Command, SettingsComeFromTheCommandLineThenTheEnvironmentThenTheFile) {
  std::ofstream(folder_ + "/caravan.toml") << "seed = 5\nthreads = 3\ndata = \"/somewhere\"\n";
  const Outcome o = run({"doctor", "--json"}, {"CARAVAN_THREADS=2"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, R"("seed":{"value":"5","source":"caravan.toml"})");
  EXPECT_CONTAINS(o.out, R"("threads":{"value":"2","source":"CARAVAN_THREADS"})");
  EXPECT_CONTAINS(o.out, R"("data":{"value":"/somewhere","source":"caravan.toml"})");
  EXPECT_CONTAINS(o.out, R"("device":{"value":"auto","source":"default"})");
  EXPECT_CONTAINS(o.out, R"({"name":"interp","built":true)");

  const Arguments train = {"train", "moons", "--steps", "1", "--quiet", "--json"};
  EXPECT_EQ(field(run(train).out, "seed"), "5");
  EXPECT_EQ(field(run(train, {"CARAVAN_SEED=6"}).out, "seed"), "6");
  Arguments with_seed = train;
  with_seed.insert(with_seed.end(), {"--seed", "7", "--log", "1"});
  const Outcome logged = run(with_seed, {"CARAVAN_SEED=6"});
  EXPECT_EQ(field(logged.out, "seed"), "7");
  EXPECT_CONTAINS(logged.err, "command line");
  EXPECT_CONTAINS(logged.err, "caravan.toml");
}

TEST_F(Command, WrongSettingsNameTheirSource) {
  EXPECT_CONTAINS(run({"doctor"}, {"CARAVAN_THREADS=many"}).err, "threads (from CARAVAN_THREADS) is `many`");
  EXPECT_EQ(run({"train", "moons"}, {"CARAVAN_DEVICE=abacus"}).code, 2);
  struct {
    string file, phrase;
  } rows[] = {
      {"sead = 5\n", "line 1: there is no setting `sead`"},
      {"\nseed = [1]\n", "line 2: `seed` must be"},
      {"seed = \n", "line 1"},
      {"threads = 0\n", "threads (from caravan.toml) is `0`"},
  };
  for (const auto& [file, phrase] : rows) {
    std::ofstream(folder_ + "/caravan.toml") << file;
    const Outcome o = run({"doctor"});
    EXPECT_EQ(o.code, 2) << file;
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(run({"doctor", "--help"}).code, 0);
  }
}

TEST_F(Command, DoctorSaysWhatIsThere) {
  const Outcome o = run({"doctor"});
  EXPECT_EQ(o.code, 0);
  for (const char* phrase : {"compiler ", "interp ", "cuda ", "cache ", "threads ", "default"})
    EXPECT_CONTAINS(o.out, phrase);
  EXPECT_CONTAINS(run({"--version"}).out, "caravan ");
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
                                                      {"doctor"}}) {
    Arguments all = path;
    all.push_back("--help");
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << joined(all);
    EXPECT_CONTAINS(o.out, "Example");
    EXPECT_CONTAINS(o.out, "caravan" + joined(path));
  }
  EXPECT_CONTAINS(run({"train", "moons", "--help"}).out, "--epochs");
}

}  // namespace

#else
TEST(Command, IsTested) { GTEST_SKIP() << "The command is not built; it needs CLI11, nlohmann_json and tomlplusplus."; }
#endif
