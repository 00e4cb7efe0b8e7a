#include "caravan/schedule/pick_terms.h"

#include <map>
#include <optional>
#include <set>

#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"

namespace caravan::schedule {

using namespace loop;

namespace {

class Picker {
 public:
  explicit Picker(Kernel& kernel) : kernel_(kernel) {
    for_each_of<Define>(statements(kernel), [&](const Define& d) {
      if (auto* index = std::get_if<IndexValue>(&d.value)) indices_[d.to] = index->term;
      if (auto* constant = std::get_if<Constant>(&d.value); constant && constant->value == 0) zeros_.insert(d.to);
    });
  }
  void run() { look(statements(kernel_)); }

 private:
  void look(Block& block) {
    rewrite(block, [&](Statement& s, Block& out) {
      if (Block* within = inside(s)) look(*within);
      auto* loop = std::get_if<For>(&s);
      const std::optional<Register> index = loop ? chosen(*loop) : std::nullopt;
      if (!index) return out.push_back(std::move(s));
      const Register at = add_register(kernel_, DType::i64);
      out.push_back(Define{at, Cast{*index, DType::i64}});
      const Term term = Term::load(at);
      Block body = std::move(loop->body);
      substitute(body, loop->variable, term);
      out.push_back(If{{term, Term::number(loop->extent - 1) + term * -1}, std::move(body)});
    });
  }

  // The register with the only index whose terms are not 0.
  std::optional<Register> chosen(const For& loop) const {
    if (loop.kind != LoopKind::serial) return std::nullopt;
    std::set<Register> inside, zero;  // defined in the loop; 0 if the index is another one
    std::optional<Register> out;
    for (const Statement& s : loop.body) {
      if (auto* combine = std::get_if<Combine>(&s)) {
        const bool adds_zero = combine->accumulator == Accumulator::add && zero.count(combine->value) &&
                               (combine->factor < 0 || zero.count(combine->factor));
        if (!adds_zero) return std::nullopt;
        continue;
      }
      auto* define = std::get_if<Define>(&s);
      if (!define) return std::nullopt;
      inside.insert(define->to);
      if (const auto index = compared(*define, loop.variable, inside)) {
        if (out && *out != *index) return std::nullopt;
        out = index;
        zero.insert(define->to);
      } else if (is_zero(define->value, zero)) {
        zero.insert(define->to);
      }
    }
    return out;
  }
  // If it compares the loop's variable with an integer from outside of the loop: that one.
  std::optional<Register> compared(const Define& define, Variable variable, const std::set<Register>& inside) const {
    auto* apply = std::get_if<Apply>(&define.value);
    if (!apply || apply->op != Op::eq || !is_integer(apply->compute)) return std::nullopt;
    for (const int k : {0, 1}) {
      const Register index = apply->args[k], other = apply->args[1 - k];
      const auto at = indices_.find(other);
      if (at != indices_.end() && at->second == Term::iterator(variable) && !inside.count(index) &&
          is_integer(kernel_.registers[size_t(index)].dtype))
        return index;
    }
    return std::nullopt;
  }
  // Is the value 0 if these are? A product with anything else could be NaN.
  bool is_zero(const Value& value, const std::set<Register>& zero) const {
    if (auto* cast = std::get_if<Cast>(&value)) return zero.count(cast->arg) > 0;
    auto* apply = std::get_if<Apply>(&value);
    if (!apply) return false;
    auto is = [&](int k) { return zero.count(apply->args[k]) > 0; };
    if (apply->op == Op::where) return is(0) && (zeros_.count(apply->args[2]) > 0 || is(2));
    if (apply->op == Op::mul) return is(0) && is(1);
    return apply->op == Op::neg && is(0);
  }

  Kernel& kernel_;
  std::map<Register, Term> indices_;  // registers that are an index
  std::set<Register> zeros_;          // registers that are the number 0
};

}  // namespace

Module pick_terms(const Module& module) {
  return with_changed_kernels(module, [](Kernel& kernel) { Picker(kernel).run(); });
}

}  // namespace caravan::schedule
