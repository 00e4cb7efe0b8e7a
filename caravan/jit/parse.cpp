#include "caravan/jit/parse.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/ops/op.h"

namespace caravan::jit {

namespace {

using ir::Term;

constexpr int64_t kLargestNumber = int64_t(1) << 40;
constexpr int kDeepestIds = 50;  // levels of table[ids[more[..]]]; bounds the recursion

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || (c >= '0' && c <= '9') || c == '.'; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

// A buffer and the indices at which a line reads or writes it.
struct Access {
  std::string buffer;
  std::vector<Term> map;
  size_t column = 0;
};
struct Line {
  ir::Accumulation accumulation;  // its buffer ids are not set yet
  Access target;
  std::vector<Access> operands;
  std::vector<bool> is_id;  // by operand: is it an index tensor
  size_t number = 0;        // of the line, from 0
};

class LineParser {
 public:
  LineParser(std::string_view line, size_t number) : line_(line) { out_.number = number; }

  Line parse() {
    const std::string_view code = line_.substr(0, line_.find('#'));
    const size_t domain = find_word(code, "for");
    text_ = code;
    parse_domain(domain);
    at_ = 0, text_ = code.substr(0, domain);
    out_.target.column = (blank(), at_);
    out_.target.buffer = name("the name of what is written");
    out_.target.map = map();
    parse_accumulator();
    parse_body();
    return std::move(out_);
  }

  // The message ends with the line; with the text around the column if the line is long.
  [[noreturn]] void refuse(const std::string& problem, size_t column) const {
    constexpr size_t kLongestLine = 200, kBefore = 100;
    std::string shown(line_);
    if (shown.size() > kLongestLine) {
      const size_t from = column > kBefore ? column - kBefore : 0;
      const std::string cut = from > 0 ? "..." : "";
      column = column - from + cut.size();
      shown = cut + shown.substr(from, kLongestLine) + (from + kLongestLine < shown.size() ? "..." : "");
    }
    throw SpecError(problem + ".\n  " + shown + "\n  " + std::string(column, ' ') + "^");
  }

 private:
  // The position of `word` as a whole word, or the end of the text.
  static size_t find_word(std::string_view text, std::string_view word) {
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
      const size_t after = at + word.size();
      if (at > 0 && is_blank(text[at - 1]) && after < text.size() && is_blank(text[after])) return at;
    }
    return text.size();
  }
  [[noreturn]] void expected(const std::string& what) const { refuse("expected " + what, at_); }
  void blank() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool take(std::string_view token) {
    blank();
    if (text_.substr(at_, token.size()) != token) return false;
    const size_t end = at_ + token.size();
    if (starts_name(token[0]) && end < text_.size() && continues_name(text_[end])) return false;
    at_ = end;
    return true;
  }
  void need(const char* token) {
    if (!take(token)) expected(std::string("`") + token + "`");
  }
  std::string name(const char* what) {
    blank();
    const size_t from = at_;
    if (at_ >= text_.size() || !starts_name(text_[at_])) expected(what);
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }
  bool number(int64_t& value) {
    blank();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return false;
    at_ = size_t(end - text_.data());
    must_be_countable(value);
    return true;
  }
  // Refuses numbers so large that a sum or product of two of them could overflow.
  void must_be_countable(int64_t value) const {
    if (value < -kLargestNumber || value > kLargestNumber)
      refuse("a number of an index or of a domain is at most 2^40, 1099511627776", at_);
  }

  // for i < 64, k < 3 where 2*i + k - 1 >= 0 and .. counting k
  void parse_domain(size_t from) {
    ir::Accumulation& a = out_.accumulation;
    at_ = from;
    if (!take("for")) return;
    do {
      const size_t column = (blank(), at_);
      a.iterators.push_back(name("an iterator"));
      if (std::count(a.iterators.begin(), a.iterators.end(), a.iterators.back()) > 1)
        refuse("the iterator `" + a.iterators.back() + "` stands here twice", column);
      need("<");
      int64_t extent = 0;
      if (!number(extent) || extent < 0) expected("the number of values of `" + a.iterators.back() + "`");
      a.extents.push_back(extent);
    } while (take(","));
    if (take("where")) do {
        a.where.push_back(term());
        need(">=");
        need("0");
      } while (take("and"));
    if (take("counting")) {
      a.counted.assign(a.iterators.size(), false);
      do {
        const size_t column = (blank(), at_);
        const auto at = std::find(a.iterators.begin(), a.iterators.end(), name("an iterator"));
        if (at == a.iterators.end()) refuse("there is no such iterator", column);
        a.counted[size_t(at - a.iterators.begin())] = true;
      } while (take(","));
    }
    blank();
    if (at_ != text_.size()) expected("`where`, `counting` or the end of the line");
  }

  // 2*oh + kh - 1; a buffer in it is an index tensor
  Term term() {
    Term out;
    int64_t sign = take("-") ? -1 : 1;
    for (;;) {
      int64_t factor = 1;
      const bool has_number = number(factor);
      if (has_number && !take("*"))
        must_be_countable(out.constant += sign * factor);
      else
        add_variable(out, sign * factor);
      for (const Term::Part& part : out.parts) must_be_countable(part.coefficient);
      if (take("+"))
        sign = 1;
      else if (take("-"))
        sign = -1;
      else
        return out;
    }
  }
  void add_variable(Term& out, int64_t factor) {
    const size_t column = (blank(), at_);
    const std::string word = name("an iterator, a number or a buffer of ids");
    const auto& iterators = out_.accumulation.iterators;
    if (auto at = std::find(iterators.begin(), iterators.end(), word); at != iterators.end()) {
      out.add(Term::Part::Kind::iterator, int(at - iterators.begin()), factor);
      return;
    }
    if (at_ >= text_.size() || text_[at_] != '[')
      refuse("`" + word + "` is no iterator of this line; give its values: for " + word + " < ..", column);
    if (depth_ == kDeepestIds)
      refuse("more than " + std::to_string(kDeepestIds) + " buffers of ids are nested", column);
    ++depth_;
    const int operand = add_operand({word, map(), column});
    --depth_;
    out_.is_id[size_t(operand)] = true;
    out.add(Term::Part::Kind::load, operand, factor);
  }
  std::vector<Term> map() {
    std::vector<Term> out;
    if (at_ >= text_.size() || text_[at_] != '[') return out;
    ++at_;
    do out.push_back(term());
    while (take(","));
    need("]");
    return out;
  }
  int add_operand(Access access) {
    for (size_t k = 0; k < out_.operands.size(); ++k)
      if (out_.operands[k].buffer == access.buffer && out_.operands[k].map == access.map) return int(k);
    out_.operands.push_back(std::move(access)), out_.is_id.push_back(false);
    return int(out_.operands.size()) - 1;
  }

  void parse_accumulator() {
    blank();
    std::string known;
    for (const AccumulatorRow& row : accumulator_rows()) {
      add_to_list(known, row.symbol);
      if (text_.substr(at_, row.symbol.size()) != row.symbol) continue;
      at_ += row.symbol.size();
      out_.accumulation.accumulator = *find_accumulator(row.name);
      if (keeps_position(out_.accumulation.accumulator) && out_.accumulation.counted.empty())
        refuse(
            "the position that `" + std::string(row.name) + "` keeps is that among which iterators? Add `counting ..`",
            at_ - row.symbol.size());
      return;
    }
    expected("one of " + known);
  }

  // Finds the reads in a body. Then ir::parse_body parses it, with the text of each read, such as "x[b, i]", as a name.
  void parse_body() {
    const size_t from = (blank(), at_);
    std::vector<std::string> spelt;
    std::vector<int> operands;  // the operand of each of these names
    while (blank(), at_ < text_.size()) {
      const size_t start = at_;
      if (!starts_name(text_[at_])) {  // a sign, or a number; the e of its exponent is not a name
        const bool digit = text_[at_] >= '0' && text_[at_] <= '9';
        double ignored = 0;
        const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), ignored);
        at_ = digit && error == std::errc() ? size_t(end - text_.data()) : at_ + 1;
        continue;
      }
      const std::string word = name("a name");
      bool is_op = (at_ < text_.size() && text_[at_] == '(') || word == "inf" || word == "nan" || word == "position";
      for (const OpRow& row : op_rows()) is_op = is_op || row.infix == word;
      if (is_op) continue;
      const int operand = add_operand({word, map(), start});
      const std::string_view text = text_.substr(start, at_ - start);
      if (std::find(spelt.begin(), spelt.end(), text) == spelt.end())
        spelt.emplace_back(text), operands.push_back(operand);
    }
    try {
      out_.accumulation.body = ir::parse_body(text_.substr(from), spelt).with_operands(operands);
    } catch (const ir::BodyTextError& error) {
      refuse(error.problem(), from + error.at());
    }
  }

  std::string_view line_, text_;
  size_t at_ = 0;
  int depth_ = 0;  // of nested index tensors
  Line out_;
};

// Assembles the parsed lines into a program: declares their buffers, and then adds the accumulations.
class Assembler {
 public:
  Assembler(std::string_view text, const Buffers& given) : given_(given) {
    size_t number = 0;
    for (size_t from = 0; from <= text.size(); ++number) {
      const size_t end = std::min(text.find('\n', from), text.size());
      lines_.push_back(text.substr(from, end - from));
      if (lines_.back().ends_with('\r')) lines_.back().remove_suffix(1);
      from = end + 1;
    }
  }

  ir::Program run() {
    for (size_t n = 0; n < lines_.size(); ++n) {
      const size_t first = lines_[n].find_first_not_of(" \t");
      if (first != std::string_view::npos && lines_[n][first] != '#')
        parsed_.push_back(LineParser(lines_[n], n).parse());
    }
    if (parsed_.empty())
      throw SpecError("the program has no line; write one, such as y[i] += a[i] * x[i]   for i < 8.");
    for (const Line& line : parsed_) {
      for (size_t k = 0; k < line.operands.size(); ++k) {
        note(line, line.operands[k]);
        if (line.is_id[k]) ids_.insert(line.operands[k].buffer);
        read_.insert(line.operands[k].buffer);
      }
      note(line, line.target);
    }
    for (const auto& [name, sizes] : given_.sizes) must_be_known(name, sizes.size());
    for (const auto& [name, dtype] : given_.dtypes)
      must_be_known(name, sizes_.count(name) ? sizes_.at(name).size() : 0);

    std::set<std::string> written;
    for (const Line& line : parsed_) written.insert(line.target.buffer);
    for (const auto& [name, sizes] : sizes_)
      if (!written.count(name)) add(name, ir::StateLeaf{});
    for (Line& line : parsed_) assemble(line);
    std::set<std::string> taken;
    for (const auto& [name, sizes] : sizes_) taken.insert(name);
    for (const Line& line : parsed_) {
      const std::string& name = line.target.buffer;
      if (read_.count(name)) continue;
      const ir::BufferId value = buffers_.at(name);
      ir::Buffer state = program_.buffers[size_t(value)];
      std::string& fresh = program_.buffers[size_t(value)].name = name + ".new";
      while (!taken.insert(fresh).second) fresh += ".new";
      state.kind = ir::StateLeaf{};
      program_.assignments.push_back({ir::BufferId(program_.buffers.size()), value});
      program_.buffers.push_back(std::move(state));
    }
    program_.name = "jit";
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(const Line& line, const Access& access, const std::string& problem) const {
    LineParser(lines_[line.number], line.number).refuse(problem, access.column);
  }
  void must_be_known(const std::string& name, size_t rank) const {
    auto at = sizes_.find(name);
    if (at == sizes_.end()) throw SpecError("the program has no buffer `" + name + "`.");
    if (at->second.size() != rank)
      throw SpecError("`" + name + "` has " + std::to_string(at->second.size()) + " axes in the program, but " +
                      std::to_string(rank) + " sizes are given for it.");
  }

  // The largest value of an index. A condition `c - index >= 0` bounds it by c.
  int64_t reach(const Line& line, const Term& index) const {
    int64_t high = ir::range(index, line.accumulation.extents, {}).high;
    for (const Term& condition : line.accumulation.where)
      if (const Term sum = condition + index; sum.is_constant()) high = std::min(high, sum.constant);
    return high;
  }
  void note(const Line& line, const Access& access) {
    auto [at, added] = sizes_.try_emplace(access.buffer, std::vector<int64_t>(access.map.size(), 0));
    if (at->second.size() != access.map.size())
      refuse(line, access,
             "`" + access.buffer + "` has " + std::to_string(access.map.size()) + " indices here and " +
                 std::to_string(at->second.size()) + " before");
    const auto given = given_.sizes.find(access.buffer);
    if (given != given_.sizes.end() && given->second.size() == access.map.size()) {
      at->second = given->second;
      return;
    }
    for (size_t axis = 0; axis < access.map.size(); ++axis) {
      if (access.map[axis].has_load())
        refuse(line, access,
               "the size of `" + access.buffer + "` depends on ids; give it: {.sizes = {{\"" + access.buffer +
                   "\", {..}}}}");
      at->second[axis] = std::max(at->second[axis], reach(line, access.map[axis]) + 1);
    }
  }

  // Does the number of bytes of a buffer, or of the points of a domain, fit into 64 bits?
  static bool can_be_counted(const std::vector<int64_t>& sizes) {
    int64_t bytes = 8;  // of the widest element
    for (const int64_t size : sizes)
      if (__builtin_mul_overflow(bytes, size, &bytes)) return false;
    return true;
  }

  ir::BufferId add(const std::string& name, ir::BufferKind kind) {
    if (!can_be_counted(sizes_.at(name))) throw SpecError("`" + name + "` has more elements than can be counted.");
    ir::Buffer out;
    out.name = name;
    for (int64_t size : sizes_.at(name)) out.shape.output.push_back({size});
    const auto given = given_.dtypes.find(name);
    out.dtype = given != given_.dtypes.end() ? given->second : ids_.count(name) ? DType::i32 : DType::f32;
    out.kind = std::move(kind);
    buffers_[name] = ir::BufferId(program_.buffers.size());
    program_.buffers.push_back(std::move(out));
    return buffers_.at(name);
  }

  void assemble(Line& line) {
    ir::Accumulation a = std::move(line.accumulation);
    if (!can_be_counted(a.extents))
      refuse(line, line.target, "the domain of this line has more points than can be counted");
    for (const Access& access : line.operands) {
      const auto at = buffers_.find(access.buffer);
      if (at == buffers_.end())
        refuse(line, access,
               access.buffer == line.target.buffer ? "a line cannot read what it writes, `" + access.buffer + "`"
                                                   : "`" + access.buffer + "` is written by a later line");
      a.operands.push_back({at->second, access.map});
    }
    if (buffers_.count(line.target.buffer))
      refuse(line, line.target, "`" + line.target.buffer + "` is written twice, or read before it is written");
    if (keeps_position(a.accumulator)) ids_.insert(line.target.buffer);  // a position is an integer
    a.target = add(line.target.buffer, ir::Computed{});
    a.write = line.target.map;
    std::vector<DType> dtypes;
    for (const ir::Operand& o : a.operands) dtypes.push_back(program_.buffers[size_t(o.buffer)].dtype);
    a.body = ir::typed(a.body, dtypes, a.accumulator, program_.buffers[size_t(a.target)].dtype);
    program_.accumulations.push_back(std::move(a));
    if (const auto problem = ir::problem(program_)) refuse(line, line.target, "this line cannot be run: " + *problem);
  }

  const Buffers& given_;
  std::vector<std::string_view> lines_;
  std::vector<Line> parsed_;
  std::map<std::string, std::vector<int64_t>> sizes_;
  std::set<std::string> ids_, read_;
  std::map<std::string, ir::BufferId> buffers_;
  ir::Program program_;
};

}  // namespace

ir::Program parse_program(std::string_view text, const Buffers& buffers) { return Assembler(text, buffers).run(); }

}  // namespace caravan::jit
