// Proves the invariants at the top of program.h, or names the first that does not hold.
#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/ir/program.h"
#include "caravan/ir/write_form.h"
#include "caravan/ops/op.h"

namespace caravan::ir {

namespace {

using PartKind = Term::Part::Kind;

struct InBackticks {
  std::string_view name;
};
InBackticks in_backticks(std::string_view name) { return {name}; }
std::ostream& operator<<(std::ostream& out, InBackticks q) { return out << '`' << q.name << '`'; }

struct Problem {  // thrown to end a verification; it is caught in this file
  std::string text;
};

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {
    for (const Symbol& symbol : program.symbols) symbol_ranges_.push_back(symbol.range);
    ready_.assign(program.buffers.size(), false);
    for (const Buffer& b : program.buffers) left_.push_back(b.shape.elements());
    for (size_t id = 0; id < ready_.size(); ++id) ready_[id] = !is<Computed>(BufferId(id));
  }

  void run() {
    check_symbols();
    check_buffers();
    for (const Accumulation& accumulation : program_.accumulations) check(accumulation);
    for (size_t id = 0; id < ready_.size(); ++id)
      require(ready_[id], buffer(BufferId(id)), "is computed but never written");
    check_assignments();
    for (BufferId id : program_.observed) require(exists(id), NumberOf{"observed buffer", id}, "does not exist");
  }

 private:
  // The text of a problem is made only if there is one. The verifier runs after every pass, and making the texts took
  // longer than the checks.
  template <class Subject, class... Words>
  void require(bool holds, const Subject& subject, const Words&... problem) const {
    if (!holds) fail(subject, problem...);
  }
  template <class Subject, class... Words>
  [[noreturn]] void fail(const Subject& subject, const Words&... problem) const {
    std::ostringstream out;
    print(out, subject);
    ((out << ' ') << ... << problem);
    throw Problem{out.str()};
  }
  struct NumberOf {
    const char* what;
    int64_t number;
  };
  static void print(std::ostream& out, NumberOf subject) { out << subject.what << ' ' << subject.number; }
  static void print(std::ostream& out, const Symbol& symbol) { out << "symbol " << in_backticks(symbol.name); }
  static void print(std::ostream& out, const Buffer& b) { out << "buffer " << in_backticks(b.name); }
  void print(std::ostream& out, const Accumulation& a) const {
    out << "accumulation of ";
    if (exists(a.target))
      out << in_backticks(buffer(a.target).name);
    else
      out << "buffer " << a.target;
    std::string detail = a.label;
    if (a.source.known()) add_to_list(detail, to_string(a.source));
    if (!detail.empty()) out << " (" << detail << ')';
  }
  void print(std::ostream& out, const Assignment& a) const {
    if (exists(a.state) && exists(a.value))
      out << "assignment " << in_backticks(buffer(a.state).name + " := " + buffer(a.value).name);
    else
      out << "assignment of buffer " << a.value << " to buffer " << a.state;
  }

  bool exists(BufferId id) const { return id >= 0 && size_t(id) < program_.buffers.size(); }
  const Buffer& buffer(BufferId id) const { return program_.buffers[size_t(id)]; }
  template <class Kind>
  bool is(BufferId id) const {
    return std::holds_alternative<Kind>(buffer(id).kind);
  }

  void check_symbols() const {
    for (size_t k = 0; k < program_.symbols.size(); ++k)
      require(program_.symbols[k].range >= 0, program_.symbols[k], "has a negative range");
  }

  void check_buffers() const {
    std::map<std::string, size_t> names;
    for (size_t id = 0; id < program_.buffers.size(); ++id) {
      const Buffer& b = program_.buffers[id];
      require(!b.name.empty(), NumberOf{"buffer", int64_t(id)}, "has no name");
      require(names.emplace(b.name, id).second, b, "has the name of another buffer");
      const auto sizes = b.shape.sizes();
      require(std::ranges::all_of(sizes, [](int64_t size) { return size >= 0; }), b, "has a negative size");

      if (const auto* data = std::get_if<DataLeaf>(&b.kind)) {
        if (data->array.shape().sizes() != sizes)
          fail(b, "has shape ", to_string(b.shape), " but its data has ", to_string(data->array.shape()));
        require(data->array.dtype() == b.dtype, b, "is ", name(b.dtype), " but its data is ",
                name(data->array.dtype()));
      } else if (const auto* symbol = std::get_if<SymbolLeaf>(&b.kind)) {
        require(symbol->symbol >= 0 && size_t(symbol->symbol) < program_.symbols.size(), b, "names symbol ",
                symbol->symbol, ", which does not exist");
        require(sizes.empty(), b, "is a symbol but not a scalar");
      } else if (std::holds_alternative<IotaLeaf>(b.kind)) {
        require(sizes.size() == 1, b, "is an iota but has ", sizes.size(), " axes, not one");
      } else if (const auto* random = std::get_if<RandomLeaf>(&b.kind)) {
        require(random->lane >= 0 && random->lane < 4, b, "reads random word ", random->lane, " of 4");
        require(random->width >= 1 && random->width <= 32, b, "reads ", random->width, " bits of a random word of 32");
        require(exists(random->step) && random->step != BufferId(id), b, "has no step buffer");
        require(buffer(random->step).shape.rank() == 0, b, "has the step buffer ",
                in_backticks(buffer(random->step).name), ", which is not a scalar");
        require(!is<RandomLeaf>(random->step), b, "has a random step buffer");
      }
    }
  }

  // --- one accumulation ---

  void check(const Accumulation& a) {
    require(exists(a.target), a, "writes a buffer that does not exist");
    require(is<Computed>(a.target), a, "writes a leaf");
    require(!ready_[size_t(a.target)], a, "writes a buffer that is written before");
    const AccumulatorRow& facts = row(a.accumulator);

    require(a.iterators.size() == a.extents.size(), a, "has ", a.iterators.size(), " iterators but ", a.extents.size(),
            " extents");
    for (size_t k = 0; k < a.extents.size(); ++k)
      require(a.extents[k] >= 0, a, "has the negative extent ", a.extents[k], " of ", in_backticks(a.iterators[k]));

    for (const Operand& operand : a.operands) {
      require(exists(operand.buffer), a, "reads buffer ", operand.buffer, ", which does not exist");
      require_ready(a, operand.buffer);
    }

    for (const Term& term : a.where) check_term(a, term);
    check_map(a, a.write, a.target, "writes");
    for (const Operand& operand : a.operands) check_map(a, operand.map, operand.buffer, "reads");
    require(a.after == -1 || (exists(a.after) && ready_[size_t(a.after)]), a, "comes before what it must come after");
    check_index_tensors(a);
    require(facts.indexed_write || std::ranges::none_of(a.write, &Term::has_load), a,
            "writes through an index tensor, which `", facts.name, "` does not allow");

    if (keeps_position(a.accumulator)) {
      require(a.counted.size() == a.iterators.size(), a, "keeps a position but says for ", a.counted.size(), " of ",
              a.iterators.size(), " iterators whether they are counted");
      const DType dtype = buffer(a.target).dtype;
      require(dtype == DType::i32 || dtype == DType::i64 || (dtype == DType::u8 && fits_byte(a)), a,
              "keeps a position in ", name(dtype), ", which must be i32 or i64, or a u8 that holds all positions");
    } else {
      require(a.counted.empty(), a, "counts iterators but does not keep a position");
    }
    check_order(a);
    check_body(a);
    if (a.part) {
      require(a.accumulator == Accumulator::add, a, "writes a part of a buffer but is no sum");
      int64_t& left = left_[size_t(a.target)];
      left -= part_elements(a);
      require(left >= 0, a, "writes elements that another part has written");
      ready_[size_t(a.target)] = left == 0;
      return;
    }
    require(left_[size_t(a.target)] == buffer(a.target).shape.elements(), a, "writes a buffer that has parts");
    ready_[size_t(a.target)] = true;
  }

  void check_order(const Accumulation& a) const {
    auto check_iterator = [&](int iterator) {
      const bool there = iterator >= 0 && size_t(iterator) < a.iterators.size();
      const bool sums =
          a.accumulator == Accumulator::add ||
          (a.order.blocks.empty() && (a.accumulator == Accumulator::max || a.accumulator == Accumulator::min));
      require(there && sums, a, "splits what is not a sum over one of its iterators");
      for (const Term& term : a.write)
        for (const Term::Part& part : term.parts)
          require(part.kind != PartKind::iterator || part.which != iterator, a, "splits a sum over a written iterator");
    };
    const int lanes = a.order.lanes;
    if (lanes != -1) check_iterator(lanes);
    require((lanes != -1) == (a.order.width > 1), a, "has ", a.order.width, " lanes of a sum");
    // Blocks must be listed from the innermost loop outwards. The iterator with the lanes is innermost, then the
    // others, last one first.
    auto depth = [&](int iterator) { return iterator == lanes ? int(a.iterators.size()) : iterator; };
    require(!a.order.fused || a.accumulator == Accumulator::add, a, "fuses the products of what is not a sum");
    const SumOrder::Block* inside = nullptr;
    for (const SumOrder::Block& block : a.order.blocks) {
      check_iterator(block.iterator);
      const bool same = inside && inside->iterator == block.iterator;
      const int64_t unit = same ? inside->size : block.iterator == lanes ? a.order.width : 1;
      require(block.size >= unit && block.size % unit == 0 && (!same || block.size > unit) &&
                  block.size < a.extents[size_t(block.iterator)],
              a, "sums in blocks of ", block.size, " ", a.iterators[size_t(block.iterator)]);
      require(!inside || same || depth(block.iterator) < depth(inside->iterator), a,
              "has blocks that are not listed from the innermost");
      inside = &block;
    }
  }

  // Is there a position for each element, and does a byte hold all of them?
  bool fits_byte(const Accumulation& a) const {
    int64_t positions = 1;
    for (size_t k = 0; k < a.extents.size() && positions <= 255; ++k)
      if (a.counted[k]) positions *= a.extents[k];
    return positions > 0 && positions <= 255 && a.where.empty() && write_form(program_, a).covers;
  }

  // How many elements a `part` accumulation writes. It must write a box: each axis is indexed by a constant, or by an
  // iterator that no other axis has.
  int64_t part_elements(const Accumulation& a) const {
    int64_t out = 1;
    std::vector<bool> used(a.extents.size(), false);
    for (const Term& term : a.write) {
      if (term.parts.empty()) continue;
      const Term::Part& part = term.parts[0];
      require(term.parts.size() == 1 && part.kind == PartKind::iterator && part.coefficient == 1 &&
                  !used[size_t(part.which)],
              a, "writes a part that is not a box");
      used[size_t(part.which)] = true;
      out *= a.extents[size_t(part.which)];
    }
    return out;
  }

  void require_ready(const Accumulation& a, BufferId id) const {
    require(ready_[size_t(id)], a, "reads ", in_backticks(buffer(id).name), " before it is written");
    if (const auto* random = std::get_if<RandomLeaf>(&buffer(id).kind)) require_ready(a, random->step);
  }

  void check_term(const Accumulation& a, const Term& term) const {
    const Term::Part* previous = nullptr;
    for (const Term::Part& part : term.parts) {
      const bool iterator = part.kind == PartKind::iterator, symbol = part.kind == PartKind::symbol;
      const size_t count = iterator ? a.iterators.size() : symbol ? program_.symbols.size() : a.operands.size();
      require(part.which >= 0 && size_t(part.which) < count, a, "has a term that names ",
              (iterator ? "iterator "
               : symbol ? "symbol "
                        : "operand "),
              part.which, ", which does not exist");
      require(part.coefficient != 0 &&
                  (!previous || std::tie(previous->kind, previous->which) < std::tie(part.kind, part.which)),
              a, "has a term that is not in normal form");
      previous = &part;
    }
  }

  void check_map(const Accumulation& a, const std::vector<Term>& map, BufferId id, const char* verb) const {
    const auto sizes = buffer(id).shape.sizes();
    require(map.size() == sizes.size(), a, verb, " ", in_backticks(buffer(id).name), ", which has ", sizes.size(),
            " axes, with ", map.size(), " indices");
    for (const Term& term : map) check_term(a, term);
    if (std::ranges::find(a.extents, 0) != a.extents.end()) return;  // the domain is empty
    for (size_t axis = 0; axis < map.size(); ++axis) {
      const Term& term = map[axis];
      if (term.has_load()) continue;  // checked at run time
      const Interval span = range(term, a.extents, symbol_ranges_);
      const bool low = holds(a, term), high = holds(a, Term::number(sizes[axis] - 1) - term);
      if (low && high) continue;
      const std::string bounds = low ? "up to " + bound(span.high) + " where the size is " + std::to_string(sizes[axis])
                                     : "down to " + bound(span.low);
      fail(a, verb, " ", in_backticks(buffer(id).name), " out of range: the index ", text(a, term), " of axis ", axis,
           " goes ", bounds, " and no condition of the domain prevents it");
    }
  }

  bool holds(const Accumulation& a, const Term& term) const {
    return is_nonnegative(term, a.where, a.extents, symbol_ranges_);
  }

  static std::string bound(int64_t value) {
    return value >= kUnbounded || value <= -kUnbounded ? "any value" : std::to_string(value);
  }

  std::string text(const Accumulation& a, const Term& term) const {
    std::vector<std::string> symbols, operands;
    for (const Symbol& symbol : program_.symbols) symbols.push_back(symbol.name);
    for (const Operand& operand : a.operands) operands.push_back(buffer(operand.buffer).name);
    return to_string(term, a.iterators, symbols, operands);
  }

  // An index tensor may be read through another index tensor, but not through itself.
  void check_index_tensors(const Accumulation& a) const {
    enum : uint8_t { unseen, open, done };
    std::vector<uint8_t> seen(a.operands.size(), unseen);
    auto visit = [&](auto& self, size_t k) -> void {
      require(seen[k] != open, a, "reads the index tensor ", in_backticks(buffer(a.operands[k].buffer).name),
              " at its own value");
      if (seen[k] == done) return;
      seen[k] = open;
      for (const Term& term : a.operands[k].map)
        for (const Term::Part& part : term.parts)
          if (part.kind == PartKind::load) self(self, size_t(part.which));
      seen[k] = done;
    };
    for (size_t k = 0; k < a.operands.size(); ++k) visit(visit, k);
  }

  void check_body(const Accumulation& a) const {
    const auto& entries = a.body.entries();
    require(!entries.empty(), a, "has an empty body");
    for (size_t i = 0; i < entries.size(); ++i) {
      const Scalar& entry = entries[i];
      if (entry.kind == Scalar::Kind::load)
        require(entry.operand >= 0 && size_t(entry.operand) < a.operands.size(), a, "has a body that reads operand ",
                entry.operand, " of ", a.operands.size());
      const int args = entry.kind == Scalar::Kind::apply  ? row(entry.op).arity
                       : entry.kind == Scalar::Kind::cast ? 1
                                                          : 0;
      for (int k = 0; k < args; ++k)
        require(entry.args[k] >= 0 && size_t(entry.args[k]) < i, a, "has a body whose entries are not in order");
    }
  }

  void check_assignments() const {
    std::vector<bool> assigned(program_.buffers.size(), false);
    for (const Assignment& assignment : program_.assignments) {
      require(exists(assignment.state) && exists(assignment.value), assignment, "names a buffer that does not exist");
      const Buffer &state = buffer(assignment.state), &value = buffer(assignment.value);
      require(is<StateLeaf>(assignment.state), assignment, "assigns to something that is not a state");
      require(!assigned[size_t(assignment.state)], assignment, "is the second of its state");
      assigned[size_t(assignment.state)] = true;
      if (!same_sizes(state.shape, value.shape))
        fail(assignment, "gives shape ", in_backticks(to_string(value.shape)), " to a state of shape ",
             in_backticks(to_string(state.shape)));
    }
  }

  const Program& program_;
  std::vector<int64_t> symbol_ranges_;
  std::vector<bool> ready_;    // a leaf, or written by an accumulation already seen
  std::vector<int64_t> left_;  // by buffer: how many elements no `part` accumulation has written yet
};

}  // namespace

std::optional<std::string> problem(const Program& program) try {
  Verifier(program).run();
  return std::nullopt;
} catch (const Problem& found) {
  return found.text;
}

void verify(const Program& program) {
  if (const auto found = problem(program))
    throw InternalError("ill-formed program" + (program.name.empty() ? "" : " `" + program.name + "`") + ": " + *found +
                        ". This is a mistake in Caravan; please report it.");
}

bool reads_in_range(const Program& program, const Accumulation& a, const Operand& operand) {
  std::vector<int64_t> symbol_ranges;
  for (const Symbol& symbol : program.symbols) symbol_ranges.push_back(symbol.range);
  auto holds = [&](const Term& term) { return is_nonnegative(term, a.where, a.extents, symbol_ranges); };
  if (std::ranges::find(a.extents, 0) != a.extents.end()) return true;
  const std::vector<int64_t> sizes = program.buffers[size_t(operand.buffer)].shape.sizes();
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const Term& term = operand.map[axis];
    if (!term.has_load() && !(holds(term) && holds(Term::number(sizes[axis] - 1) - term))) return false;
  }
  return true;
}

}  // namespace caravan::ir
