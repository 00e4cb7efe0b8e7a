#include "caravan/schedule/group_kernels.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/contraction_nest.h"
#include "caravan/schedule/tile_choice.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// A kernel that may belong to a group.
struct Member {
  const Kernel* kernel = nullptr;
  std::vector<const For*> loops;  // at its top, each around definitions and the next one
  std::map<Variable, int64_t> extents;
  std::vector<Access> accesses;
  std::vector<const Term*> factors;  // offsets of what a contraction multiplies
  std::vector<Variable> shared;      // its loops that become loops of the group, outermost first

  bool is_contraction() const { return !factors.empty(); }
  bool touches(BufferId buffer) const {
    return std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return a.buffer == buffer; });
  }
  bool writes(BufferId buffer) const {
    return std::any_of(accesses.begin(), accesses.end(),
                       [&](const Access& a) { return a.write && a.buffer == buffer; });
  }
};

// The loop after the definitions of a block, if it is an ordinary one; else null.
const For* loop_behind_definitions(const Block& block) {
  const For* loop = after_definitions<For>(block);
  return loop && loop->kind == LoopKind::serial && loop->lanes == 0 && loop->blocks.empty() ? loop : nullptr;
}

Member member(const Module& module, const Kernel& kernel, const Tuning& tuning) {
  Member out{&kernel, {}, {}, {}, {}, {}};
  if (library_call(kernel) || !kernel.locals.empty()) return out;
  const Block* block = &statements(kernel);
  while (const For* loop = loop_behind_definitions(*block)) out.loops.push_back(loop), block = &loop->body;
  if (out.loops.empty()) return out;
  out.extents = extents_of(statements(kernel));
  for_each_access(kernel, [&](const Access& a) { out.accesses.push_back(a); });
  if (contraction_nest(module, kernel, *out.loops[0], tuning))
    for_each_inner_access(*block, [&](const Access& a) { out.factors.push_back(a.offset); });
  return out;
}

// The statements of the block without the loops over shared variables, but with what is inside of them.
Block without_shared(const Member& member, const Block& block) {
  const For* loop = loop_behind_definitions(block);
  const bool top = loop && std::find(member.loops.begin(), member.loops.end(), loop) != member.loops.end();
  if (!top) return block;
  Block out(block.begin(), block.end() - 1);
  Block inner = without_shared(member, loop->body);
  if (std::find(member.shared.begin(), member.shared.end(), loop->variable) != member.shared.end()) {
    append(out, std::move(inner));
  } else {
    For kept{loop->variable, loop->extent, loop->kind, std::move(inner)};
    out.push_back(std::move(kept));
  }
  return out;
}

class Grouper {
 public:
  Grouper(const Module& module, const Target& target)
      : module_(module), target_(target), first_use_(module.buffers.size(), -1), last_use_(module.buffers.size(), -1) {
    for (size_t k = 0; k < module.kernels.size(); ++k) {
      members_.push_back(member(module, module.kernels[k], target.tuning));
      for_each_access(module.kernels[k], [&](const Access& a) {
        if (first_use_[size_t(a.buffer)] < 0) first_use_[size_t(a.buffer)] = int(k);
        last_use_[size_t(a.buffer)] = int(k);
      });
    }
    const int end = int(module.kernels.size());
    for (BufferId id : module.observed) last_use_[size_t(id)] = end;
    for (const auto& a : module.assignments) last_use_[size_t(a.value)] = end;
  }

  Module run() {
    Module out = module_;
    out.kernels.clear();
    for (size_t k = 0; k < members_.size();) {
      const std::vector<Member> group = group_from(k);
      out.kernels.push_back(group.empty() ? module_.kernels[k] : merged(group));
      k += std::max<size_t>(1, group.size());
    }
    return out;
  }

 private:
  // The largest group that begins with this kernel; empty if there is none.
  std::vector<Member> group_from(size_t begin) const {
    if (!members_[begin].is_contraction() || begin + 1 == members_.size()) return {};
    std::vector<Member> group = pair(members_[begin], members_[begin + 1]);
    if (group.empty()) return {};
    while (begin + group.size() < members_.size() && extend(group, members_[begin + group.size()])) {
    }
    while (group.size() > 1 && !is_worth(group, int(begin))) group.pop_back();
    return group.size() > 1 ? group : std::vector<Member>{};
  }

  std::vector<Member> pair(const Member& a, const Member& b) const {
    std::vector<Member> out = {a, b};
    for (const For* loop : a.loops) {
      std::vector<Member> one = {a, b};
      one[0].shared = {loop->variable};
      const std::optional<Variable> other = partner({one.data(), 1}, 0, loop->extent, b);
      if (!other) continue;
      one[1].shared = {*other};
      if (!is_legal(one)) continue;
      out[0].shared.push_back(loop->variable), out[1].shared.push_back(*other);
    }
    if (out[0].shared.empty()) return {};
    // Threads share the iterations of the outermost loop.
    auto extent = [&](size_t d) { return a.extents.at(out[0].shared[d]); };
    size_t longest = 0;
    for (size_t d = 1; d < out[0].shared.size(); ++d)
      if (extent(0) < target_.tuning.few_blocks && extent(d) > extent(longest)) longest = d;
    for (Member& m : out) std::swap(m.shared[0], m.shared[longest]);
    return out;
  }
  bool extend(std::vector<Member>& group, const Member& next) const {
    Member added = next;
    for (size_t d = 0; d < group[0].shared.size(); ++d) {
      const std::optional<Variable> other = partner(group, d, group[0].extents.at(group[0].shared[d]), next);
      if (!other) return false;
      added.shared.push_back(*other);
    }
    group.push_back(std::move(added));
    if (is_legal(group)) return true;
    group.pop_back();
    return false;
  }
  // The loop of `next` that has the same stride as shared loop `d` of the group in a buffer that the group writes and
  // `next` reads.
  static std::optional<Variable> partner(std::span<const Member> group, size_t d, int64_t extent, const Member& next) {
    for (const Member& m : group)
      for (const Access& a : m.accesses) {
        const int64_t stride = coefficient(*a.offset, m.shared[d]);
        if (!a.write || stride == 0) continue;
        for (const Access& b : next.accesses)
          for (const For* loop : next.loops)
            if (b.buffer == a.buffer && loop->extent == extent && coefficient(*b.offset, loop->variable) == stride)
              return loop->variable;
      }
    return std::nullopt;
  }

  // May all kernels run for one iteration of the shared loops, before all of them run for the next?
  static bool is_legal(const std::vector<Member>& group) {
    std::set<BufferId> written;
    for (const Member& m : group)
      for (const Access& a : m.accesses)
        if (a.write) written.insert(a.buffer);
    for (const Member& m : group)  // between the two of them comes what reads the one and makes ready the other
      for (const BufferId id : m.kernel->after)
        if (written.count(id)) return false;
    for (size_t d = 0; d < group[0].shared.size(); ++d) {
      std::map<BufferId, int64_t> strides;
      for (const Member& m : group) {
        const Variable variable = m.shared[d];
        for (const Term* factor : m.factors)
          if (coefficient(*factor, variable) == 0) return false;
        for (const Access& a : m.accesses) {
          if (!written.count(a.buffer)) continue;
          const int64_t stride = strides.emplace(a.buffer, coefficient(*a.offset, variable)).first->second;
          if (!has_digit(*a.offset, {variable, m.extents.at(variable), stride}, m.extents)) return false;
        }
      }
    }
    return true;
  }

  bool is_worth(const std::vector<Member>& group, int begin) const {
    int contractions = 0;
    for (const Member& m : group) {
      if (!m.is_contraction()) continue;
      const Block inner = without_shared(m, statements(*m.kernel));
      const For* loop = loop_behind_definitions(inner);
      const auto nest = loop ? contraction_nest(module_, *m.kernel, *loop, target_.tuning) : std::nullopt;
      if (!nest || !choose_tiles(module_, *nest, target_, true)) return false;
      ++contractions;
    }
    int64_t iterations = 1, elements = 0;
    for (Variable v : group[0].shared) iterations *= group[0].extents.at(v);
    std::set<BufferId> seen;
    const int end = begin + int(group.size());
    for (const Member& m : group)
      for (const Access& a : m.accesses) {
        const ir::Buffer& buffer = module_.buffers[size_t(a.buffer)];
        const bool alone = std::holds_alternative<ir::Computed>(buffer.kind) && first_use_[size_t(a.buffer)] >= begin &&
                           last_use_[size_t(a.buffer)] < end;
        if (alone && seen.insert(a.buffer).second) elements += buffer.shape.elements() / iterations;
      }
    return contractions > 1 && elements > 0 && elements <= target_.tuning.stack_elements;
  }

  static Kernel merged(const std::vector<Member>& group) {
    Kernel out{"", {}, {}, {}, Block{}, {}, {}};
    Block before, body;
    int64_t most_flops = -1;
    for (const Member& m : group) {
      const Kernel& kernel = *m.kernel;
      if (const int64_t flops = count_flops(kernel); flops > most_flops) most_flops = flops, out.name = kernel.name;
      const int registers = int(out.registers.size()), variables = int(out.variables.size());
      Block block = without_shared(m, statements(kernel));
      rename(block, {[&](Register r) { return r + registers; },
                     [&](Variable v) {
                       const auto at = std::find(m.shared.begin(), m.shared.end(), v);
                       return at == m.shared.end() ? v + variables : group[0].shared[size_t(at - m.shared.begin())];
                     },
                     nullptr});
      // The definitions before the loops of a kernel stay there, if they were outside of all shared loops.
      size_t outside = statements(kernel).size() - 1;
      for (Statement& s : block) (outside > 0 ? (--outside, before) : body).push_back(std::move(s));
      out.registers.insert(out.registers.end(), kernel.registers.begin(), kernel.registers.end());
      out.variables.insert(out.variables.end(), kernel.variables.begin(), kernel.variables.end());
      out.comments.insert(out.comments.end(), kernel.comments.begin(), kernel.comments.end());
      out.origins.insert(out.origins.end(), kernel.origins.begin(), kernel.origins.end());
    }
    for (size_t d = group[0].shared.size(); d-- > 0;) {
      const Variable variable = group[0].shared[d];
      For loop{variable, group[0].extents.at(variable), LoopKind::serial, std::move(body)};
      loop.group = true;
      body = Block{};
      body.push_back(std::move(loop));
    }
    append(before, std::move(body));
    out.body = std::move(before);
    return out;
  }

  const Module& module_;
  const Target& target_;
  std::vector<Member> members_;            // by kernel
  std::vector<int> first_use_, last_use_;  // by buffer: kernels
};

}  // namespace

Module group_kernels(const Module& module, const Target& target) { return Grouper(module, target).run(); }

}  // namespace caravan::schedule
