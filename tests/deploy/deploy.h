// What the tests of exported C share: a folder in which C is compiled without a warning, run, and compared.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "caravan/caravan.h"
#include "caravan/deploy/c99.h"

namespace caravan::deploy {

using namespace caravan::nn;

bool has_compiler(const std::string& name);
std::string contents(const std::filesystem::path& path);

struct Ran {
  int status = -1;
  std::string out, error;
  std::vector<double> numbers() const;  // all that it printed
};

class Deploy : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const;

  // The arguments of the compiler are files of the folder and flags.
  bool compiles(const std::string& arguments, const std::string& compiler = "cc") const;
  Ran shell(const std::string& command, const std::string& input = "") const;
  Ran program(const CSource& file, const std::string& input, const std::string& flags = "") const;

  std::filesystem::path folder_;
};

std::string text_of(const std::vector<Array>& inputs);  // as a program reads them
Array random_array(const Shape& shape, DType dtype, std::mt19937& random, double low, double high);
double largest_of(const std::vector<double>& values);
void expect_near(const std::vector<double>& given, const std::vector<double>& expected, double tolerance,
                 const std::string& what);

}  // namespace caravan::deploy
