// Mistakes of users and what they are told, as the tests of this folder write them down. Every message names a line of
// the user's program, here of the test, and none a line of the library. In a message, [name] stands for the line of the
// test that ends in the comment `// [name]`.
//
// UPDATE_GOLDEN=1 prints what each mistake gives now.
#pragma once

#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <regex>

namespace caravan {

// Line by name.
inline std::map<std::string, int> marked_lines(const std::string& test) {
  std::map<std::string, int> out;
  std::ifstream file("tests/mistakes/" + test);  // tests run in the repository's root
  EXPECT_TRUE(file) << "run it in the root of the repository";
  const std::regex mark("// \\[([a-z_0-9 ]+)\\]$");
  std::string text;
  for (int line = 1; std::getline(file, text); ++line)
    if (std::smatch found; std::regex_search(text, found, mark)) {
      EXPECT_EQ(out.count(found[1]), 0U) << "two lines are called " << found[1];
      out[found[1]] = line;
    }
  return out;
}

// The message with names for lines of the test.
inline std::string with_names(const std::string& message, const std::string& test) {
  std::map<int, std::string> names;
  for (const auto& [name, line] : marked_lines(test)) names[line] = name;
  std::string out, rest = message;
  const std::regex place("([A-Za-z_][A-Za-z_0-9.]*):([0-9]+)");
  bool of_user = false;
  for (std::smatch found; std::regex_search(rest, found, place); rest = found.suffix()) {
    out += found.prefix();
    EXPECT_EQ(found[1], test) << "a line that the user did not write, in:\n" << message;
    const auto name = names.find(std::stoi(found[2]));
    out += found[1] == test && name != names.end() ? "[" + name->second + "]" : found.str();
    of_user = true;
  }
  EXPECT_TRUE(of_user) << "no line of the user's in:\n" << message;
  return out + rest;
}

// In the message, FILE stands for the path.
inline void expect(const std::string& message, const std::function<void(Context&)>& code, const std::string& path = "",
                   const std::string& test = __builtin_FILE()) {
  Context ctx({.device = "interp"});
  try {
    code(ctx);
    ADD_FAILURE() << "not refused:\n" << message;
  } catch (const UserError& error) {
    std::string told = with_names(error.what(), test.substr(test.rfind('/') + 1));
    for (size_t at; !path.empty() && (at = told.find(path)) != told.npos;) told.replace(at, path.size(), "FILE");
    if (std::getenv("UPDATE_GOLDEN")) std::printf("<<<%s>>>\n", told.c_str());
    EXPECT_EQ(told, message);
  }
}

inline Array counting(const std::string& shape, DType dtype = DType::f32) {
  Array out(parse_shape(shape), dtype);
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, double(i % 3));
  return out;
}

}  // namespace caravan
