// Tuning files: what they may say, and that no number in them changes a result.
#include <gtest/gtest.h>

#include <cmath>

#include "caravan/backend/cc/device.h"
#include "caravan/base/error.h"
#include "caravan/caravan.h"
#include "caravan/target/tuning_file.h"

namespace caravan {
namespace {

TEST(TuningFile, RoundTrips) {
  Tuning tuning;
  tuning.vector_bytes = 64, tuning.block_rows = 3, tuning.parallel_work = 77;
  EXPECT_EQ(parse_tuning(to_string(tuning), "here"), tuning);
  EXPECT_EQ(to_string(tuning), "vector_bytes = 64\nblock_rows = 3\nparallel_work = 77\n");
  EXPECT_EQ(to_string(Tuning{}), "");
  EXPECT_EQ(to_string(built_in_tuning(64), built_in_tuning(64)), "");
  EXPECT_EQ(parse_tuning(to_string(tuning, built_in_tuning(64)), "here", built_in_tuning(64)), tuning);
  EXPECT_EQ(parse_tuning("", "here"), Tuning{});
  EXPECT_EQ(parse_tuning("  # nothing\n\n vector_bytes = 16 # narrow\r\n", "here").vector_bytes, 16);
}

TEST(TuningFile, RefusesWhatItMayNotSay) {
  const struct {
    const char *text, *message;
  } rows[] = {
      {"vector_byte = 32", "t:1: there is no number `vector_byte` to tune; there are: least_packed_reads, "},
      {"# a\nsum_lanes = 4", "t:2: there is no number `sum_lanes` to tune"},  // that would change sums
      {"vector_bytes = 48", "t:1: `vector_bytes` is a power of two from 16 to 64, not `48`."},
      {"block_rows = 0", "t:1: `block_rows` is a whole number from 1 to 16, not `0`."},
      {"block_rows = 2x", "t:1: `block_rows` is a whole number from 1 to 16, not `2x`."},
      {"block_rows = 99999999999999999999", "not `99999999999999999999`."},
      {"block_rows = 2\nblock_rows = 3", "t:2: `block_rows` was given before."},
      {"block_rows", "t:1: `block_rows` is not NAME = NUMBER."},
  };
  for (const auto& row : rows) try {
      parse_tuning(row.text, "t");
      ADD_FAILURE() << row.text;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << error.what();
    }
  EXPECT_THROW(read_tuning("/nonexistent/tuning"), ConfigError);
}

TEST(TuningFile, NoNumberInItChangesABit) {
  auto trained = [](const Tuning& tuning) {
    Context ctx({.seed = 3, .make_device = [&](const ContextOptions& options) {
                   cc::DeviceOptions made;
                   made.seed = options.seed, made.threads = 2, made.tuning = tuning;
                   return cc::make_device(made);
                 }});
    std::vector<double> values;
    for (int k = 0; k < 21 * 70; ++k) values.push_back(std::sin(k * 0.7) * (k % 13));
    const nn::Mlp mlp("m", {.widths = {45, 37}});
    Tensor loss = mean(square(mlp(tensor(Array(parse_shape("21|70"), values)))));
    Routine step = ctx.compile(train_step(loss, adam({.lr = 0.01})));
    step.run_steps(5);
    std::vector<std::vector<double>> out;
    for (const std::string& name : ctx.names()) out.push_back(ctx.read(name).values());
    return out;
  };
  const auto plain = trained({});
  const char* texts[] = {"vector_bytes = 64\nblock_lanes = 32\n",
                         "vector_bytes = 16\nblock_rows = 1\nblock_lanes = 4\n",
                         "few_sums = 2\nmany_sums = 3\nleast_packed_reads = 1\n",
                         "parallel_work = 10\nchunk_work = 7\nmost_chunks = 5\nleast_packed_reads = 100000\n"};
  for (const char* text : texts) EXPECT_EQ(trained(parse_tuning(text, "t")), plain) << text;
  for (const TuningNumber& number : tuning_numbers()) {
    const int64_t built_in = Tuning().*number.number;
    for (const int64_t value : {built_in / 4, built_in * 4}) {
      Tuning tuning;
      if (!number.allows(value)) continue;
      tuning.*number.number = value;
      EXPECT_EQ(trained(tuning), plain) << number.name << " = " << value;
    }
  }
}

}  // namespace
}  // namespace caravan
