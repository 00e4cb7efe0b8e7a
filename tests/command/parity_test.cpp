// caravan parity: recorded runs, repeated and compared.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "command.h"
#include "random_fixture.h"

namespace {

// A fixture whose results the interpreter computed, with one of them changed.
void write_fixture(const string& path, const string& changed = "", double by = 0) {
  using namespace caravan;
  const parity::RandomFixture random(6);
  ContextOptions options;
  options.device = "interp";
  parity::Arrays results = parity::train(parity::fixture_from(random.tensors), options);
  if (!changed.empty()) results.at(changed).set(1, results.at(changed).at(1) + by);
  data::write_safetensors(path, parity::completed(random.tensors, results));
}

TEST_F(Command, ParityComparesEveryTensor) {
  write_fixture(folder_ + "/good.safetensors");
  const Outcome table = run({"parity", "good.safetensors", "--device", "cpu"});
  EXPECT_EQ(table.code, 0) << table.out << table.err;
  EXPECT_CONTAINS(table.out, "passed; the worst is at ");
  for (const char* phrase : {"losses ", "grad.", "final.", "eval_output ", "1e-04", "2e-03"})
    EXPECT_CONTAINS(table.out, phrase);

  write_fixture(folder_ + "/bad.safetensors", "losses", 0.5);
  const Outcome both = run(
      {"parity", "good.safetensors", "bad.safetensors", "--quiet", "--json", "--device", "interp", "--threads", "2"});
  EXPECT_EQ(both.code, 1) << both.err;
  const string json = both.out;
  EXPECT_EQ(json.find('\n'), json.size() - 1) << "JSON and nothing else";
  EXPECT_EQ(field(json, "device"), "\"interp\"");
  EXPECT_EQ(field(json, "checked"), "2");
  EXPECT_EQ(field(json, "failed"), "1");
  EXPECT_CONTAINS(json, "\"losses_part_at\":1");
  EXPECT_CONTAINS(json, "\"losses_part_at\":null");

  write_fixture(folder_ + "/gradient.safetensors", "eval_output", 0.5);
  EXPECT_EQ(run({"parity", "gradient.safetensors", "--device", "interp"}).code, 1);
}

TEST_F(Command, ParityRefusesUnusableFilesBeforeItRunsAny) {
  write_fixture(folder_ + "/good.safetensors");
  std::ofstream(folder_ + "/short.safetensors") << "abc";
  std::ofstream(folder_ + "/cut.safetensors", std::ios::binary)
      << content(folder_ + "/good.safetensors").substr(0, 5000);
  caravan::data::write_safetensors(folder_ + "/other.safetensors", {});
  const std::pair<Arguments, string> rows[] = {
      {{"parity"}, "`caravan parity`: FILE is required"},
      {{"parity", "none.safetensors"}, "`none.safetensors` cannot be read: No such file"},
      {{"parity", "."}, "`.` cannot be read: it is a folder, not a regular file"},
      {{"parity", "good.safetensors", "short.safetensors"},
       "`short.safetensors` is not a usable safetensors file: it has 3 bytes"},
      {{"parity", "cut.safetensors"}, "`cut.safetensors` is not a usable safetensors file: "},
      {{"parity", "other.safetensors"},
       "`other.safetensors`: it is not a parity fixture: its metadata has no `fixture`."},
      {{"parity", "good.safetensors", "--device", "tpu"}, "device kind `tpu` is not built"},
  };
  for (const auto& [arguments, phrase] : rows) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments);
    EXPECT_CONTAINS(o.err, phrase);
    EXPECT_EQ(o.out, "") << joined(arguments);
    EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << o.err;
  }
}

}  // namespace
