// A second implementation of the notation, as slow and as plain as possible: sizes by the formulas of the contract,
// values by a loop over every tuple of iterators. It shares nothing with caravan/shape: it has its own parser (regular
// expressions on the text) and its own idea of a tensor. Operands are of concrete sizes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace naive {

using Sizes = std::vector<int64_t>;
struct Value {
  std::array<Sizes, 3> rows;     // batch, input, output
  std::vector<double> elements;  // in memory order: batch, output, input

  Sizes memory_order() const {
    Sizes out = rows[0];
    out.insert(out.end(), rows[2].begin(), rows[2].end());
    out.insert(out.end(), rows[1].begin(), rows[1].end());
    return out;
  }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t s : memory_order()) n *= s;
    return n;
  }
};

struct Invalid : std::runtime_error {  // the spec must be refused
  using std::runtime_error::runtime_error;
};
struct TooLarge : std::runtime_error {  // not worth the loop
  using std::runtime_error::runtime_error;
};

enum class Reduce { add, max, min, mul };
enum class Combine { product, sum, concat };

// `numbers` are the bound sizes, strides, dilations and paddings. More points than `most` are too large.
Value evaluate(std::string text, std::vector<Value> operands, std::map<std::string, int64_t> numbers, Reduce reduce,
               Combine combine, int64_t most = 200'000);

}  // namespace naive
