// Lines of text, and tables.
#include "caravan/data/csv.h"

#include <gtest/gtest.h>

#include <limits>

#include "caravan/data/atomic_file.h"
#include "caravan/data/gzip.h"
#include "caravan/data/text.h"
#include "damage.h"
#include "temporary_folder.h"

namespace caravan::data {
namespace {

using std::string;
using Values = std::vector<double>;

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

}  // namespace
}  // namespace caravan::data
