// caravan sample with models of other programs.
#include <algorithm>

#include "caravan/data/atomic_file.h"
#include "command.h"
#include "test_data.h"

namespace caravan {
namespace {

class SamplePretrained : public Command {};

TEST_F(SamplePretrained, WritesTheSameStoryAgain) {
  const auto model = test_data("tinyllama/stories260K.bin");
  if (!model) GTEST_SKIP() << "tinyllama is not in the folder that CARAVAN_TEST_DATA names";
  const string path = std::filesystem::absolute(*model);
  const Arguments story = {"sample",        "--llama", path,       "--prompt", "Once upon a time",
                           "--temperature", "0",       "--tokens", "40"};
  const Outcome first = run(story);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_CONTAINS(first.out, "Once upon a time, there was a little girl named Lily. She loved to play outside");
  EXPECT_EQ(run(story).out, first.out);
  const Outcome longer = run({"sample", "--llama", path, "--prompt", string(2000, 'x')});
  EXPECT_EQ(longer.code, 2);
  EXPECT_CONTAINS(longer.err, "the model sees at most 511");
  const Outcome other = run({"sample", "--llama", path, "--tokenizer", path});
  EXPECT_EQ(other.code, 2);
  EXPECT_CONTAINS(other.err, "stories260K.bin");
}

TEST_F(SamplePretrained, RefusesInOneSentence) {
  data::write_file(folder_ + "/empty.bin", "");
  data::write_file(folder_ + "/config.json", "{}");
  const std::pair<Arguments, const char*> rows[] = {
      {{"sample"}, "needs one model"},
      {{"sample", "a.safetensors", "--llama", "b.bin"}, "needs one model"},
      {{"sample", "--gpt2", ".", "--tokenizer", "t.bin"}, "--tokenizer belongs to --llama"},
      {{"sample", "--llama", "none.bin"}, "none.bin"},
      {{"sample", "--llama", "empty.bin"}, "is no model of llama2.c"},
      {{"sample", "--gpt2", "."}, "`vocab_size` should be a size"},
      {{"sample", "--gpt2", "none"}, "config.json"},
  };
  for (const auto& [command, phrase] : rows) {
    const Outcome ran = run(command);
    EXPECT_EQ(ran.code, 2) << phrase;
    EXPECT_EQ(ran.out, "") << phrase;
    EXPECT_CONTAINS(ran.err, phrase);
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

}  // namespace
}  // namespace caravan
