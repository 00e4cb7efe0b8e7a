// Thousands of random specs against the naive evaluator: what it computes must be computed, what it refuses must be
// refused. Everything follows from the number of the spec, which a failure prints.
#include <caravan/caravan.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "checked_device.h"
#include "naive_spec.h"
#include "sanitized.h"

namespace caravan {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  int64_t from(int64_t low, int64_t high) { return low + int64_t(engine_() % uint64_t(high - low + 1)); }
  bool chance(int percent) { return from(1, 100) <= percent; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[size_t(from(0, int64_t(list.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

struct Case {
  std::string text;
  std::vector<naive::Value> operands;
  std::map<std::string, int64_t> numbers;
  naive::Reduce reduce = naive::Reduce::add;
  naive::Combine combine = naive::Combine::product;
};

std::string shape_text(const naive::Value& value) {
  auto row = [](const naive::Sizes& sizes) {
    std::string out;
    for (int64_t n : sizes) out += (out.empty() ? "" : ",") + std::to_string(n);
    return out;
  };
  return (value.rows[0].empty() ? "" : row(value.rows[0]) + "|") +
         (value.rows[1].empty() ? "" : row(value.rows[1]) + "->") + row(value.rows[2]);
}
std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << "\"" << c.text << "\" of";
  for (const naive::Value& v : c.operands) out << " [" << shape_text(v) << "]";
  for (const auto& [name, n] : c.numbers) out << " " << name << "=" << n;
  return out << " ("
             << (c.reduce == naive::Reduce::add   ? "add"
                 : c.reduce == naive::Reduce::max ? "max"
                                                  : "min")
             << ", "
             << (c.combine == naive::Combine::product ? "product"
                 : c.combine == naive::Combine::sum   ? "sum"
                                                      : "concat")
             << ")";
}

// Names have sizes from the start; operands get the sizes that their axes then need. So most specs are valid, except
// for what nothing determines, and for the sizes that are spoilt on purpose.
class Generator {
 public:
  explicit Generator(uint64_t seed) : dice_(seed) {}

  Case make() {
    const bool concat = dice_.chance(10);
    commas_ = concat || dice_.chance(65);
    const std::vector<std::string> pool = commas_ ? std::vector<std::string>{"a", "bb", "c1", "d_2", "Row"}
                                                  : std::vector<std::string>{"a", "b", "c", "D", "e"};
    for (const std::string& name : pool) size_[name] = dice_.from(1, 4);
    for (const char* name : {"...0", "...1", "...2", "r", "seq"}) {
      naive::Sizes& sizes = rows_[name];
      for (int64_t n = dice_.from(0, 2); n > 0; --n) sizes.push_back(dice_.from(1, 3));
    }
    names_.assign(pool.begin(), pool.begin() + long(dice_.from(1, int64_t(pool.size()))));
    if (concat) return make_concat();

    for (int64_t n = dice_.from(1, 3); n > 0; --n) {
      if (!out_.text.empty()) out_.text += space() + ";" + space();
      out_.operands.emplace_back();
      shape(&out_.operands.back());
    }
    out_.text += space() + "=>" + space();
    shape(nullptr);
    out_.reduce =
        dice_.pick<naive::Reduce>({naive::Reduce::add, naive::Reduce::add, naive::Reduce::max, naive::Reduce::min});
    if (out_.operands.size() == 2 && out_.reduce != naive::Reduce::min && dice_.chance(25))
      out_.combine = naive::Combine::sum;
    return finish();
  }

 private:
  Case finish() {
    const bool many_letters = std::regex_search(out_.text, std::regex("[,*+^&<]|=[^>]"));
    for (const std::string& name : names_)
      if (many_letters == commas_ && dice_.chance(40) && stands(name)) out_.numbers[name] = size_[name];
    if (dice_.chance(12)) spoil();
    for (naive::Value& value : out_.operands)
      for (int64_t i = value.count(); i > 0; --i) value.elements.push_back(double(dice_.from(-3, 4)));
    return out_;
  }
  bool stands(const std::string& name) const {
    const std::string axes = std::regex_replace(out_.text, std::regex("\\.\\.\\w+\\.\\."), " ");
    return std::regex_search(axes, std::regex(commas_ ? "\\b" + name + "\\b" : name));
  }
  void spoil() {
    naive::Value& value = out_.operands[size_t(dice_.from(0, int64_t(out_.operands.size()) - 1))];
    naive::Sizes& row = value.rows[size_t(dice_.from(0, 2))];
    if (row.empty() || dice_.chance(15)) return row.push_back(dice_.from(1, 2));
    int64_t& n = row[size_t(dice_.from(0, int64_t(row.size()) - 1))];
    n = std::max<int64_t>(1, n + dice_.from(-2, 2));
  }

  // x, a; x, b => x, a^b: every operand has all the common axes and one part.
  Case make_concat() {
    const int64_t operands = dice_.from(2, 3);
    std::vector<std::string> parts;
    std::string whole;
    for (int64_t i = 0; i < operands; ++i) {
      parts.push_back("part" + std::to_string(i));
      if (dice_.chance(20)) whole += std::to_string(dice_.from(0, 2)) + "^";
      whole += parts.back() + (i + 1 < operands ? "^" : "");
    }
    if (dice_.chance(20)) whole += "^" + std::to_string(dice_.from(1, 2));
    const size_t kind = size_t(dice_.from(0, 2));
    const std::string common = dice_.pick(names_);
    const bool ellipsis = dice_.chance(40);
    auto text = [&](const std::string& part) {
      std::array<std::string, 3> rows = {"", "", common};
      if (ellipsis) rows[2] += ", ...";
      rows[kind] += (rows[kind].empty() ? "" : ", ") + part;
      return rows[0] + "|" + rows[1] + "->" + rows[2];
    };
    for (const std::string& part : parts) {
      out_.text += (out_.text.empty() ? "" : "; ") + text(part);
      naive::Value& value = out_.operands.emplace_back();
      value.rows[2] = {size_[common]};
      if (ellipsis) value.rows[2].insert(value.rows[2].end(), rows_["...2"].begin(), rows_["...2"].end());
      value.rows[kind].push_back(dice_.from(1, 3));
    }
    out_.text += " => " + text(whole);
    out_.combine = naive::Combine::concat;
    if (dice_.chance(10)) spoil();
    for (naive::Value& value : out_.operands)
      for (int64_t i = value.count(); i > 0; --i) value.elements.push_back(double(dice_.from(-3, 4)));
    return out_;
  }

  std::string space() { return dice_.chance(40) ? " " : ""; }

  void shape(naive::Value* operand) {  // nullptr: the result
    std::array<std::string, 3> rows;
    std::array<bool, 3> written = {dice_.chance(35), dice_.chance(35), true};
    for (size_t k = 0; k < 3; ++k)
      if (written[k]) rows[k] = row(k, operand);
    if (written[0]) out_.text += rows[0] + space() + "|" + space();
    if (written[1]) out_.text += rows[1] + space() + "->" + space();
    out_.text += rows[2];
  }
  std::string row(size_t kind, naive::Value* operand) {
    int64_t before = dice_.from(0, 2), after = 0;
    std::string variable = ellipsis(kind, operand);
    if (!variable.empty()) after = dice_.from(0, 1);
    std::vector<std::string> items;
    auto axes = [&](int64_t n) {
      for (; n > 0; --n) {
        int64_t size = 1;
        items.push_back(axis(operand == nullptr, size));
        if (operand) operand->rows[kind].push_back(size);
      }
    };
    axes(before);
    if (!variable.empty()) {
      items.push_back(variable.starts_with("...") ? "..." : ".." + variable + "..");
      if (operand)
        operand->rows[kind].insert(operand->rows[kind].end(), rows_[variable].begin(), rows_[variable].end());
      axes(after);
    }
    std::string out;
    for (size_t i = 0; i < items.size(); ++i) {
      const bool optional = items[i].starts_with("..") || (i && items[i - 1].starts_with(".."));
      if (i) out += commas_ && !(optional && dice_.chance(50)) ? "," + space() : space();
      out += items[i];
    }
    if (commas_ && !items.empty() && dice_.chance(10)) out += ",";
    return out;
  }
  std::string ellipsis(size_t kind, const naive::Value* operand) {
    if (!dice_.chance(30)) return "";
    std::string out = dice_.chance(60) ? "..." + std::to_string(kind) : dice_.pick<std::string>({"r", "seq"});
    if (operand) return used_rows_.insert(out), out;
    return used_rows_.count(out) ? out : "";
  }

  // The text of an axis, and its size in an operand.
  std::string axis(bool result, int64_t& size) {
    const std::string name = dice_.pick(names_);
    const int64_t n = size_[name];
    size = n;
    const int64_t form = dice_.from(0, 99);
    if (form < 8) {
      const int64_t index = dice_.from(0, 2);
      size = index + dice_.from(1, 2);
      return std::to_string(index);
    }
    if (form < 14 && !result) return size = dice_.from(1, 3), "_";
    if (form < 22) return "-" + name;
    if (form < 50 || !commas_) return name;

    const std::string other = dice_.pick(names_);
    if (form < 72 && other != name) {  // a window
      const int64_t k = size_[other], stride = dice_.from(1, 3), dilation = dice_.from(1, 2);
      const int64_t offset = dice_.chance(25) ? dice_.from(0, 2) : 0, padding = dice_.from(0, 3),
                    pad = padding == 2 ? dice_.from(0, 2) : 0;
      size = stride * (n - 1) + 1 + (padding == 3 ? 0 : dilation * (k - 1) + offset - 2 * pad);
      if (!result) size += dice_.from(0, stride - 1);
      if (size < 1) return size = n, name;
      std::string text = stride > 1 ? count("stride", stride) + "*" + name : name;
      text += padding == 0 ? "" : padding == 1 ? "<" : padding == 2 ? "<" + count("pad", pad) : "=";
      if (offset) text += "+" + std::to_string(offset);
      return text + "+" + (dilation > 1 ? count("dil", dilation) + "*" : "") + other;
    }
    if (form < 80) {  // strided
      const int64_t stride = dice_.from(1, 3), offset = dice_.from(0, 2);
      size = stride * (n - 1) + offset + 1 + (result ? 0 : dice_.from(0, stride - 1));
      return count("stride", stride) + "*" + name + (offset ? "+" + std::to_string(offset) : "");
    }
    if (form < 90) {  // parts
      std::vector<std::string> items = {name};
      if (other != name) items.push_back(other), size += size_[other];
      if (items.size() < 2 || dice_.chance(40)) {
        const int64_t run = dice_.from(0, 2);
        size += run;
        items.insert(items.begin() + long(dice_.from(0, int64_t(items.size()))), std::to_string(run));
      }
      std::string out = items[0];
      for (size_t i = 1; i < items.size(); ++i) out += space() + "^" + items[i];
      return out;
    }
    size = n * size_[other];
    return name + "&" + other;
  }
  // A number, or a name bound to it.
  std::string count(const std::string& stem, int64_t value) {
    if (dice_.chance(75)) return std::to_string(value);
    const std::string name = stem + "_" + std::to_string(value);
    out_.numbers[name] = value;
    return name;
  }

  Dice dice_;
  Case out_;
  bool commas_ = false;
  std::map<std::string, int64_t> size_;
  std::map<std::string, naive::Sizes> rows_;
  std::vector<std::string> names_;
  std::set<std::string> used_rows_;
};

Tensor build(const Case& c) {
  std::vector<Tensor> in;
  for (const naive::Value& value : c.operands)
    in.push_back(tensor(Array(parse_shape(shape_text(value)), value.elements)));
  Bindings with;
  for (const auto& [name, n] : c.numbers) with.list.push_back({name, n});
  const RuntimeSpec text = spec(c.text);
  using naive::Reduce;
  if (c.combine == naive::Combine::concat) return concat(text, in, with);
  if (c.combine == naive::Combine::sum)
    return c.reduce == Reduce::add ? outer_sum(text, in[0], in[1], with) : tropical(text, in[0], in[1], with);
  auto family = [&](auto f1, auto f2, auto f3) {
    return in.size() == 1   ? f1(text, in[0], with)
           : in.size() == 2 ? f2(text, in[0], in[1], with)
                            : f3(text, in[0], in[1], in[2], with);
  };
#define CARAVAN_FAMILY(f) \
  family([](auto... x) { return f(x...); }, [](auto... x) { return f(x...); }, [](auto... x) { return f(x...); })
  switch (c.reduce) {
    case Reduce::max: return CARAVAN_FAMILY(einmax);
    case Reduce::min: return CARAVAN_FAMILY(einmin);
    default: return CARAVAN_FAMILY(einsum);
  }
#undef CARAVAN_FAMILY
}

// Compiling all of them would take long: one of many.
ContextOptions options_of(uint64_t seed) { return seed % 100 == 0 ? checked() : ContextOptions{.device = "interp"}; }

struct Tally {
  int computed = 0, refused = 0, skipped = 0;
};

void compare(uint64_t seed, Tally& tally) {
  const Case c = Generator(seed).make();
  std::optional<naive::Value> expected;
  std::string reason;
  try {
    expected = naive::evaluate(c.text, c.operands, c.numbers, c.reduce, c.combine, 4'000);
  } catch (const naive::Invalid& invalid) {
    reason = invalid.what();
  } catch (const naive::TooLarge&) {
    ++tally.skipped;
    return;
  }
  try {
    Context ctx(options_of(seed));
    const Array got = ctx.eval(build(c));
    if (!expected) {
      ADD_FAILURE() << "spec " << seed << ", " << c << ": must be refused (" << reason << "), but has the shape "
                    << to_string(got.shape());
      return;
    }
    ++tally.computed;
    EXPECT_EQ(to_string(got.shape()), shape_text(*expected)) << "spec " << seed << ", " << c;
    EXPECT_EQ(got.values(), expected->elements) << "spec " << seed << ", " << c;
  } catch (const UserError& error) {
    ++tally.refused;
    if (expected)
      ADD_FAILURE() << "spec " << seed << ", " << c << ": must give " << shape_text(*expected)
                    << ", but: " << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "spec " << seed << ", " << c << ": " << error.what();
  }
}

TEST(RandomSpecs, AgreeWithTheNaiveEvaluator) {
  Tally tally;
  const uint64_t specs = getenv("CARAVAN_RANDOM_SPECS") ? std::stoull(getenv("CARAVAN_RANDOM_SPECS"))
                         : kSanitized                   ? 2'000
                                                        : 12'000;
  for (uint64_t seed = 0; seed < specs && !HasFailure(); ++seed) compare(seed, tally);
  RecordProperty("computed", tally.computed), RecordProperty("refused", tally.refused),
      RecordProperty("skipped", tally.skipped);
  std::printf("%d computed, %d refused, %d too large for the naive loop\n", tally.computed, tally.refused,
              tally.skipped);
  EXPECT_GT(tally.computed, int(specs) / 4);
  EXPECT_GT(tally.refused, int(specs) / 10);
}

// --- joins: pointwise operations on operands that lack axes, or have kept reductions for them ---

struct Joined {
  naive::Value value;  // after reduction: kept axes have the size 1
  std::array<std::vector<bool>, 3> kept;
  Tensor tensor;
};

// Some of the last axes of each row; each of its size, or a kept 1, or (rarely) wrong or a given 1.
Joined operand(Dice& dice, const std::array<naive::Sizes, 3>& rows) {
  Joined out;
  std::string from, to;
  naive::Value whole;
  for (size_t k = 0; k < 3; ++k) {
    const size_t first = dice.chance(60) ? 0 : size_t(dice.from(0, int64_t(rows[k].size())));
    for (size_t i = first; i < rows[k].size(); ++i) {
      const bool kept = dice.chance(30);
      const int64_t size = dice.chance(2) ? dice.from(1, 4) : rows[k][i];
      const std::string letter(1, char('a' + 8 * k + i));
      from += kept ? "_" : letter, to += kept ? "0" : letter;
      to += " ", from += " ";
      whole.rows[k].push_back(kept ? dice.from(1, 3) : size);
      out.value.rows[k].push_back(kept ? 1 : size);
      out.kept[k].push_back(kept);
    }
    if (k < 2) from += k == 0 ? "|" : "->", to += k == 0 ? "|" : "->";
  }
  for (int64_t i = whole.count(); i > 0; --i) whole.elements.push_back(double(dice.from(-3, 4)));
  std::string text = from + "=>" + to;
  for (size_t at; (at = text.find("0 0")) != text.npos;) text.replace(at, 3, "0,0");  // two indices need a comma ...
  if (text.find(',') != text.npos) {                                                  // ... and then so do the others
    for (size_t i = 0; i + 2 < text.size(); ++i)
      if (text[i + 1] == ' ' && (isalnum(text[i + 2]) || text[i + 2] == '_') && (isalnum(text[i]) || text[i] == '_'))
        text[i + 1] = ',';
  }
  out.value.elements = naive::evaluate(text, {whole}, {}, naive::Reduce::add, naive::Combine::product).elements;
  out.tensor = einsum(spec(text), tensor(Array(parse_shape(shape_text(whole)), whole.elements)));
  return out;
}

// a + b by the rule of the contract; Invalid if axes differ.
Joined sum_of(const Joined& a, const Joined& b) {
  Joined out;
  for (size_t k = 0; k < 3; ++k) {
    const size_t rank = std::max(a.value.rows[k].size(), b.value.rows[k].size());
    for (size_t i = 0; i < rank; ++i) {
      int64_t size = 1;
      bool kept = true;
      for (const Joined* x : {&a, &b}) {
        const size_t missing = rank - x->value.rows[k].size();
        if (i < missing || x->kept[k][i - missing]) continue;
        if (!kept && size != x->value.rows[k][i - missing]) throw naive::Invalid("sizes");
        size = x->value.rows[k][i - missing], kept = false;
      }
      out.value.rows[k].push_back(size), out.kept[k].push_back(kept);
    }
  }
  const naive::Sizes sizes = out.value.memory_order();
  for (int64_t e = 0; e < out.value.count(); ++e) {
    naive::Sizes at(sizes.size());
    for (int64_t rest = e, d = int64_t(sizes.size()) - 1; d >= 0; --d)
      at[size_t(d)] = rest % sizes[size_t(d)], rest /= sizes[size_t(d)];
    double total = 0;
    for (const Joined* x : {&a, &b}) {
      int64_t position = 0;
      size_t d = 0;
      for (size_t k : {0u, 2u, 1u}) {
        const size_t missing = out.value.rows[k].size() - x->value.rows[k].size();
        for (size_t i = 0; i < out.value.rows[k].size(); ++i, ++d)
          if (i >= missing) position = position * x->value.rows[k][i - missing] + (x->kept[k][i - missing] ? 0 : at[d]);
      }
      total += x->value.elements[size_t(position)];
    }
    out.value.elements.push_back(total);
  }
  out.tensor = a.tensor + b.tensor;
  return out;
}

TEST(RandomSpecs, JoinsAgreeWithTheNaiveRule) {
  int computed = 0, refused = 0;
  for (uint64_t seed = 0; seed < 4'000 && !HasFailure(); ++seed) {
    Dice dice(seed + 1'000'000);
    std::array<naive::Sizes, 3> rows;
    for (naive::Sizes& row : rows)
      for (int64_t n = dice.from(0, 2); n > 0; --n) row.push_back(dice.from(1, 3));
    std::vector<Joined> operands;
    for (int64_t n = dice.from(2, 4); n > 0; --n) operands.push_back(operand(dice, rows));
    Tensor total = operands[0].tensor;
    std::optional<Joined> expected = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      total = total + operands[i].tensor;
      try {
        if (expected) expected = sum_of(*expected, operands[i]);
      } catch (const naive::Invalid&) {
        expected.reset();
      }
    }
    try {
      Context ctx(options_of(seed));
      const Array got = ctx.eval(total);
      ASSERT_TRUE(expected) << "join " << seed << " must be refused, but has the shape " << to_string(got.shape());
      ++computed;
      EXPECT_EQ(to_string(got.shape()), shape_text(expected->value)) << "join " << seed;
      EXPECT_EQ(got.values(), expected->value.elements) << "join " << seed;
    } catch (const ShapeError& error) {
      ++refused;
      EXPECT_FALSE(expected) << "join " << seed << ": " << error.what();
    }
  }
  std::printf("%d joins computed, %d refused\n", computed, refused);
  EXPECT_GT(computed, 2'000);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace caravan
