#include "caravan/schedule/tile_transposes.h"

#include <algorithm>
#include <optional>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"

namespace caravan::schedule {

using namespace loop;

namespace {

// to[.., i, .., j] = from[.., j, .., i], where j is contiguous in `to` and i is contiguous in `from`.
struct Copy {
  const Load* from;
  const Store* to;
  const For *i, *j;
};

class Transposer {
 public:
  Transposer(const Module& module, Kernel& kernel, const Target& target)
      : module_(module), kernel_(kernel), target_(target) {}

  void run(Block& block) {
    rewrite(block, [&](Statement& s, Block& out) {
      auto* outer = std::get_if<For>(&s);
      auto* inner = outer && outer->body.size() == 1 ? std::get_if<For>(&outer->body[0]) : nullptr;
      const std::optional<Copy> copy = inner ? transposed(*outer, *inner) : std::nullopt;
      const int64_t size = copy ? block_of(*copy, outer->extent, inner->extent) : 0;
      if (size > 0) return append(out, blocks(*copy, *outer, *inner, size));
      if (Block* within = inside(s)) run(*within);
      out.push_back(std::move(s));
    });
  }

 private:
  DType type(const Memory& m) const {
    return m.is_local() ? kernel_.locals[size_t(m.local())].dtype : module_.buffers[size_t(m)].dtype;
  }

  std::optional<Copy> transposed(const For& outer, const For& inner) const {
    if (outer.lanes > 0 || inner.lanes > 0 || inner.body.size() != 2) return std::nullopt;
    auto* define = std::get_if<Define>(&inner.body[0]);
    auto* from = define ? std::get_if<Load>(&define->value) : nullptr;
    auto* to = std::get_if<Store>(&inner.body[1]);
    if (!from || !to || to->value != define->to || from->buffer == to->buffer) return std::nullopt;
    const DType dtype = type(from->buffer);
    if (dtype != type(to->buffer) || (dtype != DType::f32 && dtype != DType::f64)) return std::nullopt;
    auto fits = [&](const For& i, const For& j) {
      return coefficient(from->offset, i.variable) == 1 && coefficient(to->offset, j.variable) == 1 &&
             coefficient(to->offset, i.variable) > 1 && coefficient(from->offset, j.variable) > 1;
    };
    if (fits(outer, inner)) return Copy{from, to, &outer, &inner};
    if (fits(inner, outer)) return Copy{from, to, &inner, &outer};
    return std::nullopt;
  }
  // The number of elements along an edge, 0 if the loops are too short.
  int64_t block_of(const Copy& copy, int64_t outer, int64_t inner) const {
    int64_t size = target_.most_lanes(type(copy.from->buffer));
    while (size > std::min(outer, inner)) size /= 2;
    return size >= target_.tuning.least_transposed ? size : 0;
  }

  Block blocks(const Copy& copy, const For& outer, const For& inner, int64_t size) {
    return along(outer, size, [&](const Term& first) {
      return along(inner, size, [&](const Term& second) {
        const bool i_outside = copy.i == &outer;
        return one(copy, i_outside ? first : second, i_outside ? second : first, int(size));
      });
    });
  }
  // A loop over blocks, and the last one.
  template <class Make>
  Block along(const For& loop, int64_t size, const Make& make) {
    Block out;
    const int64_t count = loop.extent / size;
    const Variable block = add_variable(kernel_, kernel_.variables[size_t(loop.variable)] + "_block");
    out.push_back(For{block, count, LoopKind::serial, make(count > 1 ? Term::iterator(block, size) : Term{})});
    if (loop.extent % size != 0) append(out, make(Term::number(loop.extent - size)));
    return out;
  }
  // The block that begins at (i, j). Each of log2(size) rounds interleaves the first half of the vectors with the
  // second one.
  Block one(const Copy& copy, const Term& i, const Term& j, int size) {
    Block out;
    const RegisterType vector{type(copy.from->buffer), size};
    auto at = [&](const Term& offset, const Term& i_now, const Term& j_now) {
      Term found = Term::number(offset.constant);
      for (const Term::Part& part : offset.parts) {
        const bool iterator = part.kind == Term::Part::Kind::iterator;
        if (iterator && part.which == copy.i->variable)
          found = found + i_now * part.coefficient;
        else if (iterator && part.which == copy.j->variable)
          found = found + j_now * part.coefficient;
        else
          found.add(part.kind, part.which, part.coefficient);
      }
      return found;
    };
    auto define = [&](Value value) {
      const Register to = add_register(kernel_, vector);
      out.push_back(Define{to, std::move(value)});
      return to;
    };
    std::vector<Register> vectors;
    for (int n = 0; n < size; ++n)
      vectors.push_back(define(Load{copy.from->buffer, at(copy.from->offset, i, j + Term::number(n))}));
    for (int round = size; round > 1; round /= 2) {
      std::vector<Register> next;
      for (size_t n = 0; n < size_t(size / 2); ++n)
        for (const bool high : {false, true})
          next.push_back(define(Interleave{vectors[n], vectors[n + size_t(size / 2)], high}));
      vectors = std::move(next);
    }
    for (int n = 0; n < size; ++n)
      out.push_back(Store{copy.to->buffer, at(copy.to->offset, i + Term::number(n), j), vectors[size_t(n)]});
    return out;
  }

  const Module& module_;
  Kernel& kernel_;
  const Target& target_;
};

}  // namespace

Module tile_transposes(const Module& module, const Target& target) {
  return with_changed_kernels(
      module, [&](Module& out, Kernel& kernel) { Transposer(out, kernel, target).run(statements(kernel)); });
}

}  // namespace caravan::schedule
