// NumPy's files, and archives of them.
#include "caravan/data/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "caravan/data/atomic_file.h"
#include "caravan/data/zip.h"
#include "damage.h"
#include "data/counted.h"
#include "temporary_folder.h"

namespace caravan::data {
namespace {

using std::string;
using Values = std::vector<double>;

const Reader read_as_npy = [](const string& content) { parse_npy(content, "some.npy"); };
const Reader read_as_npz = [](const string& content) { parse_npz(content, "some.npz"); };

string npy(const string& header, const string& elements, char version = 1) {
  string out = string("\x93NUMPY") + version + '\0' + char(header.size() & 255) + char(header.size() >> 8);
  if (version > 1) out += string(2, '\0');
  return out + header + elements;
}

TEST(Npy, EveryPrecisionComesBack) {
  for (const char* shape : {"", "3", "2|3->4", "0|5", "2,0|3"})
    for (int t = 0; t < kDTypeCount; ++t) {
      const DType dtype = DType(t);
      const Array array = counted(shape, dtype);
      if (dtype == DType::bf16) {
        EXPECT_THROW(npy_content(array), ConfigError);
        continue;
      }
      const string content = npy_content(array);
      const Array back = parse_npy(content, "memory");
      EXPECT_EQ(back.shape().sizes(), array.shape().sizes());
      EXPECT_EQ(back.shape().rank(), int(back.shape().output.size()));
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.values(), array.values());
      EXPECT_EQ((content.find('\n') + 1) % 64, 0u) << "elements are aligned";
    }
  const Array wide = parse_npy(
      npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)),
      "wide");
  EXPECT_EQ(to_string(wide), "[9223372036854775807]") << "not through double";
}

// tests/fixtures/README.md says how NumPy made them: 0 to 23 in every type, both orders, both endiannesses.
TEST(Npy, ReadsWhatNumPyWrote) {
  for (const char* file : {"tests/fixtures/numpy_stored.npz", "tests/fixtures/numpy_deflated.npz"}) {
    const NamedArrays arrays = read_npz(file);
    EXPECT_EQ(arrays.size(), 22u);
    Values expected(24), truth(24, 1);
    for (int i = 0; i < 24; ++i) expected[size_t(i)] = i;
    truth[0] = 0;
    for (const auto& [name, array] : arrays) {
      if (name == "scalar") {
        EXPECT_EQ(array.item(), 1.5);
      } else if (name == "empty") {
        EXPECT_EQ(to_string(array.shape()), "0,3");
      } else {
        EXPECT_EQ(to_string(array.shape()), "2,3,4") << name;
        EXPECT_EQ(array.values(), name == "b1" ? truth : expected) << file << ' ' << name;
      }
    }
    for (const auto& [name, dtype] : std::map<string, DType>{{"b1", DType::boolean},
                                                             {"u1", DType::u8},
                                                             {"i1", DType::i32},
                                                             {"u2", DType::i32},
                                                             {"u4", DType::i64},
                                                             {"u8", DType::i64},
                                                             {"f2", DType::f16},
                                                             {"f8_big", DType::f64}})
      EXPECT_EQ(arrays.at(name).dtype(), dtype) << name;
  }
}

TEST(Npy, VersionsAndSpellings) {
  const string two = string("\1\0\2\0", 4);
  for (const string& content : {npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }\n", two),
                                npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }\n", two, 2),
                                npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }\n", two, 3),
                                npy("{\"shape\":(2,),\"descr\":\"=i2\",\"fortran_order\":True}", two)})
    EXPECT_EQ(parse_npy(content, "some.npy").values(), (Values{1, 2}));
  EXPECT_EQ(parse_npy(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\2\x80"), "b").values(),
            (Values{1, 1}));
}

TEST(Npy, DamageIsRefused) {
  const string whole = npy_content(counted("2|3", DType::i32));
  expect_every_prefix_refused(read_as_npy, whole);
  refused_bit_flips(read_as_npy, whole);
  auto header = [](const string& type, const string& order, const string& shape) {
    return npy("{'descr': " + type + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }", string(8, 'x'));
  };
  expect_refused(
      read_as_npy,
      {{"", "does not begin with"},
       {"\x93NUMPX", "does not begin with"},
       {"\x93NUMPY\4" + string(10, '\0'), "it has version 4"},
       {string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "its header would have 4294967295 bytes, but only 0 follow"},
       {header("'<f4'", "False", "(3,)"), "shape (3) of f4 needs 12 bytes, but 8 follow"},
       {header("'<f4'", "False", "(1,)"), "needs 4 bytes, but 8 follow"},
       {header("'<f4'", "False", "(4294967296, 4294967296)"), "needs more than can be counted bytes"},
       {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (4294967296, 536870912, 0)}", ""),
        "more than can be counted"},
       {header("'<f4'", "False", "(99999999999999999999,)"), "`shape` must have whole numbers"},
       {header("'<f4'", "False", "(-2,)"), "`shape` must have whole numbers, not `-2,), }`"},
       {header("'<f4'", "False", "(2.0,)"), "has `.0,), }` where `)` should be"},
       {header("'<f4'", "False", "[2]"), "has `[2], }` where `(` should be"},
       {header("'<f4'", "false", "(2,)"), "must be True or False"},
       {header("'<c8'", "False", "(1,)"), "the type `<c8`"},
       {header("'|O'", "False", "(1,)"), "the type `|O`"},
       {header("'|f4'", "False", "(2,)"), "the type `|f4`"},
       {header("'<U2'", "False", "(1,)"), "the type `<U2`"},
       {header("[('x', '<f4')]", "False", "(2,)"), "its elements are records"},
       {header("'<u8'", "False", "(1,)").replace(header("'<u8'", "False", "(1,)").size() - 8, 8, string(8, '\xff')),
        "element 0 is 18446744073709551615"},
       {npy("{'descr': '<f4', 'descr': '<f4'}", ""), "`descr` twice"},
       {npy("{'descr': '<f4', 'more': 1}", ""), "the unknown field `more`"},
       {npy("{'descr': '<f4'}", ""), "lacks `descr`, `fortran_order` or `shape`"},
       {npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} x", "1234"), "`x` follows its header"},
       {npy("{'descr", ""), "a text of its header has no end"},
       {npy("", ""), "ends where `{` should be"},
       {npy(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                [] {
                  string s;
                  for (int i = 0; i < 65; ++i) s += "1,";
                  return s;
                }() +
                ")}",
            "1234"),
        "more than 64 axes"}});
}

TEST(Npz, ComesBackStoredAndDeflated) {
  const NamedArrays arrays{{"a", counted("2,3")},
                           {"weights/b", counted("40,50", DType::u8)},
                           {"", counted("")},
                           {"z\xc3\xbc", counted("0")}};
  for (Packing packing : {Packing::stored, Packing::deflated}) {
    const string content = npz_content(arrays, packing);
    const NamedArrays back = parse_npz(content, "memory");
    ASSERT_EQ(back.size(), arrays.size());
    for (const auto& [name, array] : arrays) EXPECT_TRUE(same(back.at(name), array)) << name;
    EXPECT_EQ(npz_content(back, packing), content);
  }
  EXPECT_LT(npz_content(arrays, Packing::deflated).size(), npz_content(arrays, Packing::stored).size());
  EXPECT_TRUE(parse_npz(npz_content({}), "memory").empty());
  const TemporaryFolder folder;
  write_npz(folder.path + "/a.npz", arrays);
  write_npy(folder.path + "/a.npy", counted("3"));
  EXPECT_EQ(read_npz(folder.path + "/a.npz").size(), 4u);
  EXPECT_TRUE(same(read_npy(folder.path + "/a.npy"), counted("3")));
}

TEST(Npz, DamageIsRefused) {
  for (Packing packing : {Packing::stored, Packing::deflated}) {
    const string whole = npz_content({{"a", counted("2", DType::u8)}, {"b", counted("3", DType::u8)}}, packing);
    expect_every_prefix_refused(read_as_npz, whole);
    // Not looked at: versions, dates, attributes, and what the local header says again.
    EXPECT_GT(refused_bit_flips(read_as_npz, whole), 8 * whole.size() / 2);
  }
  auto changed = [](string content, size_t at, const string& bytes) {
    return content.replace(at, bytes.size(), bytes);
  };
  const string one = zip_content({{"a.npy", npy_content(counted("2", DType::u8))}}, false);
  const size_t directory = one.rfind("PK\1\2"), end = one.rfind("PK\5\6");
  const string zip_twice = zip_content({{"a.npy", "x"}, {"a.npy", "x"}}, false);
  expect_refused(read_as_npz, {{"", "it has 0 bytes"},
                               {string(100, 'x'), "no directory at its end"},
                               {one + "x", "no directory at its end"},
                               {zip_content({{"a.txt", "x"}}, false), "`a.txt` is not a .npy file"},
                               {zip_twice, "`a.npy` twice"},
                               {changed(one, directory + 8, "\1"), "is encrypted"},
                               {changed(one, directory + 10, "\x0c"), "packed by method 12"},
                               {changed(one, directory + 16, "\xff"), "`a.npy` is damaged"},
                               {changed(one, directory + 20, "\xff\xff\xff\xff"), "4 GiB or more"},
                               {changed(one, directory + 20, "\xff\xff\xff\x7f"), "behind the end of the file"},
                               {changed(one, directory + 24, "\xff\xff\xff\x7f"), "would unpack to 2147483647 bytes"},
                               {changed(one, directory + 42, "\1"), "no entry at byte 1"},
                               {changed(one, 30, "b"), "has another name where it is"},
                               {changed(one, end + 4, "\1"), "a part of several"},
                               {changed(one, end + 8, "\2"), "a part of several"},
                               {changed(one, end + 8, string("\2\0\2", 3)), "its directory is damaged"},
                               {changed(one, end + 8, string("\0\0\0", 3)), "bytes follow its directory"},
                               {changed(one, end + 8, "\xff\xff\xff\xff"), "65,535 entries"},
                               {changed(one, end + 16, "\xff\xff\xff\x0f"), "the file has room for 0"}});
  EXPECT_EQ(refusal(read_as_npz, changed(one, end + 20, string("\3\0", 2)) + "abc"), "") << "a comment is allowed";
}

TEST(Zip, OverlappingEntriesAreRefused) {
  // The second entry's bytes are a zip entry within the first's content.
  const string inner = zip_content({{"b", "text"}}, false);
  string outer = zip_content({{"a", inner}, {"b", "text"}}, false);
  const size_t second = outer.rfind("PK\1\2");
  outer[second + 42] = char(30 + 1), outer[second + 43] = outer[second + 44] = outer[second + 45] = 0;
  const string said = refusal([](const string& c) { parse_zip(c, "some.zip"); }, outer);
  EXPECT_NE(said.find("its entries overlap"), string::npos) << said;
}

}  // namespace
}  // namespace caravan::data
