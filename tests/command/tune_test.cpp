// caravan tune: a table, JSON, the file that it writes, and refusals.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "caravan/target/tuning_file.h"
#include "command.h"

namespace {

const Arguments kQuick = {"tune", "moons", "--number", "vector_bytes", "--seconds", "0.001", "--threads", "1"};

Arguments quick(const Arguments& more) {
  Arguments out = kQuick;
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST_F(Command, TuneWritesAFileThatIsThenUsed) {
  const string path = folder_ + "/.config/caravan/tuning";
  EXPECT_CONTAINS(good({"doctor"}).out, "\ntuning   built in\n");
  const Outcome o = good(kQuick);
  for (const char* phrase : {"\nstart    the built-in numbers\n", "\nmeasured moons\n", "\nvector_bytes ",
                             "All programs that you run use it from now on."})
    EXPECT_CONTAINS(o.out, phrase);
  EXPECT_CONTAINS(o.out, "\nwritten  " + path + "\n");
  EXPECT_CONTAINS(content(path), "# Measured: moons.\n");
  caravan::read_tuning(path);  // throws if it does not parse
  EXPECT_CONTAINS(good({"doctor"}).out, "\ntuning   " + path + "\n");
  EXPECT_CONTAINS(run({"doctor"}, {"CARAVAN_TUNING="}).out, "\ntuning   built in\n");
}

TEST_F(Command, TuneWritesWhereItIsTold) {
  const Outcome o = good(quick({"--output", "numbers/mine"}));
  EXPECT_CONTAINS(o.out, "\nnext     export CARAVAN_TUNING=" + folder_ + "/numbers/mine\n");
  EXPECT_FALSE(exists(folder_ + "/.config"));
  const auto json = nlohmann::json::parse(good(quick({"--output", "mine", "--json"})).out);
  EXPECT_EQ(json["file"], folder_ + "/mine");
  EXPECT_EQ(json["trials"][0]["number"], "vector_bytes");
  EXPECT_GT(json["trials"][0]["speed"], 0);
  const caravan::Tuning built_in = caravan::built_in_tuning(caravan::host(1).vector_bytes);
  EXPECT_EQ(json["tuning"]["vector_bytes"], caravan::read_tuning(folder_ + "/mine", built_in).vector_bytes);
}

TEST_F(Command, TuneLeavesWhatItFoundWhenItIsStopped) {
  const pid_t child = start({CARAVAN_COMMAND, "tune", "moons", "--seconds", "1000", "--output", "mine"});
  wait_until_caught(child, SIGINT);
  kill(child, SIGINT);
  EXPECT_EQ(ended(child).code, 128 + SIGINT);
  EXPECT_CONTAINS(content(folder_ + "/mine"), "# It was stopped before it had tried all numbers.\n");
  caravan::read_tuning(folder_ + "/mine");
}

TEST_F(Command, TuneRefusesWhatItDoesNotKnow) {
  const std::pair<Arguments, const char*> rows[] = {
      {{"tune", "mons"}, "there is no benchmark `mons`; did you mean `moons`?"},
      {{"tune", "moons", "--number", "block_row"}, "there is no number `block_row`; did you mean `block_rows`?"},
      {{"tune", "moons", "--seconds", "0"}, "--seconds"},
      {{"tune", "moons", "--output", "/"}, "--output `/` is a folder"},
  };
  for (const auto& [arguments, phrase] : rows) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << joined(arguments);
    EXPECT_CONTAINS(o.err, phrase);
  }
  EXPECT_CONTAINS(run({"tune", "moons"}, {"HOME="}).err, "give --output FILE.");
}

}  // namespace
