#include "deploy/deploy.h"

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace caravan::deploy {

namespace {

constexpr const char* kFlags = " -O2 -Wall -Wextra -Werror -std=c99 -pedantic ";

}  // namespace

bool has_compiler(const std::string& name) { return std::system((name + " --version >/dev/null 2>&1").c_str()) == 0; }
std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<double> Ran::numbers() const {
  std::istringstream in(out);
  std::vector<double> values;
  for (std::string word; in >> word;) values.push_back(std::strtod(word.c_str(), nullptr));
  return values;
}
void Deploy::SetUp() {
  if (!has_compiler("cc")) GTEST_SKIP() << "there is no C compiler `cc` here";
  folder_ = std::filesystem::temp_directory_path() / ("caravan_deploy_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directories(folder_);
}
void Deploy::TearDown() {
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}
void Deploy::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}
bool Deploy::compiles(const std::string& arguments, const std::string& compiler) const {
  const Ran run = shell("cd '" + folder_.string() + "' && " + compiler + kFlags + arguments);
  EXPECT_EQ(run.status, 0) << compiler << kFlags << arguments << "\n" << run.error;
  return run.status == 0;
}
Ran Deploy::shell(const std::string& command, const std::string& input) const {
  write("stdin", input);
  const int status =
      std::system(("{ " + command + "; } <" + path("stdin") + " >" + path("stdout") + " 2>" + path("stderr")).c_str());
  return {WEXITSTATUS(status), contents(path("stdout")), contents(path("stderr"))};
}
Ran Deploy::program(const CSource& file, const std::string& input, const std::string& flags) const {
  write("model.c", file.source);
  if (!compiles(flags + " -DMODEL_MAIN model.c -o model -lm")) return {};
  if (!file.weights.empty()) write("weights", file.weights);
  return shell(path("model") + (file.weights.empty() ? "" : " " + path("weights")), input);
}

std::string text_of(const std::vector<Array>& inputs) {
  std::ostringstream out;
  out.precision(17);
  for (const Array& input : inputs)
    for (double v : input.values()) out << v << '\n';
  return out.str();
}
Array random_array(const Shape& shape, DType dtype, std::mt19937& random, double low, double high) {
  std::vector<double> values(size_t(shape.elements()));
  for (double& v : values) v = std::uniform_real_distribution<double>(low, high)(random);
  if (!is_float(dtype))
    for (double& v : values) v = std::floor(v);
  return Array(shape, values, dtype);
}
double largest_of(const std::vector<double>& values) {
  double out = 0;
  for (double v : values)
    if (std::isfinite(v)) out = std::max(out, std::abs(v));
  return out;
}
void expect_near(const std::vector<double>& given, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(given.size(), expected.size()) << what;
  const double scale = std::max(largest_of(expected), 1e-30);
  for (size_t i = 0; i < given.size(); ++i) {
    const bool same = given[i] == expected[i] || (std::isnan(given[i]) && std::isnan(expected[i]));
    ASSERT_TRUE(same || std::abs(given[i] - expected[i]) <= tolerance * scale)
        << what << ", element " << i << ": " << given[i] << ", not " << expected[i];
  }
}

}  // namespace caravan::deploy
