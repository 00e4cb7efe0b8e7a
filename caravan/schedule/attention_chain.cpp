#include "caravan/schedule/attention_chain.h"

#include <algorithm>
#include <map>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/ops/table.h"
#include "caravan/schedule/formula.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;

namespace {

// A score of a position that is not seen has at most this value; its weight is 0.
constexpr double kNever = -1e29;

// The kernels of a module by what they read and write.
struct Kernels {
  explicit Kernels(const Module& module) : module(module), writers(module.buffers.size()), readers(writers) {
    wanted.assign(module.buffers.size(), false);
    for (size_t k = 0; k < module.kernels.size(); ++k) {
      formulas.push_back(formula(module.kernels[k]));
      for_each_access(module.kernels[k],
                      [&](const Access& a) { (a.write ? writers : readers)[size_t(a.buffer)].insert(k); });
    }
    for (const BufferId id : module.observed) wanted[size_t(id)] = true;
    for (const auto& a : module.assignments) wanted[size_t(a.value)] = true;
    for (size_t b = 0; b < module.buffers.size(); ++b)
      if (!std::holds_alternative<ir::Computed>(module.buffers[b].kind)) wanted[b] = true;
  }
  // The kernel that alone writes the buffer, if it computes one formula.
  std::optional<size_t> writer(BufferId buffer) const {
    const std::set<size_t>& all = writers[size_t(buffer)];
    if (all.size() != 1 || wanted[size_t(buffer)] || !formulas[*all.begin()]) return std::nullopt;
    return *all.begin();
  }

  const Module& module;
  std::vector<std::optional<Formula>> formulas;    // by kernel
  std::vector<std::set<size_t>> writers, readers;  // by buffer
  std::vector<bool> wanted;                        // by buffer: it stays, whoever reads it
};

// A value in a kernel.
struct Node {
  size_t kernel = 0;
  Register value = -1;
};

class Chain {
 public:
  explicit Chain(const Kernels& kernels) : all_(kernels) {}

  std::optional<AttentionChain> from(size_t kernel) {
    if (!forward(kernel)) return std::nullopt;
    if (!is_closed() && !(backward() && is_closed())) return std::nullopt;
    return std::move(out_);
  }

 private:
  using Axes = std::map<Variable, int>;

  const Formula& formula(size_t kernel) const { return *all_.formulas[kernel]; }
  const Define* definition(Node n) const {
    const auto& known = formula(n.kernel).definitions;
    const auto at = known.find(n.value);
    return at == known.end() ? nullptr : at->second;
  }
  template <class Kind>
  const Kind* get(Node n) const {
    const Define* d = definition(n);
    return d ? std::get_if<Kind>(&d->value) : nullptr;
  }
  Node result(size_t kernel) const { return {kernel, formula(kernel).value}; }
  Node factor(size_t kernel) const { return {kernel, formula(kernel).factor}; }

  // --- axes ---

  std::optional<AttentionPlace> place(size_t kernel, BufferId buffer, const Term& offset) const {
    AttentionPlace out{buffer, offset.constant, std::vector<int64_t>(out_.extents.size(), 0)};
    const Axes& axes = axes_.at(kernel);
    for (const Term::Part& part : offset.parts) {
      if (part.kind != Term::Part::Kind::iterator) return std::nullopt;
      const auto axis = axes.find(part.which);
      if (axis == axes.end() || out.strides[size_t(axis->second)] != 0) return std::nullopt;
      out.strides[size_t(axis->second)] = part.coefficient;
    }
    return out;
  }
  std::optional<AttentionPlace> stored(size_t kernel) const {
    return place(kernel, formula(kernel).target, formula(kernel).offset);
  }
  std::optional<AttentionPlace> loaded(Node n) const {
    const Load* load = get<Load>(n);
    return load && !load->buffer.is_local() ? place(n.kernel, load->buffer, load->offset) : std::nullopt;
  }
  bool name(size_t kernel, Variable variable, int axis) {
    const auto& extents = formula(kernel).extents;
    return extents.at(variable) == out_.extents[size_t(axis)] &&
           axes_[kernel].emplace(variable, axis).first->second == axis;
  }
  // Names the loops of a kernel so that its offset reaches the elements of this place.
  bool name_by(size_t kernel, const Term& offset, const AttentionPlace& place) {
    for (const Term::Part& part : offset.parts) {
      if (part.kind != Term::Part::Kind::iterator) return false;
      const auto at = std::find(place.strides.begin(), place.strides.end(), part.coefficient);
      if (at == place.strides.end() || !name(kernel, part.which, int(at - place.strides.begin()))) return false;
    }
    return this->place(kernel, place.buffer, offset) == place;
  }
  // Names the one loop that has no name yet.
  bool name_rest(size_t kernel, int axis) {
    std::vector<Variable> rest;
    for (const auto& [variable, extent] : formula(kernel).extents)
      if (!axes_[kernel].count(variable)) rest.push_back(variable);
    return rest.size() == 1 && name(kernel, rest[0], axis);
  }

  // --- from what is loaded to what computes it ---

  // The kernel that stores what the node loads.
  std::optional<size_t> source(Node n) {
    const auto from = loaded(n);
    const auto writer = from ? all_.writer(from->buffer) : std::nullopt;
    if (!writer || !name_by(*writer, formula(*writer).offset, *from)) return std::nullopt;
    return writer;
  }
  // The value without roundings, and without the buffers between elementwise kernels.
  Node plain(Node n) {
    for (;;) {
      if (const Cast* cast = get<Cast>(n)) {
        n.value = cast->arg;
        continue;
      }
      const Load* load = get<Load>(n);
      const auto writer = load && !load->buffer.is_local() ? all_.writer(load->buffer) : std::nullopt;
      if (!writer || !formula(*writer).is_elementwise() || !source(n)) return n;
      out_.kernels.insert(*writer);
      n = result(*writer);
    }
  }
  // The operands of an op; none if the value is something else.
  std::vector<Node> operands(Node n, Op op) {
    const Node at = plain(n);
    const Apply* apply = get<Apply>(at);
    std::vector<Node> out;
    if (apply && apply->op == op)
      for (const Register r : apply->args)
        if (r >= 0) out.push_back({at.kernel, r});
    return out;
  }
  std::optional<double> constant(Node n) {
    const Constant* found = get<Constant>(plain(n));
    return found ? std::optional(found->value) : std::nullopt;
  }
  // A reduction over the keys, loaded. Its kernel becomes part of the chain.
  std::optional<size_t> reduction(Node n, Accumulator by) {
    const auto kernel = source(plain(n));
    if (!kernel || !formula(*kernel).is_reduction(by) || !name(*kernel, formula(*kernel).reduced[0], kKey))
      return std::nullopt;
    out_.kernels.insert(*kernel);
    if (by == Accumulator::add) out_.sums.push_back(*kernel);
    return kernel;
  }

  // --- the forward pass ---

  // where(m >= n, x, otherwise): x, if `n` is that.
  template <class Otherwise>
  std::optional<Node> masked(Node n, const Otherwise& otherwise) {
    const std::vector<Node> choice = operands(n, Op::where);
    if (choice.size() != 3) return std::nullopt;
    const auto never = constant(choice[2]);
    const auto mask = source(plain(choice[0]));
    if (!never || !otherwise(*never) || !mask) return std::nullopt;
    const Formula& f = formula(*mask);
    const auto one = constant(result(*mask));
    if (!f.accumulates || f.accumulator != Accumulator::add || !f.reduced.empty() || f.factor >= 0 ||
        f.guards.size() != 1 || one != 1.0)
      return std::nullopt;
    const auto guard = place(*mask, -1, f.guards[0]);
    AttentionPlace seen{-1, 0, std::vector<int64_t>(out_.extents.size(), 0)};
    seen.strides[kQuery] = 1, seen.strides[kKey] = -1;
    return guard == seen ? std::optional(choice[1]) : std::nullopt;
  }
  // x / c or x * c: x, the factor, and c where it divides.
  struct Scaled {
    Node value;
    double factor = 1, divisor = 0;
    bool operator==(const AttentionChain& chain) const { return factor == chain.scale && divisor == chain.divisor; }
  };
  Scaled scaled(Node n) {
    if (const auto parts = operands(n, Op::div); parts.size() == 2)
      if (const auto c = constant(parts[1])) return {parts[0], 1 / *c, *c};
    if (const auto parts = operands(n, Op::mul); parts.size() == 2)
      for (const size_t k : {size_t(0), size_t(1)})
        if (const auto c = constant(parts[k])) return {parts[1 - k], *c};
    return {n};
  }
  bool is_score(Node n) {
    double hidden = 0;
    const auto seen = masked(n, [&](double never) { return (hidden = never) <= kNever; });
    const Scaled score = scaled(seen ? *seen : n);
    const Node product = plain(score.value);
    if (scored_)
      return out_.causal == bool(seen) && out_.hidden == hidden && score == out_ && loaded(product) == score_;
    const auto kernel = source(product);
    if (!kernel || !formula(*kernel).is_product() || !name(*kernel, formula(*kernel).reduced[0], kDepth)) return false;
    out_.kernels.insert(*kernel), out_.products[*kernel] = kDepth;
    auto query = loaded(result(*kernel)), key = loaded(factor(*kernel));
    if (!query || !key) return false;
    if (query->strides[kQuery] == 0) std::swap(query, key);
    if (query->strides[kKey] != 0 || key->strides[kQuery] != 0) return false;
    scored_ = true, score_ = loaded(product);
    out_.causal = bool(seen), out_.hidden = hidden, out_.scale = score.factor, out_.divisor = score.divisor;
    out_.query = *query, out_.key = *key;
    return true;
  }
  bool is_power(Node n) {
    const std::vector<Node> of = operands(n, Op::exp);
    const std::vector<Node> less = of.size() == 1 ? operands(of[0], Op::sub) : std::vector<Node>{};
    if (less.size() != 2 || !is_score(less[0])) return false;
    const auto most = reduction(less[1], Accumulator::max);
    return most && is_score(result(*most));
  }
  bool is_sum(Node n) {
    const auto sum = reduction(n, Accumulator::add);
    return sum && is_power(result(*sum));
  }
  bool is_weight(Node n) {
    const std::vector<Node> parts = operands(n, Op::div);
    return parts.size() == 2 && is_power(parts[0]) && is_sum(parts[1]);
  }

  bool forward(size_t kernel) {
    if (!all_.formulas[kernel] || !formula(kernel).is_product()) return false;
    const Formula& f = formula(kernel);
    const Load *left = get<Load>(result(kernel)), *right = get<Load>(factor(kernel));
    if (!left || !right || left->buffer.is_local() || right->buffer.is_local()) return false;
    for (const bool swapped : {false, true}) {
      out_ = {}, axes_.clear(), scored_ = false;
      const Load &weight = swapped ? *right : *left, &value = swapped ? *left : *right;
      out_.extents.assign(kFirstBatch, 0);
      std::map<int, int> count;
      for (const auto& [variable, extent] : f.extents) {
        const bool of_weight = coefficient(weight.offset, variable) != 0,
                   of_value = coefficient(value.offset, variable) != 0;
        const int axis = variable == f.reduced[0] ? kKey
                         : of_weight && of_value  ? int(out_.extents.size())
                         : of_weight              ? kQuery
                                                  : kDepth;
        if (axis == int(out_.extents.size())) out_.extents.push_back(0);
        out_.extents[size_t(axis)] = extent, ++count[axis], axes_[kernel][variable] = axis;
      }
      const bool each_once = std::all_of(count.begin(), count.end(), [](const auto& c) { return c.second == 1; });
      if (!each_once || count.size() != out_.extents.size()) continue;
      const Node of_weights = {kernel, swapped ? f.factor : f.value},
                 of_values = {kernel, swapped ? f.value : f.factor};
      const auto values = loaded(of_values), out = stored(kernel), weights = loaded(of_weights);
      if (!values || !out || !weights || !is_weight(of_weights)) continue;
      out_.value = *values, out_.out = *out, weights_ = *weights, out_.forward = kernel;
      out_.kernels.insert(kernel), out_.products[kernel] = kKey, results_ = {kernel};
      return true;
    }
    return false;
  }

  // --- the gradient ---

  // Visits the sums of products that load this buffer.
  template <class Visit>
  void for_each_product_of(BufferId buffer, const Visit& visit) {
    for (const size_t kernel : all_.readers[size_t(buffer)]) {
      if (out_.kernels.count(kernel) || !all_.formulas[kernel] || !formula(kernel).is_product()) continue;
      for (const bool swapped : {false, true}) {
        const Node one = swapped ? factor(kernel) : result(kernel), other = swapped ? result(kernel) : factor(kernel);
        const Load* load = get<Load>(one);
        if (load && load->buffer == buffer && get<Load>(other)) visit(kernel, *load, other);
      }
    }
  }
  // Names the loops of a product one of whose factors is at `known`, and which sums over one axis.
  bool name_product(size_t kernel, const Load& load, const AttentionPlace& known, int summed, int rest) {
    axes_.erase(kernel);
    return name_by(kernel, load.offset, known) && name_rest(kernel, rest) &&
           axes_[kernel].at(formula(kernel).reduced[0]) == summed;
  }
  void add_result(size_t kernel, AttentionPlace& to) {
    to = *stored(kernel);
    add_product(kernel), results_.insert(kernel);
  }
  void add_product(size_t kernel) {
    out_.kernels.insert(kernel), out_.products[kernel] = axes_[kernel].at(formula(kernel).reduced[0]);
  }

  bool backward() {
    out_.has_gradient = true;
    int found = 0;
    for_each_product_of(weights_.buffer, [&](size_t kernel, const Load& load, Node other) {
      if (!name_product(kernel, load, weights_, kQuery, kDepth)) return;
      const auto d_out = loaded(other);
      if (d_out && stored(kernel) && ++found == 1) out_.d_out = *d_out, add_result(kernel, out_.d_value);
    });
    if (found != 1 || out_.d_out.strides[kKey] != 0) return false;
    for_each_product_of(out_.d_out.buffer, [&](size_t kernel, const Load& load, Node other) {
      if (!name_product(kernel, load, out_.d_out, kDepth, kKey) || loaded(other) != out_.value) return;
      if (const auto stores = stored(kernel); stores && ++found == 2) d_weight_ = *stores, add_product(kernel);
    });
    if (found != 2) return false;
    for (const size_t kernel : all_.readers[size_t(d_weight_.buffer)]) {
      if (out_.kernels.count(kernel) || !all_.formulas[kernel] || !formula(kernel).is_elementwise()) continue;
      if (!name_elementwise(kernel) || !is_d_score(result(kernel)) || !stored(kernel)) continue;
      d_score_ = *stored(kernel), out_.kernels.insert(kernel), ++found;
    }
    if (found != 3) return false;
    for_each_product_of(d_score_.buffer, [&](size_t kernel, const Load& load, Node other) {
      if (name_product(kernel, load, d_score_, kKey, kDepth) && loaded(other) == out_.key && stored(kernel))
        ++found, add_result(kernel, out_.d_query);
      else if (name_product(kernel, load, d_score_, kQuery, kDepth) && loaded(other) == out_.query && stored(kernel))
        ++found, add_result(kernel, out_.d_key);
    });
    if (found != 5) return false;
    out_.backward = *out_.kernels.upper_bound(out_.forward);
    for (AttentionPlace* gradient : {&out_.d_query, &out_.d_key, &out_.d_value}) follow(*gradient);
    return true;
  }
  // A gradient that is only copied to another buffer is stored there. The copy may add 0 (optimize/join_parts.h).
  void follow(AttentionPlace& gradient) {
    const std::set<size_t>& readers = all_.readers[size_t(gradient.buffer)];
    if (readers.size() != 1 || all_.wanted[size_t(gradient.buffer)]) return;
    const size_t kernel = *readers.begin();
    if (out_.kernels.count(kernel) || !all_.formulas[kernel] || !formula(kernel).is_elementwise()) return;
    const std::vector<ir::Buffer>& buffers = all_.module.buffers;
    if (buffers[size_t(formula(kernel).target)].dtype != buffers[size_t(gradient.buffer)].dtype) return;
    for (const auto& [to, define] : formula(kernel).definitions)
      if (auto* load = std::get_if<Load>(&define->value); load && !name_by(kernel, load->offset, gradient)) return;
    Node copied = result(kernel);
    const std::vector<Node> added = operands(copied, Op::add);
    const bool adds_zero = added.size() == 2 && constant(added[1]) == 0.0;
    if (adds_zero) copied = added[0];
    const auto stores = stored(kernel);
    if (!stores || loaded(plain(copied)) != gradient) return;
    gradient = *stores, gradient.adds_zero = adds_zero;
    out_.kernels.insert(kernel), results_.insert(kernel);
  }
  // Names the loops of an elementwise kernel by its load of the weights' gradient.
  bool name_elementwise(size_t kernel) {
    for (const auto& [to, define] : formula(kernel).definitions)
      if (auto* load = std::get_if<Load>(&define->value); load && load->buffer == d_weight_.buffer)
        return name_by(kernel, load->offset, d_weight_);
    return false;
  }
  bool is_d_weight(Node n) { return loaded(plain(n)) == d_weight_; }
  // -d_weight * weight / sum, added over the keys
  bool is_dot(Node n) {
    const auto dot = reduction(n, Accumulator::add);
    const std::vector<Node> parts = dot ? operands(result(*dot), Op::div) : std::vector<Node>{};
    if (parts.size() != 2 || !is_sum(parts[1])) return false;
    const std::vector<Node> product = operands(parts[0], Op::mul);
    if (product.size() != 2) return false;
    for (const size_t k : {size_t(0), size_t(1)}) {
      const std::vector<Node> negated = operands(product[k], Op::neg);
      if (negated.size() == 1 && is_d_weight(negated[0]) && is_weight(product[1 - k])) return true;
    }
    return false;
  }
  // (d_weight / sum + dot) * power, where it is seen, times the scale
  bool is_d_score(Node n) {
    const Scaled product = scaled(n);
    if (!(product == out_)) return false;
    const auto seen = masked(product.value, [](double never) { return never == 0; });
    if (bool(seen) != out_.causal) return false;
    const std::vector<Node> factors = operands(seen ? *seen : product.value, Op::mul);
    if (factors.size() != 2) return false;
    for (const size_t k : {size_t(0), size_t(1)}) {
      const std::vector<Node> added = operands(factors[k], Op::add);
      if (added.size() != 2) continue;
      const std::vector<Node> quotient = operands(added[0], Op::div);
      if (quotient.size() == 2 && is_d_weight(quotient[0]) && is_sum(quotient[1]) && is_dot(added[1]))
        return is_power(factors[1 - k]);
    }
    return false;
  }

  // Does nothing else read what the kernels compute on the way, and does none of them compute what is attended to?
  bool is_closed() const {
    for (const AttentionPlace* given : {&out_.query, &out_.key, &out_.value, &out_.d_out})
      if (given->buffer >= 0)
        for (const size_t writer : all_.writers[size_t(given->buffer)])
          if (out_.kernels.count(writer)) return false;
    return std::all_of(out_.kernels.begin(), out_.kernels.end(), [&](size_t kernel) {
      const std::set<size_t>& readers = all_.readers[size_t(formula(kernel).target)];
      return results_.count(kernel) ||
             std::all_of(readers.begin(), readers.end(), [&](size_t reader) { return out_.kernels.count(reader) > 0; });
    });
  }

  const Kernels& all_;
  AttentionChain out_;
  std::map<size_t, Axes> axes_;  // by kernel
  std::set<size_t> results_;     // kernels whose results are read by others
  bool scored_ = false;
  std::optional<AttentionPlace> score_;
  AttentionPlace weights_, d_weight_, d_score_;
};

}  // namespace

std::vector<AttentionChain> attention_chains(const Module& module) {
  const Kernels kernels(module);
  std::vector<AttentionChain> out;
  for (size_t k = 0; k < module.kernels.size(); ++k)
    if (auto chain = Chain(kernels).from(k)) out.push_back(std::move(*chain));
  return out;
}

}  // namespace caravan::schedule
