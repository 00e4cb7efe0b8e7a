// Products of matrices: rows x terms by terms x columns, each operand as it is (n) or transposed (t).
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "apps/bench/workload.h"

namespace caravan::bench {

namespace {

enum class Form : uint8_t { nn, nt, tn };

Workload product(int64_t rows, int64_t terms, int64_t columns, Form form) {
  const bool turn_a = form == Form::tn, turn_b = form == Form::nt;
  auto matrix = [](const char* name, int64_t height, int64_t width) {
    return param(name, {.output = {height, width}, .init = normal_init()});
  };
  const Tensor a = turn_a ? matrix("a", terms, rows) : matrix("a", rows, terms),
               b = turn_b ? matrix("b", columns, terms) : matrix("b", terms, columns);
  const Tensor y = turn_a   ? einsum("k, m; k, n => m, n", a, b)
                   : turn_b ? einsum("m, k; n, k => m, n", a, b)
                            : einsum("m, k; k, n => m, n", a, b);
  return {.program = observe(y), .result = y, .flops = 2.0 * double(rows) * double(terms) * double(columns)};
}

struct Ending {
  Form form;
  std::string text, doc;
};
const Ending kEndings[] = {
    {Form::nn, "", "a times b"}, {Form::nt, "-nt", "a times b transposed"}, {Form::tn, "-tn", "a transposed times b"}};

Entry entry(const std::string& name, int64_t rows, int64_t terms, int64_t columns, const Ending& ending) {
  return {name, fmt::format("{}: {} rows, {} terms, {} columns", ending.doc, rows, terms, columns),
          [=, form = ending.form](const Sizes& of) {
            return product(of(rows, std::min<int64_t>(rows, 33)), of(terms, 40), of(columns, 24), form);
          }};
}

}  // namespace

std::vector<Entry> products() {
  std::vector<Entry> out;
  auto add = [&](const std::string& sizes, int64_t rows, int64_t terms, int64_t columns) {
    for (const Ending& ending : kEndings)
      out.push_back(entry("gemm-" + sizes + ending.text, rows, terms, columns, ending));
  };
  for (const int64_t size : {1024, 2048}) add(std::to_string(size), size, size, size);
  add("128x784x100", 128, 784, 100);
  add("32x200x28", 32, 200, 28);
  add("1x784x100", 1, 784, 100);
  return out;
}

std::optional<Entry> product_of_sizes(const std::string& name) {
  constexpr int64_t kLargest = 1 << 16;  // of a size: a matrix of 16 GB
  static const std::regex kName("gemm-([0-9]{1,5})x([0-9]{1,5})x([0-9]{1,5})(-nt|-tn|)");
  std::smatch parts;
  if (!std::regex_match(name, parts, kName)) return std::nullopt;
  const int64_t rows = std::stoll(parts[1]), terms = std::stoll(parts[2]), columns = std::stoll(parts[3]);
  if (std::min({rows, terms, columns}) < 1 || std::max({rows, terms, columns}) > kLargest) return std::nullopt;
  for (const Ending& ending : kEndings)
    if (parts[4] == ending.text) return entry(name, rows, terms, columns, ending);
  return std::nullopt;
}

}  // namespace caravan::bench
