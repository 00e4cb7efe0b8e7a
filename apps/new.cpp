// caravan new: a folder with a small program of one's own and what it takes to build it against the installed library.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "apps/commands.h"
#include "apps/json_line.h"
#include "apps/output_folder.h"
#include "apps/recipes/recipe.h"
#include "apps/terminal.h"
#include "apps/unknown_name.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/printable.h"
#include "caravan/base/random.h"
#include "caravan/data/synthetic.h"

namespace caravan::app {

namespace {

namespace fs = std::filesystem;

struct Template {
  std::string_view name, text;
};
// A file of apps/project, in which @KEY@ stands for what differs.
std::string template_of(std::string_view name) {
  constexpr Template kAll[] = {
#include "apps/project.inc"
  };
  for (const Template& one : kAll)
    if (one.name == name) return std::string(one.text);
  throw InternalError(fmt::format("there is no template {}", name));
}

using Words = std::vector<std::pair<std::string, std::string>>;  // @KEY@ and what stands for it
std::string filled(std::string text, const Words& words) {
  for (const auto& [key, value] : words)
    for (size_t at = 0; (at = text.find("@" + key + "@", at)) != text.npos; at += value.size())
      text.replace(at, key.size() + 2, value);
  return text;
}

std::string csv(const std::string& header, const data::LabelledPoints& points) {
  std::string out = header + "\n";
  for (int64_t i = 0; i < points.labels.size(); ++i)
    out +=
        fmt::format("{:.5f},{:.5f},{:g}\n", points.points.at(2 * i), points.points.at(2 * i + 1), points.labels.at(i));
  return out;
}

std::string noisy_line() {
  std::string out = "x,y\n";
  for (uint64_t i = 0; i < 100; ++i) {
    const Word4 w = random_words(1, hash_name("new.line"), 0, i);
    const double x = 2 * unit_uniform(w[0]) - 1;
    out += fmt::format("{:.5f},{:.5f}\n", x, 3 * x - 0.5 + 0.1 * unit_normal(w[1], w[2]));
  }
  return out;
}

struct Project {
  std::string name, main;
  std::string data{}, content{};  // a file beside it; empty: none
};

// A project whose data are a table.
Project table(const std::string& name, const std::string& file, const std::string& content, const Words& words) {
  std::string main = filled(template_of("table.cpp.in"), words);
  return {name, filled(main, {{"DATA", file}}), file, content};
}

std::vector<Project> projects() {
  const Words two = {{"FEATURES", "2"}, {"COLUMNS", "two numbers"}};
  auto told_apart = [&](const char* what, const char* widths, const char* activation) {
    Words out = {{"WHAT", what},
                 {"WIDTHS", widths},
                 {"ACTIVATION", activation},
                 {"RATE", "0.005"},
                 {"LOSS", "nn::hinge(net(x), y)"},
                 {"COUNTED", "said * wanted > 0"},
                 {"RESULT", "accuracy on the points:"}};
    out.insert(out.end(), two.begin(), two.end());
    return out;
  };
  auto predicted = [&](const char* what, const char* widths, const char* rate) -> Words {
    return {{"WHAT", what},
            {"WIDTHS", widths},
            {"ACTIVATION", "Relu"},
            {"RATE", rate},
            {"LOSS", "nn::mse(net(x), y)"},
            {"COUNTED", "abs(said - wanted)"},
            {"RESULT", "mean absolute error:"}};
  };
  auto multiply = [&](const char* widths) {
    Words out = predicted("The product of two numbers.", widths, "0.003");
    out.insert(out.end(), two.begin(), two.end());
    return out;
  };
  Words line = predicted("A line through noisy points.", "1", "0.05");
  line.insert(line.end(), {{"FEATURES", "1"}, {"COLUMNS", "a number"}});
  auto digits = [](const char* what, const char* model) {
    return filled(template_of("digits.cpp.in"), {{"WHAT", what}, {"MODEL", model}});
  };
  const std::string products = csv("a,b,product", data::products({.points = 2000, .seed = 1}));
  return {{"xor", template_of("xor.cpp.in")},
          table("linear", "line.csv", noisy_line(), line),
          table("moons", "moons.csv", csv("x,y,side", data::half_moons({.seed = 1})),
                told_apart("Two half moons told apart by a small network.", "16, 16, 1", "Relu")),
          table("circle", "circle.csv", csv("x,y,side", data::disc({.seed = 1})),
                told_apart("Points inside and outside a circle told apart.", "32, 32, 1", "Tanh")),
          table("multiply-small", "products.csv", products, multiply("5, 1")),
          table("multiply-large", "products.csv", products, multiply("100, 100, 1")),
          {"mnist-mlp", digits("Handwritten digits by dense layers.",
                               "  nn::Mlp mlp{\"mlp\", {.widths = {128, 10}}};\n"
                               "  Tensor operator()(const Tensor& x) const {  // n | 28,28,1\n"
                               "    return mlp(einsum(\"... | h, w, c => ... | h&w&c\", x));\n  }")},
          {"mnist-conv", digits("Handwritten digits by convolutions.",
                                "  nn::Conv2d conv1{\"conv1\", {.channels = 16}}, conv2{\"conv2\", {.channels = 32}};\n"
                                "  nn::MaxPool2d pool;\n"
                                "  nn::Linear dense{\"dense\", {.output = {10}}};\n"
                                "  Tensor operator()(const Tensor& x) const {  // n | 28,28,1\n"
                                "    const Tensor seen = pool(relu(conv2(pool(relu(conv1(x))))));\n"
                                "    return dense(einsum(\"... | h, w, c => ... | h&w&c\", seen));\n  }")}};
}

// Where this command was installed, if CMake does not look there by itself.
std::string own_prefix() {
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  if (error || prefix == "/usr" || prefix == "/usr/local") return "";
  for (const char* lib : {"lib", "lib64"})
    if (fs::exists(prefix / lib / "cmake/caravan", error)) return prefix.string();
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error))
    if (fs::exists(entry.path() / "cmake/caravan", error)) return prefix.string();
  return "";
}

// A name of a program that CMake and a shell take as it is.
void check_name(const std::string& name) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", more = "0123456789_-";
  const bool right =
      !name.empty() && letters.find(name[0]) != letters.npos && name.find_first_not_of(letters + more) == name.npos;
  if (!right)
    throw ConfigError(fmt::format(
        "`{}` cannot name a project: a letter comes first, then letters, digits, `-` and `_`.", printable(name)));
  for (const char* taken : {"all", "clean", "help", "install", "package", "test"})
    if (name == taken) throw ConfigError(fmt::format("`{}` is a target of CMake's own; choose another name.", name));
}

}  // namespace

std::vector<std::string> project_names() {
  std::vector<std::string> out;
  for (const Project& project : projects()) out.push_back(project.name);
  return out;
}

int new_command(const NewOptions& options) {
  check_name(options.name);
  const std::string from = options.recipe.empty() ? "xor" : options.recipe;
  const std::vector<Project> all = projects();
  const auto project = std::find_if(all.begin(), all.end(), [&](const Project& p) { return p.name == from; });
  const auto recipes = recipe_rows();
  if (project == all.end() && std::any_of(recipes.begin(), recipes.end(), [&](auto& row) { return row.name == from; }))
    throw ConfigError(fmt::format("there is no project to start from for the recipe {}; there is one for {}.", from,
                                  joined(project_names())));
  if (project == all.end()) throw ConfigError(unknown_name("project", from, project_names()));
  if (fs::exists(fs::symlink_status(options.name)))
    throw ConfigError(fmt::format("`{}` is there already; choose another name, or remove it.", options.name));

  const OutputFolder folder(options.name, "NAME");
  std::vector<std::string> written;
  auto write = [&](const std::string& file, const std::string& content) {
    folder.write(file, content);
    written.push_back(file);
  };
  const std::string prefix = own_prefix();
  write("CMakeLists.txt",
        filled(template_of("CMakeLists.txt.in"),
               {{"NAME", options.name},
                {"PREFIX",
                 prefix.empty()
                     ? ""
                     : fmt::format("list(APPEND CMAKE_PREFIX_PATH [[{}]])  # where Caravan is installed\n", prefix)}}));
  write("main.cpp", project->main);
  if (!project->data.empty()) write(project->data, project->content);
  const std::string build = fmt::format("cd {0} && cmake -B build && cmake --build build && build/{0}", options.name);
  if (options.json) {
    std::cout << json_line({{"folder", options.name}, {"files", written}, {"next", build}});
    return kDone;
  }
  const Screen screen = output_screen();
  std::cout << screen.fact("made", fmt::format("{}/: {}", options.name, joined(written))) << screen.fact("next", build);
  return kDone;
}

}  // namespace caravan::app
