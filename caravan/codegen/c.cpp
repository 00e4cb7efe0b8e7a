#include "caravan/codegen/c.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/base/random.h"
#include "caravan/codegen/functions.h"
#include "caravan/codegen/prelude.h"
#include "caravan/codegen/sum_loops.h"
#include "caravan/ir/text.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::codegen {

using namespace loop;
using ir::BufferId;
using Part = Term::Part;

namespace {

static_assert(
    row_without_function(kOps) == -1,
    "table.h: the C of an op calls a function that prelude/math.h does not have as caravan_NAME_f32 and _f64");

// Is it a function of the prelude under its name in the C library: exp or expf?
bool in_library(std::string_view name) {
  return in_prelude(name) || (name.ends_with('f') && in_prelude(name.substr(0, name.size() - 1)));
}

}  // namespace

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return "uint8_t";
    case DType::i32: return "int32_t";
    case DType::i64: return "int64_t";
    case DType::f16:
    case DType::bf16: return "uint16_t";
    case DType::f32: return "float";
    case DType::f64: return "double";
  }
  return "?";
}

std::string identifier(const std::string& text) {
  std::string out;
  for (char c : text) out += isalnum(uint8_t(c)) ? c : '_';
  if (out.empty() || out[0] == '_' || isdigit(uint8_t(out[0]))) out = "v" + out;
  static const std::set<std::string> kTaken = {
      "auto",     "break",  "case",   "char",   "const",           "continue", "default",  "do",
      "double",   "else",   "enum",   "extern", "float",           "for",      "goto",     "if",
      "inline",   "int",    "long",   "return", "register",        "restrict", "short",    "signed",
      "sizeof",   "static", "struct", "switch", "typedef",         "union",    "unsigned", "void",
      "volatile", "while",  "asm",    "typeof", "linux",           "unix",     "i386",     "main",
      "memcpy",   "fabs",   "fabsf",  "floor",  "floorf",          "ceil",     "ceilf",    "rint",
      "rintf",    "trunc",  "truncf", "sqrt",   "sqrtf",           "fma",      "fmaf",     "fmod",
      "fmodf",    "from",   "to",     "seed",   "math_errhandling"};
  auto numbered = [&](std::string_view stem) {  // as the printer names registers and random streams
    return out.size() > stem.size() && out.starts_with(stem) &&
           out.find_first_not_of("0123456789", stem.size()) == out.npos;
  };
  const bool is_macro =
      out.size() > 1 && std::none_of(out.begin(), out.end(), [](char c) { return islower(uint8_t(c)); });
  return kTaken.count(out) || in_library(out) || numbered("r") || numbered("stream") || is_macro ||
                 out.ends_with("_t") || out.starts_with("caravan")
             ? out + "_"
             : out;
}
std::string comment(std::string text) {
  for (const char* ends : {"*/", "/*", "??"})
    for (size_t at; (at = text.find(ends)) != text.npos;) text.insert(at + 1, " ");
  return "/* " + text + " */";
}

std::string wrapped(const std::string& text) {
  constexpr size_t columns = 120;
  if (text.size() <= columns) return text;
  const size_t indent = text.find_first_not_of(' '), comma = text.rfind(", ", columns - 1);
  if (comma == text.npos || comma < indent) return text;
  return text.substr(0, comma + 1) + "\n" +
         wrapped(std::string(indent < 4 ? indent + 4 : indent, ' ') + text.substr(comma + 2));
}

std::string literal(double value, DType dtype) {
  if (is_float(dtype)) {
    value = convert(dtype, value);
    if (std::isnan(value)) return "NAN";
    if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
    char shortest[32];
    std::string text = dtype == DType::f64
                           ? ir::number_text(value)
                           : std::string(shortest, std::to_chars(shortest, std::end(shortest), float(value)).ptr);
    if (text.find_first_of(".e") == text.npos) text += ".0";
    return dtype == DType::f64 ? text : text + "f";
  }
  if (dtype == DType::boolean) return value != 0 ? "1" : "0";
  if (std::isfinite(value) && !can_hold(dtype, std::trunc(value))) {
    const double modulus = std::ldexp(1.0, 8 * bytes(dtype));
    value = std::fmod(std::trunc(value), modulus);
    if (value < 0) value += modulus;
    if (value > largest(dtype)) value -= modulus;
  }
  if (dtype != DType::i64) return std::to_string(int64_t(convert(dtype, value)));
  if (value <= -0x1p63) return "INT64_MIN";
  if (value >= 0x1p63) return "INT64_MAX";
  return std::isnan(value) ? "0LL" : std::to_string(int64_t(value)) + "LL";
}

namespace {

class KernelPrinter {
 public:
  // Numbered names are the same for kernels that differ in nothing but which buffers they are about.
  enum class Names : uint8_t { own, numbered };

  // With a prefix the text is plain: without pragmas and vectors, and no name of its own starts with the prefix.
  KernelPrinter(const Module& module, const Kernel& kernel, Names names, const std::string& prefix = "")
      : module_(module),
        kernel_(kernel),
        prefix_(prefix),
        uses_(kernel.registers.size(), 0),
        loops_(kernel.registers.size(), 0),
        kept_loops_(loops_to_keep(module, kernel)) {
    for_each_access(kernel_.body, [&](const loop::Access& a) {
      if (a.write) written_.insert(a.buffer);
    });
    count(kernel_.body);
    survey(kernel_.body);
    std::set<std::string> taken;
    auto add = [&](const std::string& own, const char* kind, size_t n) {
      return unique(taken, names == Names::own ? free_name(own) : kind + std::to_string(n));
    };
    for (size_t n = 0; n < buffers_.size(); ++n)
      names_[buffers_[n]] = add(module_.buffers[size_t(buffers_[n])].name, "b", n);
    for (size_t n = 0; n < kernel_.variables.size(); ++n) variables_.push_back(add(kernel_.variables[n], "v", n));
    for (size_t n = 0; n < symbols_.size(); ++n)
      symbol_names_[symbols_[n]] = add(module_.symbols[size_t(symbols_[n])].name, "s", n);
    texts_.resize(kernel_.registers.size());
    if (is_plain()) name_totals(kernel_.body, taken);
  }

  const std::vector<BufferId>& buffers() const { return buffers_; }  // in the order of the parameters
  bool calls_prelude() const { return calls_prelude_; }              // an elementary function, in the body
  bool is_pure() const { return symbols_.empty() && streams_.empty() && !parallel_loop(kernel_); }

  std::string head(const std::string& function) const {
    std::string out = "void " + function + "(";
    bool first = true;
    auto parameter = [&](const std::string& text) { out += (first ? "" : ", ") + text, first = false; };
    for (BufferId id : buffers_)
      parameter(std::string(written_.count(id) ? "" : "const ") + c_type(module_.buffers[size_t(id)].dtype) +
                "* restrict " + names_.at(id));
    for (int s : symbols_) parameter("int64_t " + symbol_names_.at(s));
    if (!streams_.empty()) parameter("uint64_t seed");
    for (size_t n = 0; n < streams_.size(); ++n) parameter("uint64_t stream" + std::to_string(n));
    if (parallel_loop(kernel_)) parameter("int64_t from"), parameter("int64_t to");
    return out + (first ? "void)" : ")");
  }
  std::string body() {
    depth_ = 1;
    text_.clear();
    print(kernel_.body);
    return " {\n" + text_ + "}\n";
  }

  std::string call(const std::string& function) const {
    std::string out = function + "(";
    bool first = true;
    auto argument = [&](const std::string& text) { out += (first ? "" : ", ") + text, first = false; };
    for (BufferId id : buffers_) argument("step->buffers[" + std::to_string(id) + "]");
    for (int s : symbols_) argument("step->symbols[" + std::to_string(s) + "]");
    if (!streams_.empty()) argument("step->seed");
    for (const std::string& stream : streams_) argument(std::to_string(hash_name(stream)) + "ULL");
    if (parallel_loop(kernel_)) argument("from"), argument("to");
    return out + ");";
  }

 private:
  bool is_plain() const { return !prefix_.empty(); }
  std::string free_name(const std::string& own) const {
    const std::string name = identifier(own);
    return is_plain() && (name.starts_with(prefix_ + "_") || name.starts_with("caravan_")) ? "v_" + name : name;
  }
  void name_totals(const Block& block, std::set<std::string>& taken) {
    for (const Statement& s : block) {
      if (auto* f = std::get_if<For>(&s)) name_totals(f->body, taken);
      if (auto* i = std::get_if<If>(&s)) name_totals(i->body, taken);
      auto* c = std::get_if<Combine>(&s);
      if (!c || totals_.count(c->to)) continue;
      const bool is_sum = c->accumulator == Accumulator::add;
      totals_[c->to] = unique(taken, is_sum ? "sum" : std::string(row(c->accumulator).name));
    }
  }
  void pragma(const std::string& text) {
    if (!is_plain()) line("#pragma GCC " + text);
  }
  static std::string unique(std::set<std::string>& taken, const std::string& base) {
    std::string name = base;
    for (int n = 2; !taken.insert(name).second; ++n) name = base + "_" + std::to_string(n);
    return name;
  }

  // --- what a kernel uses ---
  // A register that is used once is written where it is used; one that is used more often, in another loop than its
  // own, or that must be read before a store, is a variable.
  void use(Register r) { uses_[size_t(r)] += loops_[size_t(r)] == loop_ ? 1 : 2; }
  void keep(Register r) { uses_[size_t(r)] += 2; }
  void use(const Term& term) {
    for (const Part& part : term.parts) {
      if (part.kind == Part::Kind::symbol) add_once(symbols_, part.which);
      if (part.kind == Part::Kind::load) keep(part.which);
    }
  }
  template <class T>
  static size_t add_once(std::vector<T>& list, const T& item) {
    const size_t at = size_t(std::find(list.begin(), list.end(), item) - list.begin());
    if (at == list.size()) list.push_back(item);
    return at;
  }
  void touch(BufferId id) { add_once(buffers_, id); }
  const ir::RandomLeaf& random(BufferId id) const { return std::get<ir::RandomLeaf>(module_.buffers[size_t(id)].kind); }
  void count(const Block& block) {
    for (const Statement& s : block) std::visit([&](const auto& x) { count(x); }, s);
  }
  void count(const Define& d) {
    loops_[size_t(d.to)] = loop_;
    if (auto* load = std::get_if<Load>(&d.value); load && written_.count(load->buffer)) keep(d.to);
    if (auto* constant = std::get_if<Constant>(&d.value); constant && constant->value == 0) zeros_.insert(d.to);
    std::visit([&](const auto& v) { count_value(v); }, d.value);
  }
  void count_value(const Constant&) {}
  void count_value(const Load& v) { touch(v.buffer), use(v.offset); }
  void count_value(const IndexValue& v) { use(v.term); }
  void count_value(const RandomValue& v) { add_once(streams_, random(v.leaf).stream), use(v.element), use(v.step); }
  // An operand that the spelling mentions twice is kept in a variable. So is one that the spelling may skip: its loads
  // would be conditional, which costs vector code a mask, and GCC 12 gives lanes the wrong ones (six neighbours, -O3).
  // So is what a 0 is added to: GCC reads `-fabs(x) + 0.0`, and `0.0 - fabs(x)`, as `-fabs(x)`, which is -0 where x is
  // 0.
  void count_value(const Apply& v) {
    const Spelling& written = spelling(v.op, !is_float(v.compute));
    const bool beside_zero = is_float(v.compute) && (v.op == Op::add || v.op == Op::sub) &&
                             (zeros_.count(v.args[0]) || zeros_.count(v.args[1]));
    for (int k = 0; k < row(v.op).arity; ++k)
      for (int n = 0; n < written.mentions[k]; ++n)
        beside_zero || written.conditional ? keep(v.args[k]) : use(v.args[k]);
  }
  void count_value(const Cast& v) { use(v.arg); }
  void count(const Reset&) {}
  void count(const Combine& c) { use(c.value); }
  void count(const CombineFirst& c) { keep(c.value), use(c.term); }
  void count(const Store& s) { touch(s.buffer), use(s.offset), use(s.value); }
  void count(const StoreCombine& s) { touch(s.buffer), use(s.offset), use(s.value); }
  void count(const StoreFirst& s) { touch(s.positions), touch(s.best), use(s.offset), keep(s.value), use(s.term); }
  void count(const For& f) {
    const int outside = std::exchange(loop_, ++last_loop_);
    count(f.body);
    loop_ = outside;
  }
  void count(const If& i) {
    for (const Term& t : i.where) use(t);
    count(i.body);
  }

  // --- iterations side by side ---
  // Statements of loops that run side by side are printed in runs: as many as come before the next inner loop, in loops
  // of their own over the lanes. A register that one run defines and another uses becomes an array over the lanes.
  struct Lane {
    Variable variable;
    int64_t extent;
    LoopKind kind;
  };
  bool in_lanes(const For& f) const {
    const bool kind = f.kind == LoopKind::vector || f.kind == LoopKind::unrolled;
    return kind && (!lanes_.empty() || has_loop(f.body));
  }
  static bool is_loop(const Statement& s) {
    auto* i = std::get_if<If>(&s);
    return std::holds_alternative<For>(s) || (i && has_loop(i->body));
  }
  void survey(const Block& block) {
    for (const Statement& s : block) {
      if (is_loop(s)) {
        ++run_;
        auto* f = std::get_if<For>(&s);
        const bool lanes = f && in_lanes(*f);
        if (lanes) lanes_.push_back({f->variable, f->extent, f->kind});
        survey(f ? f->body : std::get<If>(s).body);
        if (lanes) lanes_.pop_back();
        ++run_;
      } else {
        survey(s);
      }
    }
  }
  void survey(const Statement& s) {
    if (auto* i = std::get_if<If>(&s))
      for (const Statement& inside : i->body) survey(inside);
    auto defined = [&](Register r) { made_[r] = {run_, lanes_}; };
    auto used = [&](Register r) {
      if (auto at = made_.find(r); at != made_.end() && at->second.run != run_ && !at->second.lanes.empty())
        arrays_[r] = at->second.lanes;
    };
    for_each_use(s, used);
    if (auto* d = std::get_if<Define>(&s); d && !std::holds_alternative<Constant>(d->value)) defined(d->to);
    if (auto* r = std::get_if<Reset>(&s)) defined(r->to);
    if (auto* c = std::get_if<Combine>(&s)) used(c->to);
    if (auto* c = std::get_if<CombineFirst>(&s)) used(c->best), used(c->position);
  }

  void print_in_lanes(const Block& block) {
    std::vector<const Statement*> run;
    auto flush = [&] {
      if (!run.empty()) print_run(run);
      run.clear();
    };
    for (const Statement& s : block) {
      if (!is_loop(s)) {
        run.push_back(&s);
        continue;
      }
      flush();
      std::visit([&](const auto& x) { print(x); }, s);
    }
    flush();
  }
  void print_run(const std::vector<const Statement*>& run) {
    for (const Statement* s : run) {
      Register r = -1;
      if (auto* d = std::get_if<Define>(s)) r = d->to;
      if (auto* reset = std::get_if<Reset>(s)) r = reset->to;
      if (!arrays_.count(r)) continue;
      int64_t elements = 1;
      for (const Lane& lane : arrays_.at(r)) elements *= lane.extent;
      line(std::string(c_type(type(r))) + " " + reg(r) + "[" + std::to_string(elements) + "];");
    }
    vector_ = vector_type(run);
    const bool one_by_one = adds_lanes(run);
    for (const Lane& lane : lanes_) {
      const std::string& v = variables_[size_t(lane.variable)];
      const bool by_vectors = vector_ && &lane == &lanes_.back();
      const int64_t step = by_vectors ? vector_->lanes : 1;
      if (by_vectors || one_by_one || lane.kind == LoopKind::unrolled)
        pragma("unroll " + std::to_string(lane.extent / step));
      else if (&lane == &lanes_.back())
        pragma("unroll 1");  // or it would be unrolled before it could be vectorised
      line("for (int64_t " + v + " = 0; " + v + " < " + std::to_string(lane.extent) + "; " +
           (step == 1 ? "++" + v : v + " += " + std::to_string(step)) + ") {");
      ++depth_;
    }
    for (const Statement* s : run) std::visit([&](const auto& x) { print(x); }, *s);
    for (size_t k = lanes_.size(); k-- > 0;) --depth_, line("}");
    vector_.reset(), varying_.clear();
  }

  // Does the run add up the lanes? A vectoriser would keep the order, at a cost that scalars do not have.
  bool adds_lanes(const std::vector<const Statement*>& run) const {
    return std::any_of(run.begin(), run.end(), [&](const Statement* s) {
      auto* c = std::get_if<Combine>(s);
      auto made = c ? made_.find(c->to) : made_.end();
      return made != made_.end() && made->second.lanes.size() < lanes_.size();
    });
  }

  // A run in an inner loop that only loads neighbours, adds, subtracts, multiplies and sums is written with the
  // compiler's vectors; the compiler finds the others itself, or they are rare.
  struct VectorType {
    DType dtype;
    int64_t lanes;
    std::string name() const { return "caravan_" + std::string(caravan::name(dtype)) + "x" + std::to_string(lanes); }
  };
  std::optional<VectorType> vector_type(const std::vector<const Statement*>& run) const {
    const Lane& lane = lanes_.back();
    const bool fits = lane.kind == LoopKind::vector && lane.extent <= 64 && (lane.extent & (lane.extent - 1)) == 0;
    std::optional<DType> dtype;
    auto same = [&](DType t) {
      return (t == DType::f32 || t == DType::f64) && t == dtype.value_or(t) && (dtype = t, true);
    };
    if (!fits || inner_loops_ == 0 || is_plain()) return {};
    bool sums = false;
    for (const Statement* s : run) {
      if (auto* c = std::get_if<Combine>(s)) {
        auto at = arrays_.find(c->to);
        sums = c->accumulator == Accumulator::add && same(type(c->to)) && same(type(c->value)) && at != arrays_.end() &&
               at->second.back().variable == lane.variable;
        if (!sums) return {};
        continue;
      }
      auto* d = std::get_if<Define>(s);
      if (!d || arrays_.count(d->to)) return {};
      if (std::holds_alternative<Constant>(d->value)) continue;
      if (!same(type(d->to))) return {};
      if (auto* load = std::get_if<Load>(&d->value)) {
        if (!same(module_.buffers[size_t(load->buffer)].dtype)) return {};
        for (const Part& part : load->offset.parts) {
          if (part.kind == Part::Kind::load && arrays_.count(part.which) && along_lane(part.which)) return {};
          if (part.kind == Part::Kind::iterator && part.which == lane.variable && part.coefficient != 1) return {};
        }
      } else if (auto* apply = std::get_if<Apply>(&d->value)) {
        const bool arithmetic =
            apply->op == Op::add || apply->op == Op::sub || apply->op == Op::mul || apply->op == Op::neg;
        if (!arithmetic || apply->compute != type(d->to)) return {};
        for (int k = 0; k < row(apply->op).arity; ++k)
          if (!constants_.count(apply->args[k]) && !is_constant(run, apply->args[k]) &&
              type(apply->args[k]) != type(d->to))
            return {};
      } else {
        return {};
      }
    }
    if (!sums) return {};
    return VectorType{*dtype, std::min<int64_t>(lane.extent, *dtype == DType::f32 ? 8 : 4)};
  }
  static bool is_constant(const std::vector<const Statement*>& run, Register r) {
    return std::any_of(run.begin(), run.end(), [&](const Statement* s) {
      auto* d = std::get_if<Define>(s);
      return d && d->to == r && std::holds_alternative<Constant>(d->value);
    });
  }
  bool along_lane(Register array) const {
    const std::vector<Lane>& over = arrays_.at(array);
    return std::any_of(over.begin(), over.end(), [&](const Lane& l) { return l.variable == lanes_.back().variable; });
  }
  bool varies(Register r) const { return arrays_.count(r) ? along_lane(r) : varying_.count(r) > 0; }
  bool varies(const Value& value) const {
    if (auto* load = std::get_if<Load>(&value))
      return std::any_of(load->offset.parts.begin(), load->offset.parts.end(), [&](const Part& part) {
        return part.kind == Part::Kind::iterator && part.which == lanes_.back().variable;
      });
    auto* apply = std::get_if<Apply>(&value);
    if (!apply) return false;
    for (int k = 0; k < row(apply->op).arity; ++k)
      if (varies(apply->args[k])) return true;
    return false;
  }

  // --- text ---
  DType type(Register r) const { return kernel_.registers[size_t(r)]; }
  struct Expression {
    std::string text;
    Level level = Level::atom;
  };
  // As an operand of what binds so tightly.
  static std::string within(const Expression& e, Level level) { return e.level < level ? "(" + e.text + ")" : e.text; }
  static Expression number(double value, DType dtype) {
    std::string text = literal(value, dtype);
    const bool minus = text.starts_with('-');
    return {std::move(text), minus ? Level::unary : Level::atom};
  }
  static Expression call(const std::string& function, const std::string& arguments) {
    return {function + "(" + arguments + ")"};
  }
  static Expression cast_to(const std::string& type, const Expression& e) {
    return {"(" + type + ")" + within(e, Level::atom), Level::unary};
  }
  // What starts with a star is put in parentheses wherever it is an operand.
  static Expression vector_at(const std::string& type, const std::string& element) {
    return {"*(" + type + "*)&" + element, Level::none};
  }

  // What a register is called where it is used.
  Expression text_of(Register r) const {
    auto at = arrays_.find(r);
    if (at == arrays_.end()) return texts_[size_t(r)];
    Term index;
    int64_t stride = 1;
    for (size_t k = at->second.size(); k-- > 0; stride *= at->second[k].extent)
      index = index + Term::iterator(at->second[k].variable, stride);
    const std::string element = reg(r) + "[" + this->index(index).text + "]";
    if (vector_ && along_lane(r)) return vector_at(vector_->name(), element);
    return {element};
  }
  Expression index(const Term& term) const {
    std::string out;
    bool product = false;
    for (const Part& part : term.parts) {
      std::string name = part.kind == Part::Kind::iterator ? variables_[size_t(part.which)]
                         : part.kind == Part::Kind::symbol ? symbol_names_.at(part.which)
                                                           : text_of(part.which).text;
      int64_t c = part.coefficient;
      out += out.empty() ? (c < 0 ? "-" : "") : (c < 0 ? " - " : " + ");
      if (std::abs(c) != 1) out += std::to_string(std::abs(c)) + "*", product = true;
      out += name;
    }
    if (out.empty()) return {std::to_string(term.constant), term.constant < 0 ? Level::unary : Level::atom};
    const bool sum = term.constant != 0 || term.parts.size() > 1, minus = term.parts[0].coefficient < 0;
    if (term.constant) out += (term.constant < 0 ? " - " : " + ") + std::to_string(std::abs(term.constant));
    return {out, sum ? Level::add : product ? Level::multiply : minus ? Level::unary : Level::atom};
  }
  // The condition that it is >= 0, without minus signs.
  std::string not_negative(const Term& term) const {
    Term plus = Term::number(std::max<int64_t>(term.constant, 0)),
         minus = Term::number(std::max<int64_t>(-term.constant, 0));
    for (const Part& part : term.parts) {
      Part positive = part;
      positive.coefficient = std::abs(part.coefficient);
      (part.coefficient < 0 ? minus : plus).parts.push_back(positive);
    }
    return plus.parts.empty() ? index(minus).text + " <= " + index(plus).text
                              : index(plus).text + " >= " + index(minus).text;
  }
  std::string element(BufferId id, const Term& offset) const { return names_.at(id) + "[" + index(offset).text + "]"; }

  // An expression of precision `from` as one of precision `to`. Floats saturate in an integer, integers wrap.
  static Expression converted(const Expression& e, DType from, DType to) {
    if (from == to) return e;
    if (to == DType::boolean) return {within(e, Level::add) + " != 0", Level::equal};
    if (is_float(from) && !is_float(to)) return call("caravan_to_" + std::string(name(to)), e.text);
    return cast_to(c_type(to), e);
  }
  Expression as(Register r, DType to) const {
    auto constant = constants_.find(r);
    if (constant != constants_.end())
      return number(is_float(type(r)) ? convert(type(r), constant->second) : constant->second, to);
    return converted(text_of(r), type(r), to);
  }
  // The bits of a narrow float; rounded once, from whatever precision.
  Expression narrow(Register r, DType to) const {
    const std::string function = "caravan_to_" + std::string(name(to));
    return call(function,
                type(r) == DType::f32 ? as(r, DType::f32).text : call("caravan_odd", as(r, DType::f64).text).text);
  }
  Expression cast(Register r, DType to) const {  // out of range saturates
    if (auto constant = constants_.find(r); constant != constants_.end())
      return number(convert(to, constant->second), wide(to));
    if (wide(to) != to) return call("caravan_from_" + std::string(name(to)), narrow(r, to).text);
    const bool shorter = !is_float(type(r)) && !is_float(to) && to != DType::boolean && bytes(to) < bytes(type(r));
    return shorter ? call("caravan_to_" + std::string(name(to)), converted(text_of(r), type(r), DType::f64).text)
                   : as(r, to);
  }

  // The op's spelling with operands put in, and the functions for the precision.
  Expression spelled(Op op, DType compute, const Expression* operands) const {
    const Spelling& written = spelling(op, !is_float(compute));
    return spelled(written, written.size - 1, compute, operands);
  }
  Expression spelled(const Spelling& written, int at, DType compute, const Expression* operands) const {
    const Spelling::Entry& entry = written.entries[size_t(at)];
    auto part = [&](int k) { return spelled(written, entry.args[k], compute, operands); };
    switch (entry.kind) {
      case Spelling::Kind::operand: return operands[entry.args[0]];
      case Spelling::Kind::number: return {std::string(entry.text)};
      case Spelling::Kind::minus: return {"-" + within(part(0), Level::atom), Level::unary};
      case Spelling::Kind::cast: return cast_to(c_type(compute), part(0));
      case Spelling::Kind::infix: return infix(entry, part(0), part(1));
      case Spelling::Kind::choice:
        return {
            within(part(0), Level::or_) + " ? " + within(part(1), Level::or_) + " : " + within(part(2), Level::choice),
            Level::choice};
      case Spelling::Kind::call: {
        std::string arguments;
        for (int k = 0; k < entry.count; ++k) arguments += (k ? ", " : "") + part(k).text;
        return call(function(entry.text, compute), arguments);
      }
    }
    return {};
  }
  // C's rules, and parentheses that it does not need where readers and warnings want them: && in ||, comparisons in
  // comparisons.
  static Expression infix(const Spelling::Entry& entry, const Expression& a, const Expression& b) {
    const Level level = entry.level;
    const bool compares = level == Level::equal || level == Level::compare;
    const Level tighter = level == Level::or_ ? Level::equal : compares ? Level::add : Level(int(level) + 1);
    const Level left = compares || (level == Level::or_ && a.level == Level::and_) ? tighter : level;
    return {within(a, left) + " " + std::string(entry.text) + " " + within(b, tighter), level};
  }
  std::string function(std::string_view name, DType compute) const {
    if (in_prelude(name)) {
      calls_prelude_ = true;
      return "caravan_" + std::string(name) + (compute == DType::f32 ? "_f32" : "_f64");
    }
    return std::string(name) + (compute == DType::f32 ? "f" : "");
  }

  Expression value_text(DType dtype, const Value& value) {
    struct Visitor {
      KernelPrinter& p;
      DType dtype;
      Expression operator()(const Constant& v) const { return number(v.value, dtype); }
      Expression operator()(const Load& v) const {
        DType stored = p.module_.buffers[size_t(v.buffer)].dtype;
        std::string text = p.element(v.buffer, v.offset);
        if (wide(stored) != stored) return p.call("caravan_from_" + std::string(name(stored)), text);
        if (p.vector_ && p.varies(Value(v))) return vector_at("const " + p.vector_->name(), text);
        return {text};
      }
      Expression operator()(const IndexValue& v) const { return converted(p.index(v.term), DType::i64, dtype); }
      Expression operator()(const RandomValue& v) const {
        const ir::RandomLeaf& leaf = p.random(v.leaf);
        const std::string bits = "caravan_random(seed, stream" + std::to_string(add_once(p.streams_, leaf.stream)) +
                                 ", " + cast_to("uint64_t", p.as(v.step, DType::i64)).text + ", " +
                                 cast_to("uint64_t", p.index(v.element)).text + ", " + std::to_string(leaf.lane) + ")";
        return cast_to(c_type(dtype), {bits + " >> " + std::to_string(32 - leaf.width), Level::none});
      }
      Expression operator()(const Apply& v) const {
        Expression operands[3];
        const OpRow& facts = row(v.op);
        for (int k = 0; k < facts.arity; ++k)
          operands[k] =
              p.as(v.args[k], facts.result == ResultType::select && k == 0 ? p.condition_type(v.args[0]) : v.compute);
        const Expression e = p.spelled(v.op, v.compute, operands);
        return dtype == DType::u8 ? cast_to("uint8_t", e) : e;  // C computes it as an int
      }
      Expression operator()(const Cast& v) const { return p.cast(v.arg, v.to); }
    };
    return std::visit(Visitor{*this, dtype}, value);
  }
  DType condition_type(Register r) const { return constants_.count(r) ? DType::f64 : type(r); }

  void line(const std::string& text) { text_ += std::string(size_t(depth_) * 2, ' ') + text + "\n"; }
  std::string reg(Register r) const {
    auto total = totals_.find(r);
    return total == totals_.end() ? "r" + std::to_string(r) : total->second;
  }

  void print(const Block& block) {
    for (const Statement& s : block) std::visit([&](const auto& x) { print(x); }, s);
  }
  void print(const Define& d) {
    if (auto* c = std::get_if<Constant>(&d.value)) {
      constants_[d.to] = c->value;
      return;
    }
    Expression value = value_text(type(d.to), d.value);
    if (arrays_.count(d.to)) return line(text_of(d.to).text + " = " + value.text + ";");
    const bool vector = vector_ && varies(d.value);
    if (vector) varying_.insert(d.to);
    if (uses_[size_t(d.to)] <= 1) {
      texts_[size_t(d.to)] = std::move(value);
      return;
    }
    // As an int a byte can be compared with 0 and no compiler finds that odd.
    const char* scalar = is_plain() && bytes(type(d.to)) == 1 ? "int" : c_type(type(d.to));
    line("const " + (vector ? vector_->name() : scalar) + " " + reg(d.to) + " = " + value.text + ";");
    texts_[size_t(d.to)] = {reg(d.to)};
  }
  void print(const Reset& r) {
    if (arrays_.count(r.to)) return line(text_of(r.to).text + " = " + literal(r.value, type(r.to)) + ";");
    line(std::string(c_type(type(r.to))) + " " + reg(r.to) + " = " + literal(r.value, type(r.to)) + ";");
    texts_[size_t(r.to)] = {reg(r.to)};
  }
  std::string combined(Accumulator accumulator, DType dtype, const Expression& total, const Expression& value) const {
    const Expression operands[3] = {total, value, {}};
    return spelled(*row(accumulator).op, dtype, operands).text;
  }
  void print(const Combine& c) {
    const Expression value = as(c.value, type(c.to)), to = text_of(c.to);
    if (c.accumulator == Accumulator::add) return line(to.text + " += " + value.text + ";");
    line(to.text + " = " + combined(c.accumulator, type(c.to), to, value) + ";");
  }
  // NaN beats everything but NaN, the first of equals stays.
  static std::string beats_text(Accumulator accumulator, DType dtype, const Expression& value,
                                const std::string& best) {
    const std::string text = within(value, Level::add), op = accumulator == Accumulator::argmax ? " > " : " < ";
    if (!is_float(dtype)) return text + op + best;
    return text + op + best + " || (" + text + " != " + text + " && " + best + " == " + best + ")";
  }
  void print_first(Accumulator accumulator, const Expression& value, DType dtype, const std::string& best,
                   const std::string& position, const Term& term) {
    line("if (" + position + " < 0 || " + beats_text(accumulator, dtype, value, best) + ") " + best + " = " +
         value.text + ", " + position + " = " + index(term).text + ";");
  }
  void print(const CombineFirst& c) {
    print_first(c.accumulator, as(c.value, type(c.best)), type(c.best), text_of(c.best).text, text_of(c.position).text,
                c.term);
  }
  Expression stored(BufferId id, Register value) const {
    DType dtype = module_.buffers[size_t(id)].dtype;
    return wide(dtype) == dtype ? as(value, dtype) : narrow(value, dtype);
  }
  void print(const Store& s) { line(element(s.buffer, s.offset) + " = " + stored(s.buffer, s.value).text + ";"); }
  void print(const StoreCombine& s) {
    const DType dtype = module_.buffers[size_t(s.buffer)].dtype;
    const std::string at = element(s.buffer, s.offset);
    const Expression value = as(s.value, dtype);
    if (s.accumulator == Accumulator::add) return line(at + " += " + value.text + ";");
    line(at + " = " + combined(s.accumulator, dtype, {at}, value) + ";");
  }
  void print(const StoreFirst& s) {
    print_first(s.accumulator, as(s.value, type(s.value)), type(s.value), element(s.best, s.offset),
                element(s.positions, s.offset), s.term);
  }
  void print(const For& f) {
    if (in_lanes(f)) {
      lanes_.push_back({f.variable, f.extent, f.kind});
      const int outside = std::exchange(inner_loops_, 0);
      print_in_lanes(f.body);
      inner_loops_ = outside;
      lanes_.pop_back();
      return;
    }
    const std::string& v = variables_[size_t(f.variable)];
    const bool part = f.kind == LoopKind::parallel;
    if (f.kind == LoopKind::vector) pragma("ivdep");
    if (f.kind == LoopKind::unrolled) pragma("unroll " + std::to_string(f.extent));
    // What runs in lanes has a loop over them inside, which stays one; plain text does not say so.
    if (kept_loops_.count(f.variable) && (lanes_.empty() || is_plain())) line("caravan_keep_loop()");
    line("for (int64_t " + v + " = " + (part ? "from" : "0") + "; " + v + " < " +
         (part ? "to" : std::to_string(f.extent)) + "; ++" + v + ") {");
    ++depth_, ++inner_loops_;
    lanes_.empty() ? print(f.body) : print_in_lanes(f.body);
    --depth_, --inner_loops_;
    line("}");
  }
  void print(const If& i) {
    std::string condition;
    for (const Term& t : i.where) condition += (condition.empty() ? "" : " && ") + not_negative(t);
    line("if (" + condition + ") {");
    ++depth_;
    lanes_.empty() || !has_loop(i.body) ? print(i.body) : print_in_lanes(i.body);
    --depth_;
    line("}");
  }

  const Module& module_;
  const Kernel& kernel_;
  std::string prefix_;
  std::vector<int> uses_, loops_;  // by register: how often it is used; in which loop it is defined
  std::set<Variable> kept_loops_;
  int loop_ = 0, last_loop_ = 0;
  std::set<BufferId> written_;
  std::vector<BufferId> buffers_;  // these three in the order of first use
  std::vector<int> symbols_;
  std::vector<std::string> streams_;
  std::map<BufferId, std::string> names_;
  std::map<int, std::string> symbol_names_;
  std::vector<std::string> variables_;
  std::vector<Expression> texts_;  // by register: what is written where it is used
  mutable bool calls_prelude_ = false;
  std::map<Register, std::string> totals_;  // names of accumulators in plain text
  std::map<Register, double> constants_;
  std::set<Register> zeros_;
  std::vector<Lane> lanes_;  // loops that run side by side around what is printed
  struct Made {
    int run;
    std::vector<Lane> lanes;
  };
  std::map<Register, Made> made_;
  std::map<Register, std::vector<Lane>> arrays_;  // registers that are arrays over lanes
  std::optional<VectorType> vector_;              // of the run that is printed
  std::set<Register> varying_;                    // registers of the run that are vectors
  int run_ = 0, inner_loops_ = 0;                 // serial loops between the lanes and what is printed
  std::string text_;
  int depth_ = 0;
};

}  // namespace

namespace {

// The functions of a module: one for kernels that differ in nothing but their buffers.
struct Function {
  std::string comments, head, body;
  bool calls_prelude;
};
struct Parts {
  std::vector<Function> functions;
  std::string run;  // the entries, and what they call beside the functions
};

// The parallel loop's iterations in chunks that do not depend on how many threads there are.
std::string chunk_function(const std::string& name, const For& loop, const std::string& call) {
  const std::string extent = std::to_string(loop.extent), rows = std::to_string(loop.chunk);
  return "static void " + name + "(const caravan_step* step, int64_t chunk) {\n  const int64_t from = " + rows +
         "*chunk, to = from + " + rows + " < " + extent + " ? from + " + rows + " : " + extent + ";\n  " + call +
         "\n}\n";
}

Parts parts_of(const Module& module) {
  Parts out;
  std::map<std::string, std::string> known;  // by text with numbered names
  std::string chunks;
  std::vector<std::string> calls;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const Kernel& kernel = module.kernels[k];
    KernelPrinter printer(module, kernel, KernelPrinter::Names::own);
    KernelPrinter numbered(module, kernel, KernelPrinter::Names::numbered);
    auto [at, fresh] =
        known.emplace(numbered.head("") + numbered.body(), "k" + std::to_string(k) + "_" + identifier(kernel.name));
    const std::string& function = at->second;
    std::string call;
    if (fresh) {
      std::string comments;
      for (const std::string& text : kernel.comments) comments += comment(text) + "\n";
      const std::string body = printer.body();
      out.functions.push_back({comments, printer.head(function), body, printer.calls_prelude()});
    } else {
      for (const std::string& text : kernel.comments) call += "  " + comment(text) + "\n";
    }
    if (const For* loop = parallel_loop(kernel)) {
      const std::string name = "chunk" + std::to_string(k);
      chunks += chunk_function(name, *loop, printer.call(function));
      const int64_t n = (loop->extent + loop->chunk - 1) / loop->chunk;
      call += "  caravan_parallel(step, " + name + ", " + std::to_string(n) + ");\n";
    } else {
      call += "  " + printer.call(function) + "\n";
    }
    calls.push_back(std::move(call));
  }
  for (const auto& [state, value] : module.assignments) {  // every value is a buffer of its own by now
    const ir::Buffer &to = module.buffers[size_t(state)], &from = module.buffers[size_t(value)];
    CARAVAN_CHECK(std::holds_alternative<ir::Computed>(from.kind) && to.dtype == from.dtype,
                  "`" + to.name + "` is assigned `" + from.name + "`");
    calls.push_back("  memcpy(step->buffers[" + std::to_string(state) + "], step->buffers[" + std::to_string(value) +
                    "], " + std::to_string(to.shape.elements() * bytes(to.dtype)) + ");  " +
                    comment(to.name + " := " + from.name) + "\n");
  }
  for (size_t n = 0; calls.size() > kMostCalls; ++n) {  // some of them become one call of a function that has them
    std::vector<std::string> fewer;
    for (size_t from = 0; from < calls.size(); from += kMostCalls) {
      const std::string name = std::string(kEntry) + std::to_string(n) + "_" + std::to_string(fewer.size());
      chunks += "\nstatic __attribute__((noinline)) void " + name + "(const caravan_step* step) {\n";
      for (size_t k = from; k < std::min(from + kMostCalls, calls.size()); ++k) chunks += calls[k];
      chunks += "}\n";
      fewer.push_back("  " + name + "(step);\n");
    }
    calls = std::move(fewer);
  }
  out.run = chunks + "\nvoid " + std::string(kEntry) + "(const caravan_step* step) {\n  (void)step;\n";
  for (const std::string& call : calls) out.run += call;
  out.run += "}\n\nvoid " + std::string(kManySteps) +
             "(const caravan_step* step, int64_t* symbols, const int64_t* ranges, int64_t steps) {\n"
             "  (void)symbols, (void)ranges;\n  for (int64_t s = 0; s < steps; ++s) {\n    " +
             kEntry + "(step);\n";
  for (size_t k = 0; k < module.symbols.size(); ++k) {
    const std::string n = "[" + std::to_string(k) + "]";
    out.run += "    if (++symbols" + n + " == ranges" + n + ") symbols" + n + " = 0;\n";
  }
  out.run += "  }\n}\n";
  return out;
}

std::string with_prelude(bool calls_prelude, const std::string& text) {
  return "/* Generated by Caravan. */\n" + cpu_prelude(calls_prelude) + text;
}

}  // namespace

namespace {

// Functions of the prelude under the names of plain text: the C library's, or with the prefix of the text.
std::string with_plain_names(const std::string& text, const std::string& prefix) {
  constexpr std::string_view ours = "caravan_";
  auto in_word = [&](size_t at) { return at < text.size() && (isalnum(uint8_t(text[at])) || text[at] == '_'); };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (in_word(end)) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string_view word = std::string_view(text).substr(at, end - at);
    at = end;
    if (!word.starts_with(ours)) {
      out += word;
      continue;
    }
    const std::string_view name = word.substr(ours.size()), stem = name.substr(0, name.find('_'));
    if (in_prelude(stem) && (name.ends_with("_f32") || name.ends_with("_f64")))
      out += std::string(stem) + (name.ends_with("_f32") ? "f" : "");
    else
      out += prefix + "_" + std::string(name);
  }
  return out;
}

}  // namespace

PlainText to_plain(const Module& module, const std::string& prefix) {
  PlainText out;
  std::map<std::string, std::string> known;  // by text with numbered names
  for (const Kernel& kernel : module.kernels) {
    KernelPrinter printer(module, kernel, KernelPrinter::Names::own, prefix);
    KernelPrinter numbered(module, kernel, KernelPrinter::Names::numbered, prefix);
    CARAVAN_CHECK(printer.is_pure(), "`" + kernel.name + "` needs more than its buffers");
    auto [at, fresh] =
        known.emplace(numbered.head("") + numbered.body(),
                      prefix + "_k" + std::to_string(out.functions.size()) + "_" + identifier(kernel.name));
    std::string comments;
    for (const std::string& text : kernel.comments) comments += comment(text) + "\n";
    if (fresh) {
      const std::string head = wrapped("static " + printer.head(at->second));
      out.functions.push_back(comments + with_plain_names(head + printer.body(), prefix));
    }
    out.calls.push_back({at->second, fresh ? "" : comments, printer.buffers()});
  }
  return out;
}

std::string plain_helpers(const std::string& text, const std::string& prefix, const std::string& before) {
  std::string out;
  for (const Helper& helper : kHelpers) {
    const std::string call = with_plain_names(std::string(helper.name), prefix) + "(";
    if (text.find(call) != text.npos && before.find(call) == before.npos)
      out += "\n" + with_plain_names(std::string(helper.text), prefix);
  }
  return out;
}

std::string to_c(const Module& module) { return to_units(module, module.kernels.size() + 1)[0]; }

std::vector<std::string> to_units(const Module& module, size_t most) {
  const Parts parts = parts_of(module);
  const size_t n = parts.functions.size(), apart = n > most ? (n + most - 1) / most : 0;
  std::vector<std::string> out;
  std::string last;
  bool last_calls = false;
  for (size_t u = 0; u < apart; ++u) {
    std::string text;
    bool calls = false;
    for (size_t k = u * n / apart; k < (u + 1) * n / apart; ++k) {
      const Function& f = parts.functions[k];
      text += "\n" + f.comments + f.head + f.body;
      last += f.head + ";\n";
      calls = calls || f.calls_prelude;
    }
    out.push_back(with_prelude(calls, text));
  }
  if (apart == 0)
    for (const Function& f : parts.functions) {
      last += "\n" + f.comments + "static " + f.head + f.body;
      last_calls = last_calls || f.calls_prelude;
    }
  out.push_back(with_prelude(last_calls, last + parts.run));
  return out;
}

}  // namespace caravan::codegen
