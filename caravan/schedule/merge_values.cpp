#include "caravan/schedule/merge_values.h"

#include <bit>
#include <map>

#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// A value, encoded as numbers for comparison. Registers and buffers are encoded with a version number that rises when
// they change, so that equal keys mean equal bits.
using Key = std::vector<int64_t>;

class Merger {
 public:
  explicit Merger(Kernel& kernel)
      : kernel_(kernel), alias_(kernel.registers.size()), registers_(kernel.registers.size(), 0) {
    for (size_t r = 0; r < alias_.size(); ++r) alias_[r] = Register(r);
  }
  void run() {
    merge(statements(kernel_));
    rename(statements(kernel_), {[&](Register r) { return alias_[size_t(r)]; }, nullptr, nullptr});
  }

 private:
  void merge(Block& block) {
    std::vector<Key> mine;
    std::erase_if(block, [&](Statement& s) {
      if (auto* define = std::get_if<Define>(&s)) {
        const Key key = key_of(*define);
        auto [at, made] = known_.emplace(key, define->to);
        if (made) return mine.push_back(key), false;
        alias_[size_t(define->to)] = at->second;
        return true;
      }
      // The next iteration sees what this one changes, so versions rise before the body too.
      if (!std::holds_alternative<If>(s)) change(s);
      if (Block* within = inside(s)) merge(*within);
      return false;
    });
    for (const Key& key : mine) known_.erase(key);
  }

  void change(const Statement& s) {
    for_each_change(s, [&](Register r) { ++registers_[size_t(r)]; });
    for_each_access(s, [&](const Access& a) {
      if (a.write) ++buffers_[a.buffer];
    });
  }

  Key key_of(const Define& define) {
    Key key{int64_t(kernel_.registers[size_t(define.to)].dtype), int64_t(define.value.index())};
    auto reg = [&](Register r) {
      const Register now = r < 0 ? r : alias_[size_t(r)];
      key.push_back(now), key.push_back(now < 0 ? 0 : registers_[size_t(now)]);
    };
    auto term = [&](const Term& t) {
      key.push_back(t.constant);
      for (const Term::Part& part : t.parts) {
        key.push_back(int64_t(part.kind)), key.push_back(part.coefficient);
        if (part.kind == Term::Part::Kind::load)
          reg(part.which);
        else
          key.push_back(part.which);
      }
    };
    match(
        define.value, [&](const Constant& constant) { key.push_back(std::bit_cast<int64_t>(constant.value)); },
        [&](const Load& load) { key.push_back(load.buffer), key.push_back(buffers_[load.buffer]), term(load.offset); },
        [&](const IndexValue& index) { term(index.term); },
        [&](const RandomValue& random) { key.push_back(random.leaf), reg(random.step), term(random.element); },
        [&](const Apply& apply) {
          key.push_back(int64_t(apply.op)), key.push_back(int64_t(apply.compute));
          for (Register r : apply.args) reg(r);
        },
        [&](const Cast& cast) { key.push_back(int64_t(cast.to)), reg(cast.arg); },
        [&](const Interleave& pair) { key.push_back(pair.high), reg(pair.first), reg(pair.second); },
        [&](const AcrossLanes& v) { key.push_back(int64_t(v.accumulator)), reg(v.arg); });
    return key;
  }

  Kernel& kernel_;
  std::vector<Register> alias_;     // by register: the one that holds the same value, or -1
  std::vector<int64_t> registers_;  // by register: its version
  std::map<BufferId, int64_t> buffers_;
  std::map<Key, Register> known_;  // values of the current block and the enclosing ones
};

}  // namespace

Module merge_values(const Module& module) {
  return with_changed_kernels(module, [](Kernel& kernel) { Merger(kernel).run(); });
}

}  // namespace caravan::schedule
