// Data that is made, tables, NumPy's files, text, batches and checksums.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "caravan/data/atomic_file.h"
#include "caravan/data/csv.h"
#include "caravan/data/gzip.h"
#include "caravan/data/loader.h"
#include "caravan/data/npy.h"
#include "caravan/data/order.h"
#include "caravan/data/sha256.h"
#include "caravan/data/synthetic.h"
#include "caravan/data/text.h"
#include "caravan/data/zip.h"
#include "damage.h"
#include "data/counted.h"
#include "temporary_folder.h"

namespace caravan::data {
namespace {

using std::string;
using Values = std::vector<double>;

TEST(Synthetic, RingsArmsAndDiscsAreWhereTheyShouldBe) {
  const LabelledPoints rings = circles({.points = 400, .inner = 0.4, .noise = 0.05, .seed = 2});
  const LabelledPoints arms = spirals({.points = 400, .turns = 1, .noise = 0, .seed = 2});
  const LabelledPoints inside = disc({.points = 4000, .seed = 2});
  const LabelledPoints pairs = products({.points = 4000, .seed = 2});
  auto at = [](const LabelledPoints& p, int64_t i) {
    return std::array{p.points.at({i, 0}), p.points.at({i, 1}), p.labels.at({i, 0})};
  };
  double label_sum = 0;
  for (int64_t i = 0; i < 400; ++i) {
    const auto [x, y, label] = at(rings, i);
    EXPECT_NEAR(std::hypot(x, y), label > 0 ? 0.4 : 1, 0.0708);
    label_sum += label;
    const auto [sx, sy, arm] = at(arms, i);
    const double radius = std::hypot(sx, sy), angle = 2 * 3.141592653589793 * (radius - 0.1) / 0.9;
    EXPECT_NEAR(sx, arm * radius * std::cos(angle), 1e-5);
    EXPECT_NEAR(sy, arm * radius * std::sin(angle), 1e-5);
  }
  EXPECT_EQ(label_sum, 0);
  double in = 0, x_sum = 0;
  for (int64_t i = 0; i < 4000; ++i) {
    const auto [x, y, label] = at(inside, i);
    EXPECT_TRUE(std::fabs(x) <= 2 && std::fabs(y) <= 2);
    EXPECT_EQ(label, x * x + y * y < 1.4 * 1.4 ? 1 : -1) << x << ' ' << y;
    in += label > 0, x_sum += x;
    const auto [a, b, product] = at(pairs, i);
    EXPECT_TRUE(a >= 0 && a < 3 && b >= 0 && b < 3);
    EXPECT_EQ(product, float(a) * float(b));
  }
  EXPECT_NEAR(in / 4000, 3.141592653589793 * 1.96 / 16, 0.03);
  EXPECT_NEAR(x_sum / 4000, 0, 0.1);
}

TEST(Synthetic, IsAFunctionOfItsOptions) {
  auto all = [](uint64_t seed) {
    Arrays out;
    for (const LabelledPoints& p :
         {half_moons({.points = 20, .seed = seed}), circles({.points = 20, .seed = seed}),
          spirals({.points = 20, .seed = seed}), disc({.points = 20, .seed = seed}),
          products({.points = 20, .seed = seed}), products({.points = 20, .seed = seed, .stream = "other"})})
      out.push_back(p.points);
    return out;
  };
  const Arrays once = all(1), again = all(1), other = all(2);
  EXPECT_TRUE(same(once, again));
  for (size_t i = 0; i < once.size(); ++i) EXPECT_FALSE(same(once[i], other[i])) << i;
  EXPECT_FALSE(same(once[4], once[5]));
  for (int64_t wrong : {-2, 0, 1, 7}) {
    EXPECT_THROW(half_moons({.points = wrong}), ConfigError);
    EXPECT_THROW(circles({.points = wrong}), ConfigError);
    EXPECT_THROW(spirals({.points = wrong}), ConfigError);
  }
  EXPECT_THROW(disc({.points = 0}), ConfigError);
  EXPECT_THROW(products({.points = 0}), ConfigError);
}

TEST(Text, LinesEndWithLfOrCrlf) {
  using Lines = std::vector<string>;
  EXPECT_EQ(lines(""), Lines{});
  EXPECT_EQ(lines("\n"), Lines{""});
  EXPECT_EQ(lines("one\ntwo\n"), (Lines{"one", "two"}));
  EXPECT_EQ(lines("one\r\n\r\ntwo"), (Lines{"one", "", "two"}));
  EXPECT_EQ(lines("z\xc3\xbc\rx\n"), Lines{"z\xc3\xbc\rx"});
  const TemporaryFolder folder;
  write_file(folder.path + "/a.gz", gzip("one\ntwo"));
  EXPECT_EQ(read_lines(folder.path + "/a.gz"), (Lines{"one", "two"}));
}

TEST(Csv, Tables) {
  struct {
    string content;
    CsvOptions options;
    std::vector<string> names;
    string shape;
    Values values;
  } rows[] = {
      {"1,2\n3,4\n", {}, {}, "2|2", {1, 2, 3, 4}},
      {"1,2\r\n3,4", {}, {}, "2|2", {1, 2, 3, 4}},
      {" 1 ,\t+2\n\"3\",\"-4e1\"\n", {}, {}, "2|2", {1, 2, 3, -40}},
      {"1;2,5\n", {.separator = ';', .header = true}, {"1", "2,5"}, "0|2", {}},
      {"\xef\xbb\xbf\"a \"\"b\"\"\",\"c\nd\"\n7,8\n", {.header = true}, {"a \"b\"", "c\nd"}, "1|2", {7, 8}},
      {"", {}, {}, "0|0", {}},
      {"1,2\n\n3,4\n\n", {}, {}, "2|2", {1, 2, 3, 4}},
      {"\r\n \t\r\n1,2\r\n  \r\n3,4\r\n\r\n \t", {}, {}, "2|2", {1, 2, 3, 4}},
      {"\na,b\n\n1,2\n \n", {.header = true}, {"a", "b"}, "1|2", {1, 2}},
      {"\n\n", {}, {}, "0|0", {}},
      {"5", {.dtype = DType::u8}, {}, "1|1", {5}},
      {"0.5\t1e-3\n", {.separator = '\t', .dtype = DType::f64}, {}, "1|2", {0.5, 1e-3}},
  };
  for (const auto& row : rows) {
    const Table table = parse_csv(row.content, "some.csv", row.options);
    EXPECT_EQ(table.names, row.names) << row.content;
    EXPECT_EQ(to_string(table.values.shape()), row.shape) << row.content;
    EXPECT_EQ(table.values.values(), row.values) << row.content;
    EXPECT_EQ(table.values.dtype(), row.options.dtype);
  }
  const TemporaryFolder folder;
  write_file(folder.path + "/a.csv.gz", gzip("1,2\n"));
  EXPECT_EQ(read_csv(folder.path + "/a.csv.gz").values.values(), (Values{1, 2}));
}

TEST(Csv, RefusalsNameLineAndColumn) {
  const Reader read = [](const string& content) { parse_csv(content, "some.csv"); };
  expect_refused(read,
                 {{"a,b\n1,2\n", "line 1, column 1: `a` is not a number that can be read (if the first row has names"},
                  {"1,2\n3,x\n", "line 2, column 2: `x` is not a number"},
                  {"1,2\n3,\n", "line 2, column 2: `` is not a number"},
                  {"1,2\n\n\n3,x\n", "line 4, column 2: `x` is not a number"},
                  {"1,2\n,\n", "line 2, column 1: `` is not a number"},
                  {"1,2\n\"\"\n", "line 2, column 1: `` is not a number"},
                  {"1,2\n3\n", "line 2 has 1 fields, and the rows before it have 2"},
                  {"1,2\n3,4,5", "line 2 has 3 fields, and the rows before it have 2"},
                  {"1,\"2\n\n", "line 1, column 2: a quote is not closed"},
                  {"1,\"2\"3\n", "line 1, column 2: `3` follows where a field should end"},
                  {"1,2\r3\n", "line 1, column 2: `\\x0d` follows where a field should end"},
                  {"1,0x10\n", "line 1, column 2: `0x10` is not a number"},
                  {"1,1e999\n", "line 1, column 2: `1e999` is not a number that can be read"},
                  {"1,1e40\n", "line 1, column 2: `1e40` does not fit f32"},
                  {string("1,2\0,3\n", 7), "line 1, column 2"}});
  EXPECT_NE(refusal([](const string& c) { parse_csv(c, "some.csv", {.dtype = DType::u8}); }, "1\n256\n")
                .find("does not fit u8"),
            string::npos);
  EXPECT_NE(refusal([](const string& c) { parse_csv(c, "some.csv", {.dtype = DType::i64}); }, "9223372036854775808\n")
                .find("does not fit i64"),
            string::npos);
  EXPECT_NE(refusal([](const string& c) { parse_csv(c, "some.csv", {.header = true}); }, "").find("it is empty"),
            string::npos);
  EXPECT_NE(refusal([](const string& c) { parse_csv(c, "some.csv", {.separator = '\t'}); }, "1\t2\n\t\n")
                .find("line 2, column 1: `` is"),
            string::npos);
  refused_bit_flips(read, "1.5,\"2\",3e4\r\n4,5,6\n");
}

// An id that f32 would round to another is refused; what is measured, and has a fraction or an exponent, is rounded.
TEST(Csv, WholeNumbersAreReadExactlyOrRefused) {
  auto read = [](DType dtype) { return [dtype](const string& c) { parse_csv(c, "some.csv", {.dtype = dtype}); }; };
  const string f32 = refusal(read(DType::f32), "1,2\n3,123456789\n");
  EXPECT_NE(f32.find("line 2, column 2: `123456789` is no number of f32, whose nearest one is 123456792; read the "
                     "table as f64 or i64"),
            string::npos)
      << f32;
  EXPECT_NE(refusal(read(DType::f32), " +16777217.00 \n").find("16777216"), string::npos);
  EXPECT_NE(refusal(read(DType::f32), "-16777217\n").find("read the table as f64 or i64"), string::npos);
  EXPECT_NE(refusal(read(DType::f16), "2049\n").find("is no number of f16"), string::npos);
  EXPECT_NE(refusal(read(DType::f64), "9007199254740993\n").find("read the table as i64."), string::npos);
  EXPECT_EQ(parse_csv("0.1,16777216,-3,6.02e23,123456789.5,1e10,1.23456789e8\n", "some.csv").values.at(0),
            double(0.1f));
  EXPECT_EQ(parse_csv("123456789,0.1\n", "some.csv", {.dtype = DType::f64}).values.at(0), 123456789);
  const Array ids =
      parse_csv("9007199254740993\n-9223372036854775808\n9223372036854775807\n5.0\n", "some.csv", {.dtype = DType::i64})
          .values;
  const int64_t expected[] = {9007199254740993, std::numeric_limits<int64_t>::min(),
                              std::numeric_limits<int64_t>::max(), 5};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(load_integer(DType::i64, ids.data(), i), expected[i]);
}

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

TEST(Order, IsAPermutationAndAFunctionOfItsNames) {
  const auto order = permutation(100, 3, "a");
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 100u);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 99);
  EXPECT_EQ(order, permutation(100, 3, "a"));
  EXPECT_NE(order, permutation(100, 4, "a"));
  EXPECT_NE(order, permutation(100, 3, "b"));
  EXPECT_NE(order, permutation(100, 3, "a", 1));
  EXPECT_TRUE(permutation(0, 3, "a").empty());
}

TEST(Split, PartsDoNotOverlapAndPairsStayTogether) {
  const Array x = counted("103|2"), y = counted("103|", DType::i32);
  const auto parts = split({x, y}, {0.8, 0.1, 0.1}, 5);
  ASSERT_EQ(parts.size(), 3u);
  std::set<double> seen;
  for (const Arrays& part : parts)
    for (int64_t i = 0; i < part[1].size(); ++i) {
      EXPECT_TRUE(seen.insert(part[1].at(i)).second);
      EXPECT_EQ(part[0].at({i, 1}), 2 * part[1].at(i) + 1);
    }
  EXPECT_EQ(seen.size(), 103u) << "none is lost";
  EXPECT_EQ(parts[0][1].size(), 82);
  EXPECT_TRUE(same(parts[0], split({x, y}, {0.8}, 5)[0]));
  EXPECT_FALSE(same(parts[0], split({x, y}, {0.8}, 6)[0]));
  EXPECT_EQ(split({y}, {0.0, 1.0}, 1)[0][0].size(), 0);
  EXPECT_EQ(split({y}, {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1)[2][0].size(), 34);
  EXPECT_THROW(split({x, y}, {0.8, 0.3}, 5), ConfigError);
  EXPECT_THROW(split({x, y}, {-0.1}, 5), ConfigError);
  EXPECT_THROW(split({x, counted("102|")}, {0.5}, 5), ShapeError);
  EXPECT_THROW(split({}, {0.5}, 5), ShapeError);
  EXPECT_THROW(split({counted("")}, {0.5}, 5), ShapeError);
  const Arrays all = shuffled({x, y}, 5);
  EXPECT_EQ(all[0].at({7, 0}), 2 * all[1].at(7));
  EXPECT_FALSE(same(all, {x, y}));
}

TEST(Batches, TheLastIsCompletedByTheFirstExamples) {
  const Array batches = whole_batches(counted("7|2"), 3);
  EXPECT_EQ(to_string(batches.shape()), "3,3|2");
  EXPECT_EQ(batches.at({2, 0, 0}), 12);
  EXPECT_EQ(batches.at({2, 1, 0}), 0);
  EXPECT_EQ(batches.at({2, 2, 1}), 3);
  EXPECT_EQ(to_string(whole_batches(counted("6|2"), 3).shape()), "2,3|2");
  EXPECT_EQ(whole_batches(counted("2|"), 5).values(), (Values{0, 1, 0, 1, 0}));
  EXPECT_THROW(whole_batches(counted("6|2"), 0), ConfigError);
  EXPECT_THROW(whole_batches(counted("0|2"), 3), ShapeError);
}

TEST(Rows, AreMappedAndZipped) {
  const Array x = counted("3|2"), y = counted("3|");
  auto sum = [](const Array& row) { return Array::scalar(row.at(0) + row.at(1)); };
  const Array sums = map_rows(x, sum);
  EXPECT_EQ(to_string(sums.shape()), "3|");
  EXPECT_EQ(sums.values(), (Values{1, 5, 9}));
  const Array scaled = zip_rows(
      x, y, [](const Array& row, const Array& by) { return row.map([&](double v) { return v * by.item(); }); });
  EXPECT_EQ(to_string(scaled.shape()), "3|2");
  EXPECT_EQ(scaled.values(), (Values{0, 0, 2, 3, 8, 10}));
  EXPECT_THROW(zip_rows(x, counted("2|"), [](const Array& a, const Array&) { return a; }), ShapeError);
  EXPECT_THROW(map_rows(counted("0|2"), sum), ShapeError);
  int calls = 0;
  EXPECT_THROW(map_rows(x, [&](const Array&) { return counted(calls++ ? "2" : "3"); }), ShapeError);
}

TEST(Normalization, IsFittedOnceAndAppliedToOthers) {
  const Array train(parse_shape("4|2"), {0, 5, 2, 5, 4, 5, 6, 5}), test(parse_shape("1|2"), {3, 7});
  const Normalization each(train, Over::each_feature);
  EXPECT_EQ(each.mean(), (Values{3, 5}));
  EXPECT_EQ(each.deviation(), (Values{std::sqrt(5), 1})) << "what does not vary is only shifted";
  EXPECT_EQ(each(test).values(), (Values{0, 2}));
  const Array normal = each(train);
  double sum = 0, square = 0;
  for (int64_t i = 0; i < 4; ++i) sum += normal.at({i, 0}), square += normal.at({i, 0}) * normal.at({i, 0});
  EXPECT_NEAR(sum, 0, 1e-6);
  EXPECT_NEAR(square / 4, 1, 1e-6);
  const Normalization all(train, Over::everything);
  EXPECT_EQ(all.mean(), Values{4});
  EXPECT_EQ(all(counted("3|7")).size(), 21);
  EXPECT_THROW(each(counted("3|7")), ShapeError);
  EXPECT_THROW(Normalization(counted("0|2"), Over::everything), ShapeError);
  const Array pixels = unit_pixels(Array(parse_shape("3|"), {0, 51, 255}, DType::u8));
  EXPECT_EQ(pixels.values(), (Values{0, double(0.2f), 1}));
  EXPECT_THROW(unit_pixels(counted("3|")), DTypeError);
}

Arrays numbered(int64_t n) {
  Array x(parse_shape(std::to_string(n) + "|2")), y(parse_shape(std::to_string(n) + "|"), DType::i64);
  for (int64_t i = 0; i < n; ++i) x.set(2 * i, double(i)), x.set(2 * i + 1, double(-i)), y.set(i, double(i));
  return {x, y};
}

std::vector<Arrays> take(Loader& loader, int64_t n) {
  std::vector<Arrays> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(loader.next());
  return out;
}

TEST(Batches, TheLastMayBeSmaller) {
  const Arrays arrays = {Array({.batch = {5}, .output = {2}}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), rows({0, 1, 2, 3, 4})};
  const std::vector<Arrays> parts = batches(arrays, 2);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1][0].values(), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(parts[1][1].values(), (std::vector<double>{2, 3}));
  EXPECT_EQ(to_string(parts[2][0].shape()), "1|2");
  EXPECT_EQ(parts[2][1].values(), (std::vector<double>{4}));
  EXPECT_EQ(batches(arrays, 5).size(), 1u);
  EXPECT_THROW(batches(arrays, 0), ConfigError);
  EXPECT_THROW(batches({arrays[0], rows({1})}, 2), ShapeError);
}

TEST(Csv, GivesColumns) {
  const Table table = parse_csv("size,age,rent\n40,10,500\n60,5,700\n", "flats", {.header = true});
  EXPECT_EQ(to_string(table.columns({"size", "age"}).shape()), "2|2");
  EXPECT_EQ(table.columns({"age", "size"}).values(), (std::vector<double>{10, 40, 5, 60}));
  EXPECT_EQ(table.columns({"rent"}).values(), (std::vector<double>{500, 700}));
  EXPECT_EQ(table.columns(1, 2).values(), (std::vector<double>{10, 500, 5, 700}));
  EXPECT_THROW(table.columns({"Rent"}), ConfigError);
  EXPECT_THROW(table.columns(2, 2), ConfigError);
  EXPECT_THROW(parse_csv("1,2\n", "flats").columns({"a"}), ConfigError);
}

TEST(Loader, EveryEpochHasEveryExampleInAnotherOrder) {
  Loader loader(numbered(10), {.batch = 4, .seed = 3});
  EXPECT_EQ(loader.steps_per_epoch(), 3);
  std::vector<Values> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    Values order;
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(loader.step(), 3 * epoch + step);
      const Arrays batch = loader.next();
      EXPECT_EQ(to_string(batch[0].shape()), "4|2");
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(batch[0].at({i, 0}), batch[1].at(i));
        order.push_back(batch[1].at(i));
      }
    }
    EXPECT_EQ(std::set<double>(order.begin(), order.begin() + 10).size(), 10u);
    EXPECT_EQ(order[10], order[0]) << "completed by the epoch's first";
    EXPECT_EQ(order[11], order[1]);
    orders.push_back(order);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Loader, TheOrderIsAFunctionOfSeedAndStep) {
  Loader loader(numbered(23), {.batch = 5, .seed = 3});
  const std::vector<Arrays> all = take(loader, 20);
  for (int64_t start : {0, 1, 4, 5, 12}) {
    Loader resumed(numbered(23), {.batch = 5, .seed = 3, .start_step = start, .ahead = 1 + start});
    EXPECT_EQ(resumed.step(), start);
    for (int64_t step = start; step < 20; ++step)
      EXPECT_TRUE(same(resumed.next(), all[size_t(step)])) << start << ' ' << step;
  }
  Loader other(numbered(23), {.batch = 5, .seed = 4});
  EXPECT_FALSE(same(other.next(), all[0]));
  Loader plain(numbered(3), {.batch = 2, .shuffle = false});
  EXPECT_EQ(plain.next()[1].values(), (Values{0, 1}));
  EXPECT_EQ(plain.next()[1].values(), (Values{2, 0}));
  EXPECT_EQ(plain.next()[1].values(), (Values{0, 1}));
  Loader large(numbered(2), {.batch = 5, .shuffle = false});
  EXPECT_EQ(large.next()[1].values(), (Values{0, 1, 0, 1, 0}));
  Loader endless(numbered(2), {.batch = INT64_MAX});
  EXPECT_EQ(endless.steps_per_epoch(), 1);
  EXPECT_THROW(endless.next(), std::exception) << "no machine has the memory";
}

TEST(Loader, WhatTheThreadThrowsReachesTheCallerAtItsStep) {
  Loader loader(numbered(10), {.batch = 2, .shuffle = false, .change = [](Arrays batch, int64_t step) -> Arrays {
                                 if (step == 3) throw StateError("the fourth");
                                 batch[1] = batch[1].map([](double v) { return v + 100; });
                                 return batch;
                               }});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(loader.next()[1].at(0), 100 + 2 * i);
  EXPECT_THROW(loader.next(), StateError);
  EXPECT_THROW(loader.next(), StateError) << "and again, instead of waiting for ever";
}

TEST(Loader, EndsWhateverItIsDoing) {
  for (int round = 0; round < 200; ++round) {
    Loader loader(numbered(50), {.batch = 3, .seed = uint64_t(round), .ahead = 1 + round % 3});
    for (int i = 0; i < round % 5; ++i) loader.next();
  }
  Loader moved(Loader(numbered(4), {.batch = 2, .shuffle = false}));
  EXPECT_EQ(moved.next()[1].values(), (Values{0, 1}));
  moved = Loader(numbered(4), {.batch = 1, .shuffle = false});
  EXPECT_EQ(moved.next()[1].values(), (Values{0}));
}

TEST(Loader, PreparesNoMoreThanItMay) {
  std::atomic<int64_t> made = 0;
  Loader loader(numbered(50), {.batch = 1, .ahead = 3, .change = [&](Arrays batch, int64_t) {
                                 ++made;
                                 return batch;
                               }});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(made, 1 + 3 + 1) << "taken, waiting, in hand";
}

TEST(Loader, WritingToAnArrayThatIsLoadedChangesNoBatch) {
  Arrays arrays = numbered(10);
  Loader loader(arrays, {.batch = 10, .shuffle = false});
  for (int round = 0; round < 20; ++round) {
    arrays[1].set(0, 77);
    EXPECT_EQ(loader.next()[1].at(0), 0);
  }
}

TEST(Loader, RefusesWhatCannotBe) {
  EXPECT_THROW(Loader(numbered(10), {.batch = 0}), ConfigError);
  EXPECT_THROW(Loader(numbered(10), {.start_step = -1}), ConfigError);
  EXPECT_THROW(Loader(numbered(10), {.ahead = 0}), ConfigError);
  EXPECT_THROW(Loader(numbered(0), {}), ShapeError);
  EXPECT_THROW(Loader({}, {}), ShapeError);
  EXPECT_THROW(Loader({counted("3|"), counted("4|")}, {}), ShapeError);
}

TEST(Sha256, KnownVectors) {  // FIPS 180-4's examples, and lengths around a block
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256(string(55, 'x')), "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256(string(56, 'x')), "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256(string(63, 'x')), "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256(string(64, 'x')), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256(string(65, 'x')), "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
}

}  // namespace
}  // namespace caravan::data
