// Small files that unpack to much: refused where it is more than the limit, and never more in memory than what is read.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "caravan/base/error.h"
#include "caravan/data/atomic_file.h"
#include "caravan/data/csv.h"
#include "caravan/data/gzip.h"
#include "caravan/data/idx.h"
#include "caravan/data/npy.h"
#include "caravan/data/safetensors.h"
#include "caravan/data/text.h"
#include "caravan/pretrained/llama.h"
#include "caravan/pretrained/name_map.h"
#include "sanitized.h"
#include "temporary_folder.h"

namespace caravan::data {
namespace {

using std::string;
constexpr int64_t kMegabyte = 1 << 20;

// A field of /proc/self/status, in bytes.
int64_t status(const string& field) {
  std::ifstream file("/proc/self/status");
  for (string line; std::getline(file, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

struct Outcome {
  string said;        // the message, or "read"
  int64_t peak = -1;  // bytes that the process had at most, beyond what it had before
};

// In a process of its own, whose memory may be limited.
Outcome tried(const std::function<void()>& work, int64_t limit = 0) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const int64_t before = status("VmRSS");
    string said = "read";
    if (limit > 0) {
      const rlimit most{rlim_t(status("VmSize") + limit), RLIM_INFINITY};
      setrlimit(RLIMIT_AS, &most);
    }
    try {
      work();
    } catch (const Error& error) {
      said = error.what();
      said.erase(std::min(said.size(), said.rfind(" (bomb_test.cpp:")));  // the line that it names
    } catch (const std::exception& error) {
      said = string("not a sentence: ") + error.what();
    }
    const string out = std::to_string(status("VmHWM") - before) + " " + said;
    _exit(write(ends[1], out.data(), out.size()) == ssize_t(out.size()) ? 0 : 1);
  }
  close(ends[1]);
  string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(ends[0]);
  int code = 0;
  waitpid(child, &code, 0);
  EXPECT_EQ(code, 0);
  const size_t space = text.find(' ');
  return {text.substr(space + 1), std::stoll(text)};
}

void expect_peak(const Outcome& outcome, int64_t megabytes) {
  EXPECT_GE(outcome.peak, 0);
  if (!kSanitized) {
    EXPECT_LE(outcome.peak, megabytes * kMegabyte) << outcome.said;
  }
}

string idx_header(uint32_t rows, uint32_t columns) {
  string out("\0\0\x08\2", 4);
  for (const uint32_t size : {rows, columns})
    for (int shift = 24; shift >= 0; shift -= 8) out += char(uint8_t(size >> shift));
  return out;
}

// Members follow each other: 64 megabytes a time, in 65 kB.
string packed_megabytes(char byte, int count) {
  const string one = gzip(string(size_t(64 * kMegabyte), byte));
  string out;
  for (int i = 0; i < count; i += 64) out += one;
  return out;
}

TEST(Bombs, AnIdxFileIsUnpackedIntoItsArray) {
  const TemporaryFolder folder;
  const string path = folder.path + "/images.gz";
  write_file(path, gzip(idx_header(256, uint32_t(kMegabyte))) + packed_megabytes('x', 256));
  const Outcome whole = tried([&] { EXPECT_EQ(read_idx(path).at(5), 'x'); });
  EXPECT_EQ(whole.said, "read");
  expect_peak(whole, 256 + 16);

  write_file(path, gzip(idx_header(2048, uint32_t(kMegabyte))) + packed_megabytes('x', 2048));
  const Outcome large = tried([&] { read_idx(path); });
  EXPECT_EQ(
      large.said,
      "`" + path + "` promises to unpack to 2147483660 bytes, and at most 1073741824 are read (ReadLimits raises it).");
  expect_peak(large, 16);

  write_file(path, gzip(idx_header(1000, uint32_t(kMegabyte)) + "and nothing else"));
  const Outcome lying = tried([&] { read_idx(path); });
  EXPECT_NE(lying.said.find("its header promises 1000×1048576 elements of u8"), string::npos) << lying.said;
  expect_peak(lying, 16);
}

TEST(Bombs, AnNpzFileIsUnpackedIntoItsArrays) {
  const TemporaryFolder folder;
  const string path = folder.path + "/arrays.npz";
  const Array big(parse_shape("16,1048576"), DType::f32);  // 64 megabytes
  write_npz(path, {{"a", big}, {"b", big}, {"c", big}, {"d", big}}, Packing::deflated);
  const Outcome whole = tried([&] { EXPECT_EQ(read_npz(path).size(), 4u); });
  EXPECT_EQ(whole.said, "read");
  expect_peak(whole, 256 + 16);
  const Outcome large = tried([&] { read_npz(path, {.unpacked = uint64_t(200 * kMegabyte)}); });
  EXPECT_NE(
      large.said.find(
          "up to `d.npy` it would unpack to 268435968 bytes, and at most 209715200 are read (ReadLimits raises it)"),
      string::npos)
      << large.said;
  expect_peak(large, 16);

  write_file(path, gzip(npy_content(big)));
  const Outcome npy = tried([&] { read_npy(path); });
  EXPECT_EQ(npy.said, "read");
  expect_peak(npy, 64 + 16);
  EXPECT_NE(tried([&] {
              read_npy(path, {.unpacked = 1000});
            }).said.find("needs 67108864 bytes, and at most 1000 are unpacked (ReadLimits raises it)"),
            string::npos);
}

TEST(Bombs, TextsHaveALimitThatACallerRaises) {
  const TemporaryFolder folder;
  const string path = folder.path + "/table.gz";
  write_file(path, gzip("1,2\n3,4\n"));
  EXPECT_EQ(read_lines(path, {.unpacked = 8}).size(), 2u);
  EXPECT_EQ(tried([&] { read_lines(path, {.unpacked = 7}); }).said,
            "`" + path + "` unpacks to more than 7 bytes, the most that is read (ReadLimits raises it).");
  write_file(path, packed_megabytes('\n', 256));
  CsvOptions options;
  options.limits.unpacked = uint64_t(64 * kMegabyte);
  const Outcome large = tried([&] { read_csv(path, options); });
  EXPECT_EQ(large.said,
            "`" + path + "` unpacks to more than 67108864 bytes, the most that is read (ReadLimits raises it).");
  expect_peak(large, 2 * 64 + 16);  // a text grows while it comes
  EXPECT_EQ(CsvOptions().limits.unpacked, uint64_t(1) << 30);
}

// Two bytes of text are a value, which takes four as f32 and one as u8.
TEST(Bombs, ATableTakesItsTextAndItsArray) {
  string text;
  for (int i = 0; i < 8 * kMegabyte; ++i) text += "7\n";
  for (const auto& [dtype, megabytes] : {std::pair{DType::f32, 32}, {DType::u8, 8}, {DType::i64, 64}}) {
    const Outcome table =
        tried([&, dtype = dtype] { EXPECT_EQ(parse_csv(text, "table.csv", {.dtype = dtype}).values.at(9), 7); });
    EXPECT_EQ(table.said, "read");
    expect_peak(table, megabytes + 8);
  }
}

TEST(Bombs, ATensorHasFewAxes) {
  string shape = "1";
  for (int i = 0; i < 2'000'000; ++i) shape += ",1";
  string header = R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})";
  string length;
  for (size_t i = 0; i < 8; ++i) length += char(uint8_t(header.size() >> (8 * i)));
  const string content = length + header + "x";
  const Outcome outcome = tried([&] { parse_safetensors(content, "axes.safetensors"); });
  EXPECT_EQ(outcome.said,
            "`axes.safetensors` is not a usable safetensors file: its header has a list of more than 64 values.");
  expect_peak(outcome, 4);
  Tensors many;
  many.list["a"].sizes.assign(65, 1);
  many.list["a"].elements.resize(4);
  EXPECT_THROW(safetensors_content(many), ConfigError) << "what is written can be read";
}

// Sizes of a damaged model are refused before there is memory for its weights.
TEST(Bombs, AModelTakesWhatItsFileHas) {
  constexpr int32_t kMuch = 1 << 24;
  const std::vector<int32_t> rows[] = {{64, 172, 5, 8, 4, kMuch, 512},
                                       {64, 172, 5, 8, 4, -kMuch, 512},
                                       {64, 172, 5, 8, 4, 512, kMuch},
                                       {kMuch, kMuch, kMuch, kMuch / 2, 1, 512, 512}};
  for (const std::vector<int32_t>& sizes : rows) {
    string content(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof sizes[0]);
    content += string(1'000'000, '\0');
    const Outcome outcome = tried([&] { pretrained::parse_llama2c(content, "damaged.bin"); });
    EXPECT_EQ(outcome.said, "damaged.bin is no model of llama2.c: it has 1000028 bytes, fewer than its sizes need.");
    expect_peak(outcome, 16);
  }
  const Outcome blocks = tried([] { pretrained::renamed({}, {{}, {}, kMuch * 64LL}, "damaged"); });
  EXPECT_EQ(blocks.said, "damaged: it has 0 tensors, too few for the 1073741824 blocks of the model.");
}

TEST(Bombs, WhereTheMemoryDoesNotSufficeTheFileIsNamed) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs the address space";
  const TemporaryFolder folder;
  const string path = folder.path + "/images.gz";
  write_file(path, gzip(idx_header(512, uint32_t(kMegabyte))) + packed_megabytes('x', 512));
  const string bytes = std::to_string(std::filesystem::file_size(path));
  const string expected = "there is not enough memory to read `" + path + "`, a file of " + bytes + " bytes.";
  EXPECT_EQ(tried([&] { read_idx(path); }, 100 * kMegabyte).said, expected);
  EXPECT_EQ(tried([&] { read_lines(path); }, 100 * kMegabyte).said, expected);
  EXPECT_EQ(tried([&] { read_csv(path); }, 100 * kMegabyte).said, expected);
  const Outcome array = tried([] { Array(parse_shape("1000|1000,1000")); }, 100 * kMegabyte);
  EXPECT_EQ(array.said, "there is not enough memory for an array of f32 of shape 1000|1000,1000, 4000000000 bytes.");
}

TEST(Bombs, WhatIsNoRegularFileIsNotWaitedFor) {
  const TemporaryFolder folder;
  const string path = folder.path + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const auto& read : std::vector<std::function<void(const string&)>>{
           [](const string& p) { read_idx(p); }, [](const string& p) { read_npy(p); },
           [](const string& p) { read_npz(p); }, [](const string& p) { read_csv(p); },
           [](const string& p) { read_lines(p); }, [](const string& p) { read_safetensors(p); }})
    for (const string& file : {path, folder.path, string("/dev/zero")}) {
      const string said = tried([&] { read(file); }).said;
      EXPECT_TRUE(said.starts_with("`" + file + "` cannot be read: it is a ")) << said;
    }
}

}  // namespace
}  // namespace caravan::data
