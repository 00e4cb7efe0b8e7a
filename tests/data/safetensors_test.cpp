// safetensors files: what is written comes back bit for bit, and no bytes whatever do harm.
#include "caravan/data/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "caravan/base/error.h"
#include "temporary_folder.h"

namespace caravan::data {
namespace {

using std::string;

string file(const string& header, const string& elements = "") {
  string out;
  for (int i = 0; i < 8; ++i) out += char(uint8_t(uint64_t(header.size()) >> (8 * i)));
  return out + header + elements;
}

string refusal(const string& content) {
  try {
    parse_safetensors(content, "model.safetensors");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

StoredTensor random_tensor(StoredType type, std::vector<int64_t> sizes, std::mt19937& random) {
  int64_t bytes_needed = bytes(type);
  for (int64_t size : sizes) bytes_needed *= size;
  StoredTensor out{type, std::move(sizes), std::vector<std::byte>(size_t(bytes_needed))};
  for (std::byte& b : out.elements) b = std::byte(random());
  return out;
}

Tensors one_of_each(uint32_t seed) {
  std::mt19937 random(seed);
  Tensors out;
  for (int t = 0; t < kStoredTypeCount; ++t) {
    const StoredType type = StoredType(t);
    const string prefix(name(type));
    out.list[prefix + ".scalar"] = random_tensor(type, {}, random);
    out.list[prefix + ".matrix"] = random_tensor(type, {3, 5}, random);
    out.list[prefix + ".empty"] = random_tensor(type, {2, 0, 7}, random);
  }
  out.metadata = {{"note", "quoted \" and \\ and \n and é"}, {"", "empty key"}};
  return out;
}

void expect_equal(const Tensors& a, const Tensors& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.list.size(), b.list.size());
  for (const auto& [name, tensor] : a.list) {
    const StoredTensor* other = b.find(name);
    ASSERT_TRUE(other) << name;
    EXPECT_EQ(tensor.type, other->type) << name;
    EXPECT_EQ(tensor.sizes, other->sizes) << name;
    EXPECT_EQ(tensor.elements, other->elements) << name;
  }
}

TEST(Safetensors, EveryTypeComesBackBitForBit) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const Tensors tensors = one_of_each(seed);
    const string content = safetensors_content(tensors);
    const Tensors back = parse_safetensors(content, "memory");
    expect_equal(tensors, back);
    EXPECT_EQ(safetensors_content(back), content);
  }
}

TEST(Safetensors, ElementsAreAlignedAndTheWidestComeFirst) {
  const string content = safetensors_content(one_of_each(1));
  const size_t header = size_t(uint8_t(content[0])) | size_t(uint8_t(content[1])) << 8;
  EXPECT_EQ(header % 8, 0u);
  const string text = content.substr(8, header);
  EXPECT_LT(text.find("U64.matrix"), text.find("F64.matrix"));
  EXPECT_LT(text.find("F64.matrix"), text.find("F32.matrix"));
  EXPECT_LT(text.find("F32.empty"), text.find("F32.matrix"));
  EXPECT_LT(text.find("U8.matrix"), text.find("BOOL.matrix"));
}

TEST(Safetensors, ArraysOfEveryPrecisionComeBack) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const DType type = DType(t);
    Array array(parse_shape("2|3->4"), type);
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, double(i % 2));
    Tensors tensors;
    tensors.list["a"] = stored(array);
    const Array back = parse_safetensors(safetensors_content(tensors), "memory").array("a");
    EXPECT_EQ(back.dtype(), type);
    EXPECT_EQ(to_string(back.shape()), "2,4,3");  // memory order: batch, output, input
    EXPECT_EQ(std::memcmp(back.data(), array.data(), size_t(array.size() * bytes(type))), 0) << name(type);
  }
}

TEST(Safetensors, ArraysThatAreMissingOrOfAnotherTypeAreRefused) {
  const Tensors tensors = one_of_each(1);
  EXPECT_THROW(tensors.array("weight"), ConfigError);
  EXPECT_THROW(tensors.array("U16.matrix"), ConfigError);
  EXPECT_EQ(tensors.array("F32.empty").size(), 0);
}

TEST(Safetensors, AnEmptyFileOfTensorsIsOne) { EXPECT_TRUE(parse_safetensors(file("{}"), "memory").list.empty()); }

TEST(Safetensors, DamagedFilesAreRefusedWithAReason) {
  const string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", eight(8, 'x'), sixteen(16, 'x');
  auto described = [](const string& fields) { return file(R"({"a":{)" + fields + "}}", string(8, 'x')); };
  struct {
    string content, phrase;
  } rows[] = {
      {"", "it has 0 bytes"},
      {"1234567", "it has 7 bytes"},
      {string("\x00\xe1\xf5\x05\0\0\0\0", 8) + "{}", "but only 2 follow"},  // 100,000,000
      {string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}", "it does not begin with the length of a header"},
      {string(8, '\xff') + "{}", "it does not begin with the length of a header"},
      {file("{" + a + "}", eight).substr(0, 30), "it is truncated"},
      {file(""), "does not begin with `{`"},
      {file(" {}"), "does not begin with `{`"},
      {file("\xef\xbb\xbf{}"), "does not begin with `{`"},
      {file("[]"), "does not begin with `{`"},
      {file("{" + a + ",}", eight), "not valid JSON at byte"},
      {file("{" + a + "", eight), "not valid JSON at byte"},
      {file("{" + a + "} x", eight), "not valid JSON at byte"},
      {file("{" + a + "}" + string("\0x", 2), eight), "not valid JSON at byte 55"},
      {file("{\"\xff\":1}"), "not valid JSON at byte"},
      {file("{\"\xc0\xaf\":1}"), "not valid JSON at byte"},  // overlong
      {file(R"({"\ud800":1})"), "not valid JSON at byte"},
      {file(R"({"a":1e999})"), "not valid JSON"},
      {file("{" + a + "," + a + "}", eight), "has the name `a` twice"},
      {file("{" + a +
                ","
                R"("\u0061":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
            sixteen),
       "`a` twice"},
      {file(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight), "`dtype` twice"},
      {file(R"({"__metadata__":{"k":"1","k":"2"}})"), "`k` twice"},
      {file(R"({"__metadata__":{},"__metadata__":{}})"), "`__metadata__` twice"},
      {file(R"({"__metadata__":[]})"), "__metadata__ is not a map of texts"},
      {file(R"({"__metadata__":"text"})"), "__metadata__ is not a map of texts"},
      {file(R"({"__metadata__":{"steps":10}})"), "`steps` of its __metadata__ is not a text"},
      {file(R"({"__metadata__":{"model":{}}})"), "`model` of its __metadata__ is not a text"},
      {file(R"({"a":1})"), "tensor `a` is not described by an object"},
      {file(R"({"a":{"b":[[1]]}})"), "nested deeper than 3 levels"},
      {file("{\"a\":" + string(100000, '[')), "nested deeper than 3 levels"},
      {described(R"("shape":[2],"data_offsets":[0,8])"), "tensor `a` has no `dtype`"},
      {described(R"("dtype":"F32","data_offsets":[0,8])"), "tensor `a` has no `shape`"},
      {described(R"("dtype":"F32","shape":[2])"), "tensor `a` has no `data_offsets`"},
      {described(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1)"), "unknown field `more`"},
      {described(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), "unknown dtype `F31`"},
      {described(R"("dtype":"f32","shape":[2],"data_offsets":[0,8])"), "unknown dtype `f32`"},
      {described(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), "unknown dtype `7`"},
      {described(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), "`shape` of tensor `a` must be a list"},
      {described(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "`shape` of tensor `a` must have whole"},
      {described(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "must have whole numbers"},
      {described(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), "must have whole numbers"},
      {described(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"), "must have whole numbers"},
      {described(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8])"), "must have whole numbers"},
      {described(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "than can be counted"},
      {described(R"("dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8])"), "than can be counted"},
      {described(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
       "`a`, F32 of shape [3], needs 12 bytes but has 8"},
      {described(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"), "needs 4 bytes but has 8"},
      {described(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "must be two numbers"},
      {described(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,16])"), "must be two numbers"},
      {described(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), "must have whole numbers"},
      {described(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "lies at 8 to 0 of 8 bytes"},
      {described(R"("dtype":"F32","shape":[2],"data_offsets":[8,16])"), "lies at 8 to 16 of 8 bytes"},
      {file("{" + a + "}", string(7, 'x')), "may be truncated"},
      {file("{" + a + "}", string(9, 'x')), "the last 1 bytes belong to no tensor"},
      {file("{}", "x"), "the last 1 bytes belong to no tensor"},
      {file("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", sixteen), "overlaps another"},
      {file("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight), "overlaps another"},
      {file("{" + a + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", sixteen), "overlaps another"},
      {file("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", sixteen),
       "bytes 8 to 12 before tensor `b` belong to no tensor"},
      {file(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight), "bytes 0 to 4 before tensor `b`"},
      {file("{" + a + R"(,"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})", eight), "overlaps another"},
      {file(R"({"line\nbreak":1})"), "`line\\x0abreak`"},
      {file("{\"" + string(5000, 'n') + "\":1}"), string(80, 'n') + "..`"},
  };
  for (const auto& [content, phrase] : rows) {
    const string said = refusal(content);
    EXPECT_NE(said.find(phrase), string::npos) << "expected \"" << phrase << "\", got: " << said;
    EXPECT_EQ(said.find("`model.safetensors` is not a usable safetensors file: "), 0u) << said;
    EXPECT_EQ(said.find('\n'), string::npos) << said;
    EXPECT_LT(said.size(), 400u);
  }
}

TEST(Safetensors, NoTruncationIsAFile) {
  const string content = safetensors_content(one_of_each(1));
  for (size_t n = 0; n < content.size(); ++n) EXPECT_NE(refusal(content.substr(0, n)), "") << n;
}

TEST(Safetensors, RandomDamageIsRefusedOrRead) {
  std::mt19937 random(7);
  const string whole = safetensors_content(one_of_each(1));
  const size_t header = 8 + (size_t(uint8_t(whole[0])) | size_t(uint8_t(whole[1])) << 8);
  int refused = 0, read = 0;
  for (int round = 0; round < 20000; ++round) {
    string content = whole;
    for (int flips = 1 + int(random() % 4); flips > 0; --flips) {
      char& byte = content[random() % header];
      byte = random() % 2 ? char(byte ^ (1 << random() % 8)) : char("0123456789{}[]\",:-eF"[random() % 20]);
    }
    if (random() % 8 == 0) content.resize(random() % content.size());
    if (random() % 8 == 0) content.insert(random() % content.size(), string(1 + random() % 9, char(random())));
    try {
      const Tensors tensors = parse_safetensors(content, "damaged");
      expect_equal(parse_safetensors(safetensors_content(tensors), "again"), tensors);
      ++read;
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
  EXPECT_GT(read, 100);  // a letter of a name, say
}

TEST(Safetensors, WritingRefusesWhatCannotBeReadBack) {
  auto tensors = [](const string& name, const StoredTensor& tensor) {
    Tensors out;
    out.list[name] = tensor;
    return out;
  };
  const StoredTensor one{StoredType::u8, {1}, {std::byte(1)}};
  EXPECT_THROW(safetensors_content(tensors("__metadata__", one)), ConfigError);
  EXPECT_THROW(safetensors_content(tensors("\xff", one)), ConfigError);
  EXPECT_THROW(safetensors_content(tensors("a", {StoredType::u8, {2}, {std::byte(1)}})), ConfigError);
  EXPECT_THROW(safetensors_content(tensors("a", {StoredType::u8, {-1}, {}})), ConfigError);
}

TEST(Safetensors, FilesAreReplacedWholeAndNothingElseIsLeft) {
  const TemporaryFolder folder;
  const string path = folder.path + "/a.safetensors";
  write_safetensors(path, one_of_each(1));
  write_safetensors(path, one_of_each(2));
  expect_equal(read_safetensors(path), one_of_each(2));
  EXPECT_EQ(folder.files(), 1u);

  Tensors wrong;
  wrong.list["a"] = {StoredType::f32, {2}, {}};
  EXPECT_THROW(write_safetensors(path, wrong), ConfigError);
  expect_equal(read_safetensors(path), one_of_each(2));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Safetensors, PathsThatAreNoFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_safetensors(folder.path), ConfigError);
  EXPECT_THROW(read_safetensors(folder.path + "/none"), ConfigError);
  EXPECT_THROW(write_safetensors(folder.path, {}), ConfigError);
  EXPECT_THROW(write_safetensors(folder.path + "/none/a", {}), ConfigError);
  EXPECT_EQ(folder.files(), 0u);
}

}  // namespace
}  // namespace caravan::data
