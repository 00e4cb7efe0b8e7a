#include "naive_spec.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <regex>
#include <set>

namespace naive {
namespace {

class Evaluator {
 public:
  Evaluator(std::string text, std::vector<Value> operands, std::map<std::string, int64_t> numbers)
      : operands_(std::move(operands)), numbers_(std::move(numbers)) {
    if (std::regex_search(text, std::regex("[0-9]\\s+[0-9]"))) throw Invalid("two numbers with nothing between them");
    std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
    std::string without_arrows = std::regex_replace(text, std::regex("=>"), ";");
    commas_ = without_arrows.find_first_of(",*+^&<=") != std::string::npos;
    for (const std::string& shape : split(without_arrows, ';')) shapes_.push_back(parse_shape(shape));
    if (shapes_.size() != operands_.size() + 1) throw Invalid("the number of operands");
    find_row_variables();
    find_sizes();
  }

  Value evaluate(Reduce reduce, Combine combine, int64_t most) {
    Value out;
    for (int k = 0; k < 3; ++k)
      for (const Axis& axis : shapes_.back()[size_t(k)]) out.rows[size_t(k)].push_back(size_in_result(axis));
    if (out.count() > most) throw TooLarge("result");
    double neutral = reduce == Reduce::add   ? 0
                     : reduce == Reduce::mul ? 1
                     : reduce == Reduce::max ? -infinity()
                                             : infinity();
    out.elements.assign(size_t(out.count()), neutral);
    auto accumulate = [&](double& into, double x) {
      switch (reduce) {
        case Reduce::add: into += x; break;
        case Reduce::mul: into *= x; break;
        case Reduce::max: into = std::max(into, x); break;
        case Reduce::min: into = std::min(into, x); break;
      }
    };
    if (combine != Combine::concat) {
      std::vector<int> all;
      for (size_t s = 0; s < operands_.size(); ++s) all.push_back(int(s));
      int64_t points = for_each_point(all, false, most, [&] {
        double x = combine == Combine::product ? 1 : 0;
        for (int s : all) {
          int64_t at = position(s, operands_[size_t(s)]);
          if (at < 0) return;
          combine == Combine::product ? x *= operands_[size_t(s)].elements[size_t(at)]
                                      : x += operands_[size_t(s)].elements[size_t(at)];
        }
        if (int64_t at = position(int(operands_.size()), out); at >= 0) accumulate(out.elements[size_t(at)], x);
      });
      if (points == 0) throw Invalid("no part reaches the result");
      return out;
    }
    for (size_t s = 0; s < operands_.size(); ++s)
      for_each_point({int(s)}, true, most, [&] {
        int64_t from = position(int(s), operands_[s]), to = position(int(operands_.size()), out);
        if (from >= 0 && to >= 0) accumulate(out.elements[size_t(to)], operands_[s].elements[size_t(from)]);
      });
    return out;
  }

 private:
  static double infinity() { return std::numeric_limits<double>::infinity(); }
  struct Axis {
    enum class Form { name, index, reversed, strided, window, parts, merged, ellipsis } form = Form::name;
    std::vector<std::string> names;  // parts: "" for a run
    std::vector<int64_t> runs;
    int64_t index = 0, stride = 1, dilation = 1, offset = 0, pad = 0;
    bool same = false;
  };
  using Shape = std::array<std::vector<Axis>, 3>;

  // --- text ---
  static std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> out(1);
    for (char c : text) c == at ? out.push_back("") : out.back().push_back(c);
    return out;
  }
  int64_t number(const std::string& text) const {
    if (text.empty()) return 1;
    if (isdigit(text[0])) return std::stoll(text);
    auto at = numbers_.find(text);
    if (at == numbers_.end()) throw Invalid("`" + text + "` has no value");
    return at->second;
  }
  Shape parse_shape(std::string text) {
    Shape out;
    if (size_t bar = text.find('|'); bar != text.npos)
      out[0] = parse_row(text.substr(0, bar), "batch"), text = text.substr(bar + 1);
    if (size_t arrow = text.find("->"); arrow != text.npos)
      out[1] = parse_row(text.substr(0, arrow), "input"), text = text.substr(arrow + 2);
    out[2] = parse_row(text, "output");
    return out;
  }
  std::vector<Axis> parse_row(const std::string& text, const std::string& kind) {
    static const std::regex kEllipsis("\\.\\.(?:\\.|([A-Za-z]\\w*)\\.\\.)");
    std::smatch found;
    if (!std::regex_search(text, found, kEllipsis)) return parse_axes(text);
    std::vector<Axis> out = parse_axes(found.prefix());
    Axis ellipsis;
    ellipsis.form = Axis::Form::ellipsis;
    ellipsis.names = {found[1].matched ? found[1].str() : "..." + kind};
    out.push_back(ellipsis);
    for (Axis& axis : parse_axes(found.suffix())) out.push_back(axis);
    return out;
  }
  std::vector<Axis> parse_axes(const std::string& text) {
    std::vector<Axis> out;
    if (commas_) {
      for (const std::string& item : split(text, ','))
        if (!item.empty()) out.push_back(parse_axis(item));
      return out;
    }
    static const std::regex kItem("\\d+|-[A-Za-z]|[A-Za-z]|_");
    for (std::sregex_iterator i(text.begin(), text.end(), kItem), end; i != end; ++i)
      out.push_back(parse_axis(i->str()));
    return out;
  }
  Axis parse_axis(const std::string& text) {
    static const std::regex kName("[A-Za-z]\\w*"), kStrided("(\\w+)\\*([A-Za-z]\\w*)(?:\\+(\\d+))?"),
        kWindow("(?:(\\w+)\\*)?([A-Za-z]\\w*)(<\\w*|=)?(?:\\+(\\d+))?\\+(?:(\\w+)\\*)?([A-Za-z]\\w*)");
    Axis out;
    std::smatch m;
    if (text == "_") {
      out.names = {"_" + std::to_string(++anonymous_)};
    } else if (isdigit(text[0]) && text.find_first_not_of("0123456789") == text.npos) {
      out.form = Axis::Form::index, out.index = std::stoll(text);
    } else if (text[0] == '-') {
      out.form = Axis::Form::reversed, out.names = {text.substr(1)};
    } else if (text.find('^') != text.npos) {
      out.form = Axis::Form::parts;
      for (const std::string& part : split(text, '^')) {
        out.names.push_back(isdigit(part[0]) ? "" : part);
        out.runs.push_back(isdigit(part[0]) ? std::stoll(part) : 0);
        if (!isdigit(part[0])) part_names_.insert(part);
      }
    } else if (text.find('&') != text.npos) {
      out.form = Axis::Form::merged, out.names = split(text, '&');
    } else if (std::regex_match(text, m, kName)) {
      out.names = {text};
    } else if (std::regex_match(text, m, kStrided)) {
      out.form = Axis::Form::strided, out.names = {m[2]};
      out.stride = number(m[1]), out.offset = m[3].matched ? std::stoll(m[3]) : 0;
    } else if (std::regex_match(text, m, kWindow)) {
      out.form = Axis::Form::window, out.names = {m[2], m[6]};
      out.stride = number(m[1]), out.dilation = number(m[5]), out.offset = m[4].matched ? std::stoll(m[4]) : 0;
      out.same = m[3] == "=";
      if (m[3].length() > 1) out.pad = number(m[3].str().substr(1));
    } else {
      throw std::logic_error("the naive parser cannot read `" + text + "`");
    }
    return out;
  }

  // --- sizes ---
  // Replaces every ellipsis by names of its own, one per axis: "r.0", "r.1".
  void find_row_variables() {
    std::map<std::string, size_t> length;
    for (size_t s = 0; s < operands_.size(); ++s)
      for (size_t k = 0; k < 3; ++k) {
        const size_t axes = operands_[s].rows[k].size();
        const Axis* ellipsis = nullptr;
        for (const Axis& axis : shapes_[s][k])
          if (axis.form == Axis::Form::ellipsis) ellipsis = &axis;
        const size_t named = shapes_[s][k].size() - (ellipsis ? 1 : 0);
        if (ellipsis ? axes < named : axes != named) throw Invalid("number of axes");
        if (ellipsis && length.try_emplace(ellipsis->names[0], axes - named).first->second != axes - named)
          throw Invalid("lengths of a row variable");
      }
    for (Shape& shape : shapes_)
      for (auto& row : shape) {
        std::vector<Axis> out;
        for (const Axis& axis : row) {
          if (axis.form != Axis::Form::ellipsis) {
            out.push_back(axis);
            continue;
          }
          auto at = length.find(axis.names[0]);
          if (at == length.end()) throw Invalid("a row variable of the result that no operand has");
          for (size_t i = 0; i < at->second; ++i) {
            Axis one;
            one.names = {axis.names[0] + "." + std::to_string(i)};
            out.push_back(one);
          }
        }
        row = out;
      }
  }

  int64_t known(const std::string& name) const {
    auto at = size_.find(name);
    return at == size_.end() ? -1 : at->second;
  }
  bool learn(const std::string& name, int64_t size) {  // true iff new
    if (size < 1) throw Invalid("`" + name + "` would have the size " + std::to_string(size));
    auto [at, added] = size_.try_emplace(name, size);
    if (at->second != size)
      throw Invalid("`" + name + "` is " + std::to_string(at->second) + " and " + std::to_string(size));
    return added;
  }
  void find_sizes() {
    std::set<std::string> mentioned;
    for (const Shape& shape : shapes_)
      for (const auto& row : shape)
        for (const Axis& axis : row)
          for (const std::string& name : axis.names)
            if (!name.empty()) mentioned.insert(name);
    for (const auto& [name, n] : numbers_)
      if (mentioned.count(name)) learn(name, n);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t s = 0; s < operands_.size(); ++s)
        for (size_t k = 0; k < 3; ++k)
          for (size_t a = 0; a < shapes_[s][k].size(); ++a)
            changed = relate(shapes_[s][k][a], operands_[s].rows[k][a]) || changed;
    }
    for (const std::string& name : mentioned)
      if (known(name) < 0) throw Invalid("`" + name + "` has no size");
  }
  // What the size of an operand's axis says about its names.
  bool relate(const Axis& axis, int64_t in) {
    const auto& names = axis.names;
    switch (axis.form) {
      case Axis::Form::ellipsis: return false;
      case Axis::Form::index:
        if (axis.index >= in) throw Invalid("a fixed index beyond the axis");
        return false;
      case Axis::Form::name:
      case Axis::Form::reversed: return learn(names[0], in);
      case Axis::Form::strided: return learn(names[0], ceil_div(in - axis.offset, axis.stride));
      case Axis::Form::window: {
        if (axis.same) return learn(names[0], ceil_div(in, axis.stride));
        const int64_t out = known(names[0]), kernel = known(names[1]), room = in + 2 * axis.pad - axis.offset;
        if (kernel > 0) {
          const int64_t left = room - (axis.dilation * (kernel - 1) + 1);
          if (left < 0) throw Invalid("a window that does not fit");
          return learn(names[0], left / axis.stride + 1);
        }
        if (out < 0 || axis.stride != 1) return false;
        if (room - out < 0 || (room - out) % axis.dilation) throw Invalid("no kernel fits");
        return learn(names[1], (room - out) / axis.dilation + 1);
      }
      case Axis::Form::parts: {
        int64_t total = 0, open = 0;
        std::string last;
        for (size_t i = 0; i < names.size(); ++i) {
          if (!names[i].empty() && known(names[i]) < 0)
            ++open, last = names[i];
          else
            total += names[i].empty() ? axis.runs[i] : known(names[i]);
        }
        if (total + open > in) throw Invalid("parts longer than the whole");
        if (open == 0 && total != in) throw Invalid("parts shorter than the whole");
        return open == 1 && learn(last, in - total);
      }
      case Axis::Form::merged: {
        std::map<std::string, int> open;
        int64_t product = 1;
        for (const std::string& name : names) known(name) < 0 ? void(++open[name]) : void(product *= known(name));
        if (open.empty() && product != in) throw Invalid("factors that do not give the size");
        if (open.size() != 1 || open.begin()->second != 1) return false;
        if (in % product) throw Invalid("a factor that does not divide");
        return learn(open.begin()->first, in / product);
      }
    }
    return false;
  }
  static int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

  int64_t size_in_result(const Axis& axis) const {
    const auto& names = axis.names;
    int64_t n = 0;
    switch (axis.form) {
      case Axis::Form::ellipsis: break;
      case Axis::Form::index: return axis.index + 1;
      case Axis::Form::name:
      case Axis::Form::reversed: n = known(names[0]); break;
      case Axis::Form::strided: n = axis.stride * (known(names[0]) - 1) + axis.offset + 1; break;
      case Axis::Form::window:
        n = axis.stride * (known(names[0]) - 1) + 1;
        if (!axis.same) n += axis.dilation * (known(names[1]) - 1) + axis.offset - 2 * axis.pad;
        break;
      case Axis::Form::parts:
        for (size_t i = 0; i < names.size(); ++i) n += names[i].empty() ? axis.runs[i] : known(names[i]);
        break;
      case Axis::Form::merged:
        n = 1;
        for (const std::string& name : names) n *= known(name);
        break;
    }
    if (n < 1) throw Invalid("an axis of the result of size " + std::to_string(n));
    return n;
  }

  // --- points ---
  // Runs over all values of all names in the operands of the list and in the result. A part of a concatenation may be
  // absent (-1): a point counts iff exactly one part of every concatenation is present, and every name of every other
  // axis is. In a concatenation of operands only the operand's own names may be parts.
  template <class Visit>
  int64_t for_each_point(const std::vector<int>& slots, bool concat, int64_t most, Visit&& visit) {
    std::set<std::string> own, all;
    for (int s : slots) collect(s, own);
    all = own;
    collect(int(operands_.size()), all);
    std::vector<std::string> names(all.begin(), all.end());
    std::vector<int> used = slots;
    used.push_back(int(operands_.size()));
    int64_t volume = 1;
    for (const std::string& name : names) {
      volume *= known(name) + 1;
      if (volume > 20 * most) throw TooLarge("points");
    }
    int64_t points = 0;
    at_.clear();
    std::function<void(size_t)> loop = [&](size_t i) {
      if (i == names.size()) {
        for (int s : used)
          for (const auto& row : shapes_[size_t(s)])
            for (const Axis& axis : row)
              if (!counts(axis)) return;
        ++points;
        visit();
        return;
      }
      const bool part = part_names_.count(names[i]) > 0;
      int64_t& value = at_[names[i]];
      if (part) value = -1, loop(i + 1);
      if (part && concat && !own.count(names[i])) return;
      for (value = 0; value < known(names[i]); ++value) loop(i + 1);
    };
    loop(0);
    return points;
  }
  void collect(int slot, std::set<std::string>& names) const {
    for (const auto& row : shapes_[size_t(slot)])
      for (const Axis& axis : row)
        for (const std::string& name : axis.names)
          if (!name.empty()) names.insert(name);
  }
  bool counts(const Axis& axis) const {
    size_t present = 0;
    for (const std::string& name : axis.names) present += !name.empty() && at_.at(name) >= 0;
    return present == (axis.form == Axis::Form::parts ? 1 : axis.names.size());
  }
  int64_t index(const Axis& axis) const {
    const auto& names = axis.names;
    switch (axis.form) {
      case Axis::Form::ellipsis: break;
      case Axis::Form::index: return axis.index;
      case Axis::Form::name: return at_.at(names[0]);
      case Axis::Form::reversed: return known(names[0]) - 1 - at_.at(names[0]);
      case Axis::Form::strided: return axis.stride * at_.at(names[0]) + axis.offset;
      case Axis::Form::window: {
        int64_t before = axis.same ? axis.dilation * (known(names[1]) - 1) / 2 : axis.pad;
        return axis.stride * at_.at(names[0]) + axis.offset + axis.dilation * at_.at(names[1]) - before;
      }
      case Axis::Form::parts: {
        int64_t start = 0;
        for (size_t i = 0; i < names.size(); ++i) {
          if (!names[i].empty() && at_.at(names[i]) >= 0) return start + at_.at(names[i]);
          start += names[i].empty() ? axis.runs[i] : known(names[i]);
        }
        break;
      }
      case Axis::Form::merged: {
        int64_t at = 0;
        for (const std::string& name : names) at = at * known(name) + at_.at(name);
        return at;
      }
    }
    return -1;
  }
  // Of the current point in the tensor of a slot; -1 outside.
  int64_t position(int slot, const Value& value) const {
    int64_t at = 0;
    for (size_t k : {0u, 2u, 1u})
      for (size_t a = 0; a < value.rows[k].size(); ++a) {
        int64_t i = index(shapes_[size_t(slot)][k][a]), n = value.rows[k][a];
        if (i < 0 || i >= n) return -1;
        at = at * n + i;
      }
    return at;
  }

  std::vector<Value> operands_;
  std::map<std::string, int64_t> numbers_;
  bool commas_ = false;
  std::vector<Shape> shapes_;  // the operands', then the result's
  std::set<std::string> part_names_;
  std::map<std::string, int64_t> size_, at_;
  int anonymous_ = 0;
};

}  // namespace

Value evaluate(std::string text, std::vector<Value> operands, std::map<std::string, int64_t> numbers, Reduce reduce,
               Combine combine, int64_t most) {
  return Evaluator(std::move(text), std::move(operands), std::move(numbers)).evaluate(reduce, combine, most);
}

}  // namespace naive
