// caravan doctor and cache: what is there, and what is kept.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "caravan/backend/cuda/device.h"
#include "command.h"

namespace {

TEST_F(Command, DoctorSaysWhatIsThere) {
  const Outcome o = run({"doctor"});
  EXPECT_EQ(o.code, 0);
  for (const char* phrase : {"compiler ", "interp ", "cuda ", "target ", "cache ", "threads ", "default"})
    EXPECT_CONTAINS(o.out, phrase);
  EXPECT_CONTAINS(run({"--version"}).out, "caravan ");
}

TEST_F(Command, DoctorFindsTheCompilerAndMeasuresTheCache) {
  const string cache = "CARAVAN_CACHE=" + folder_ + "/kernels";
  EXPECT_CONTAINS(run({"doctor"}, {cache}).out,
                  "cache    0 kernels, 0.0 MB of at most 1000 MB in " + folder_ + "/kernels");
  EXPECT_FALSE(exists(folder_ + "/kernels"));  // a doctor looks
  EXPECT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"}, {cache}).code, 0);
  const Outcome o = run({"doctor", "--json"}, {cache});
  EXPECT_EQ(o.out.find('\n'), o.out.size() - 1);
  EXPECT_CONTAINS(o.out, R"({"name":"cpu","works":true,"note":"compiled by /)");
  EXPECT_CONTAINS(field(o.out, "path"), "/cc");
  EXPECT_GE(number(o.out, "kernels"), 1);
  EXPECT_GT(number(o.out, "bytes"), 1000);

  const Outcome without = run({"doctor"}, {"PATH=/nowhere"});
  EXPECT_EQ(without.code, 0);
  EXPECT_CONTAINS(without.out, "cpu      no     there is no `cc` on the PATH");
}

TEST_F(Command, DoctorSaysWhyThereIsNoGpu) {
  const caravan::cuda::Facts& facts = caravan::cuda::facts();
  if (facts.count > 0) GTEST_SKIP() << "there is a GPU here";
  const Outcome doctor = run({"doctor", "--json"});
  EXPECT_EQ(doctor.code, 0);
  EXPECT_CONTAINS(doctor.out, R"({"name":"cuda","works":false,"note":")" + facts.note + "\"}");
  const Outcome train = run({"train", "linear", "--steps", "1", "--quiet", "--device", "cuda"});
  EXPECT_EQ(train.code, 2);
  EXPECT_EQ(train.out, "");
  EXPECT_EQ(train.err, "caravan: the device `cuda` cannot be used: " + facts.note + ".\n");
  const Outcome automatic = run({"train", "linear", "--steps", "1", "--quiet", "--device", "auto"});
  EXPECT_EQ(automatic.code, 0) << automatic.err;
}

TEST_F(Command, CacheShowsWhatIsKeptAndEmptiesIt) {
  const string cache = folder_ + "/kernels", set = "CARAVAN_CACHE=" + cache;
  EXPECT_EQ(run({"cache"}, {set}).out, "0 kernels, 0.0 MB of at most 1000 MB in " + cache + "\n");
  EXPECT_FALSE(exists(cache)) << "it only looks";
  ASSERT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"}, {set}).code, 0);
  EXPECT_EQ(std::filesystem::status(cache).permissions(), std::filesystem::perms::owner_all);
  std::ofstream(cache + "/mine") << "not a kernel";
  int64_t made = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) made += entry.path().extension() == ".so";
  EXPECT_GE(made, 1);
  const string kernels = (made == 1 ? "1 kernel" : std::to_string(made) + " kernels") + ", 0.";
  EXPECT_TRUE(run({"cache"}, {set, "CARAVAN_CACHE_LIMIT=0"}).out.starts_with(kernels));
  EXPECT_TRUE(run({"cache"}, {set, "CARAVAN_CACHE_LIMIT=0"}).out.ends_with(" MB in " + cache + "\n"));
  const Outcome json = run({"cache", "--json"}, {set, "CARAVAN_CACHE_LIMIT=20"});
  EXPECT_EQ(number(json.out, "kernels"), double(made));
  EXPECT_EQ(number(json.out, "limit"), 20e6);
  EXPECT_EQ(field(json.out, "problem"), "\"\"");

  std::filesystem::permissions(cache, std::filesystem::perms::all);
  const string why = "not used, because `" + cache + "` can be written by others (mode 0777); `chmod 700 " + cache +
                     "` mends it; each process compiles for itself\n";
  EXPECT_CONTAINS(run({"cache"}, {set}).out, why);
  EXPECT_CONTAINS(run({"doctor"}, {set}).out, why);
  const Outcome unused = run({"train", "linear", "--steps", "1", "--quiet", "--json", "--log", "1"}, {set});
  EXPECT_EQ(field(unused.out, "device"), "\"cpu\"") << unused.err;
  EXPECT_CONTAINS(unused.err, "cache is " + why);
  std::filesystem::permissions(cache, std::filesystem::perms::owner_all);

  const Outcome cleared = run({"cache", "--clear"}, {set});
  EXPECT_CONTAINS(cleared.out, "Removed " + kernels);
  EXPECT_CONTAINS(cleared.out, " MB, from " + cache + ".\n");
  EXPECT_CONTAINS(run({"cache"}, {set}).out, "0 kernels, 0.0 MB");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache), {}), 1) << "what is not a kernel stays";
  EXPECT_CONTAINS(run({"cache"}, {set, "CARAVAN_CACHE_LIMIT=-1"}).err,
                  "cache_limit (from CARAVAN_CACHE_LIMIT) is `-1`");
}

TEST_F(Command, AFolderWhoseNameIsNotUtf8IsShownInJson) {
  const string set = "CARAVAN_CACHE=" + folder_ + "/kernels\xff";
  for (const char* command : {"cache", "doctor"}) {
    const Outcome o = run({command, "--json"}, {set});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_CONTAINS(o.out, folder_ + "/kernels\uFFFD\"");
  }
}

TEST_F(Command, NothingOfTheCurrentFolderIsTakenForTheUsers) {
  const Arguments unset = {"HOME=", "CARAVAN_CACHE="};
  for (const Arguments& arguments : {Arguments{"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"},
                                     Arguments{"doctor"}, Arguments{"cache"}, Arguments{"data", "list"}}) {
    const Outcome o = run(arguments, unset);
    EXPECT_EQ(o.code, 0) << o.err;
  }
  EXPECT_CONTAINS(run({"cache"}, unset).out, "not used, because neither HOME nor XDG_CACHE_HOME is an absolute path");
  EXPECT_CONTAINS(run({"data", "get", "gpt2-bpe"}, {"HOME=.", "CARAVAN_CACHE=", "CARAVAN_DATA="}).err,
                  "choose one with --to");
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_TRUE(entry.path().filename() == "stdout" || entry.path().filename() == "stderr") << entry.path();
}

TEST_F(Command, ATemporaryFolderThatIsNotThereIsToldByTheDoctor) {
  const Outcome o = run({"doctor"}, {"TMPDIR=/nonexistent"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_CONTAINS(o.out, "TMPDIR is `/nonexistent`, which is not a folder; /tmp is used instead");
  EXPECT_CONTAINS(o.out, "cpu      yes");
  EXPECT_EQ(run({"train", "linear", "--steps", "1", "--quiet", "--device", "cpu"},
                {"TMPDIR=/nonexistent", "CARAVAN_CACHE=" + folder_ + "/new"})
                .code,
            0);
}

}  // namespace
