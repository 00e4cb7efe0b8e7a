#include "random_program.h"

#include <cmath>
#include <random>

#include "caravan/tensor/graph.h"

namespace caravan {

namespace {

constexpr int64_t kElements = 100'000, kTriangle = 1000;  // more take the interpreter minutes

using Dims = std::vector<int64_t>;

class ProgramGenerator {
 public:
  ProgramGenerator(uint32_t seed, bool smooth)
      : random_(seed),
        smooth_(smooth),
        sizes_(seed % kSizesOfPrograms == 7 ? Sizes::parallel
               : seed % 4 == 0              ? Sizes::large
                                            : Sizes::small) {}

  Program run() {
    for (int k = 0; k < 4; ++k) leaf();
    const int nodes = 10 + pick(21);
    while (int(pool_.size()) < nodes) node();
    Program out;
    assignments(out);
    std::vector<Tensor> seen;
    for (int k = 0; k < 3; ++k) seen.push_back(pool_[pool_.size() - 1 - size_t(pick(4))].tensor);
    if (one_in(2)) gradients(seen);
    if (one_in(4)) seen.push_back(states_[0].tensor);  // its old value
    if (sizes_ == Sizes::parallel) seen.push_back(collisions());
    for (const Tensor& t : seen) out &= observe(t);
    return out;
  }

 private:
  struct Value {
    Tensor tensor;
    Dims dims;
  };
  // One program in four is large enough for split sums, vector and unrolled loops with something left over, and one in
  // twenty for loops that are shared by threads.
  enum class Sizes : uint8_t { small, large, parallel };

  int pick(int n) { return int(random_() % uint32_t(n)); }
  bool one_in(int n) { return pick(n) == 0; }
  double real(double low, double high) { return low + (high - low) * double(random_() >> 8) / double(1u << 24); }
  // For functions that jump at 0: the mean of centred values is 0 but for rounding, and its sign is that of the
  // rounding.
  static Tensor off_zero(const Tensor& x) { return x + 0.0137; }
  static Shape shape(const Dims& dims) {
    Shape out;
    for (int64_t d : dims) out.output.push_back({d});
    return out;
  }
  Array values(const Dims& dims, DType dtype = DType::f64) {
    Array out(shape(dims), dtype);
    for (int64_t e = 0; e < out.size(); ++e) out.set(e, real(-1.5, 1.5));
    return out;
  }
  Dims any_dims() {
    const int64_t small[] = {2, 3, 4, 6}, large[] = {9, 17, 33, 37}, parallel[] = {150, 190, 211, 256};
    const int64_t* sizes = sizes_ == Sizes::small ? small : sizes_ == Sizes::large ? large : parallel;
    Dims out(sizes_ == Sizes::parallel ? 2 : size_t(pick(8) == 0 ? 0 : 1 + pick(2)));
    for (int64_t& d : out) d = sizes[pick(4)];
    return out;
  }

  const Value& any() { return pool_[size_t(pick(int(pool_.size())))]; }
  const Value* any_of_rank(size_t rank) {
    for (int attempt = 0; attempt < 10; ++attempt)
      if (const Value& v = any(); v.dims.size() == rank) return &v;
    return nullptr;
  }
  const Value* any_like(const Dims& dims) {
    for (int attempt = 0; attempt < 10; ++attempt)
      if (const Value& v = any(); v.dims == dims) return &v;
    return nullptr;
  }
  void add(const Tensor& t, Dims dims) {
    int64_t elements = 1;
    for (int64_t d : dims) elements *= d;
    if (elements <= kElements) pool_.push_back({t, std::move(dims)});
  }

  void leaf() {
    const Dims dims = any_dims();
    if (states_.size() < 2 || one_in(2)) {
      Tensor state = param("s" + std::to_string(states_.size()), values(dims));
      states_.push_back({state, dims});
      return add(state, dims);
    }
    switch (pick(smooth_ ? 2 : 4)) {
      case 0: return add(tensor(values(dims)), dims);
      case 1: return add(cast(iota(4), DType::f64) * 0.25, {4});
      case 2:
        return add(cast(uniform("stream" + std::to_string(streams_++), {.output = {3}, .step = 0}), DType::f64) - 0.5,
                   {3});
      default: return add(number(real(-1, 1), DType::f64), {});
    }
  }

  void node() {
    switch (pick(18)) {
      case 0: return leaf();
      case 1:
      case 2:
      case 3: return unary();
      case 4:
      case 5: return binary();
      case 6: return reduction();
      case 7: return sizes_ == Sizes::parallel ? overlap() : contraction();
      case 8: return window();
      case 9: return parts();
      case 10: return indexed();
      case 11: return rows();
      case 12: return identity();
      case 13:
      case 14: return orders();
      case 15: return smooth_ ? orders() : whole_numbers();
      case 16: return smooth_ ? overlap() : rounded();
      default: return copies();
    }
  }

  void unary() {
    const Value v = any();
    const Tensor& x = v.tensor;
    switch (pick(smooth_ ? 22 : 30)) {
      case 0: return add(exp(tanh(x)), v.dims);
      case 1: return add(log(square(x) + 0.5), v.dims);
      case 2: return add(sqrt(square(x) + 0.25), v.dims);
      case 3: return add(rsqrt(square(x) + 0.5), v.dims);
      case 4: return add(recip(square(x) + 0.5), v.dims);
      case 5: return add(sin(x), v.dims);
      case 6: return add(cos(x), v.dims);
      case 7: return add(tan(sin(x) * 0.8), v.dims);
      case 8: return add(tanh(x), v.dims);
      case 9: return add(sigmoid(x) * 2, v.dims);
      case 10: return add(relu(x), v.dims);
      case 11: return add(erf(x), v.dims);
      case 12: return add(gelu(x), v.dims);
      case 13: return add(gelu_tanh(x), v.dims);
      case 14: return add(silu(x), v.dims);
      case 15: return add(silu(x) * 0.5, v.dims);
      case 16: return add(-abs(x), v.dims);
      case 17: return add(exp2(sin(x)) - expm1(x * 0.1), v.dims);
      case 18: return add(log1p(square(x)) - log2(square(x) + 1) * 0.5, v.dims);
      case 19: return add(clamp(x, -1, 0.75), v.dims);
      case 20: return add(square(x) * 0.25, v.dims);
      case 21: return add(1 - x, v.dims);
      case 22: return add(cast(cast(x, DType::f32), DType::f64), v.dims);
      case 23: return add(cast(cast(x, one_in(2) ? DType::f16 : DType::bf16), DType::f64) * 0.5, v.dims);
      case 24: return add(cast(cast(x * 3, one_in(2) ? DType::i32 : DType::i64) + 1, DType::f64) * 0.25, v.dims);
      case 25: return add(floor(off_zero(x)) * 0.5 + round(x * 0.5) - ceil(off_zero(x)) + trunc(x), v.dims);
      case 26: return add(cast(cast(abs(x) * 20, DType::u8) + 1, DType::f64) / 32.0, v.dims);
      case 27: return add(sign(off_zero(x)) + cast(!(off_zero(x) > 0), DType::f64), v.dims);
      case 28: return add(mod(off_zero(x), 0.75), v.dims);
      default: return add(stop_gradient(x) * 0.5 + x * 0.5, v.dims);
    }
  }

  void binary() {
    const Value v = any();
    const Value* other = any_like(one_in(4) ? Dims{} : v.dims);
    if (!other) return;
    const Tensor a = v.tensor, b = other->tensor;
    switch (pick(smooth_ ? 9 : 12)) {
      case 0: return add((a + b) * 0.5, v.dims);
      case 1: return add((a - b) * 0.5, v.dims);
      case 2: return add(a * sin(b), v.dims);
      case 3: return add(a / (square(b) + 1), v.dims);
      case 4: return add(max(a, b), v.dims);
      case 5: return add(min(a, b), v.dims);
      case 6: return add(atan2(a, square(b) + 0.5), v.dims);
      case 7: return add(pow(sigmoid(a) + 0.5, tanh(b)), v.dims);
      case 8: return add(fma(sin(a), cos(b), a * 0.5), v.dims);
      case 9: return add(where(a > off_zero(b), a, b * 0.5), v.dims);
      case 10: return add(where((off_zero(a) > 0) && (off_zero(b) > 0), sin(a), -a), v.dims);
      default: return add(where((a <= b) || (a == b) || (b != b), 1.5, a * 0.5), v.dims);
    }
  }

  void reduction() {
    const Value* v = any_of_rank(2);
    if (!v) return;
    const Tensor x = v->tensor;
    const int64_t n = v->dims[0], m = v->dims[1];
    switch (pick(smooth_ ? 8 : 10)) {
      case 0: return add(einsum("i, j => i", x) / double(m), {n});
      case 1: return add(einsum("i, j => j", x) / double(n), {m});
      case 2: return add(einmax("i, j => i", x), {n});
      case 3: return add(einmin("i, j => j", x), {m});
      case 4: return add(einprod("i, j => i", 1 + sin(x) / double(m)), {n});  // between 1/3 and 3 for any m
      case 5: return add(sum(x) / double(n * m), {});
      case 6: return add(x - einsum("i, j => i, 0", x) / double(m), {n, m});
      case 7: {
        Tensor e = exp(tanh(x) - einmax("i, j => i, 0", tanh(x)));
        return add(e / einsum("i, j => i, 0", e), {n, m});
      }
      case 8:
        return add(cast(argmax("i, j => i", x), DType::f64) * 0.25 - cast(argmin("i, j => i", x), DType::f64) * 0.25,
                   {n});
      default:
        return add(cast(einany("i, j => i", x > 0.5), DType::f64) - cast(einall("i, j => i", x > -0.5), DType::f64),
                   {n});
    }
  }

  void contraction() {
    const Value* a = any_of_rank(2);
    if (!a) return;
    const int64_t n = a->dims[0], m = a->dims[1];
    const Value* b = any_of_rank(size_t(1 + pick(2)));
    if (!b) return;
    const Tensor x = a->tensor, y = b->tensor;
    if (b->dims.size() == 1 && b->dims[0] == m) return add(einsum("i, j; j => i", x, y) / double(m), {n});
    if (b->dims.size() == 1 && b->dims[0] == n) return add(tropical("i, j; i => j", x, y) * 0.5, {m});
    if (b->dims.size() == 1) return;
    const int64_t k = b->dims[1];
    if (b->dims[0] == m) return add(einsum("i, j; j, k => i, k", x, y) / double(m), {n, k});
    if (b->dims[0] == n) return add(einsum("i, j; i, k => j, k", x, y) / double(n), {m, k});
    if (k == m) return add(einmax("i, j; k, j => i, k", x, y) * 0.5, {n, b->dims[0]});
  }

  // Sums that add in another order than that of memory: backwards, or with the axes exchanged, around short loops.
  void orders() {
    const Value* v = any_of_rank(2);
    if (!v) return;
    const Tensor x = v->tensor;
    const int64_t n = v->dims[0], m = v->dims[1];
    const Value* by_row = any_like({m});
    const Value* by_column = any_like({n});
    switch (pick(14)) {
      case 0: return add(sum(einsum("i, -j => i, j", x)) / double(n * m), {});
      case 1: return add(einsum("-i, -j =>", x) / double(n * m), {});
      case 2: return add(einsum("i, -j => i", x) / double(m), {n});
      case 3: return add(einsum("-i, -j => j", x) / double(n), {m});
      case 4: return add(mean(tanh(einsum("-i, j => j, i", x))), {});
      case 5: return add(sum(einsum("i, -j => i, j", sin(x)) * x) / double(n * m), {});
      case 6: return add(einmax("i, -j => i", x) - einmin("-i, j => i", x), {n});
      case 7: return add(einprod("i, -j => i", 1 + sin(x) / double(m)), {n});
      case 8: return by_row ? add(einsum("i, -j; j =>", x, by_row->tensor) / double(n * m), {}) : void();
      case 9: return by_row ? add(einsum("i, -j; -j => i", x, by_row->tensor) / double(m), {n}) : void();
      case 10: return by_column ? add(einsum("i, -j; -i => j", x, by_column->tensor) / double(n), {m}) : void();
      case 11: {  // three loops around each other, the short one anywhere
        const Tensor w = tensor(values({2 + pick(6)}));
        const double by = double(n * m);
        switch (pick(4)) {
          case 0: return add(einsum("i, -j; k =>", x, w) / by, {});
          case 1: return add(einsum("-i, j; -k =>", x, w) / by, {});
          case 2: return add(einsum("k; -i, j =>", w, x) / by, {});
          default: return add(einsum("-k; i, -j =>", w, x) / by, {});
        }
      }
      case 12: {  // a window read backwards, whose gradient reads the other operand so
        const Tensor w = tensor(values({2, 3}));
        return n > 2 && m > 2 ? add(einsum("i+k, j+l; -k, -l => i, j", x, w) / 6.0, {n - 1, m - 2}) : void();
      }
      default: {
        const Tensor w = tensor(values({3}));
        return m > 2 ? add(einsum("i, j+k; -k =>", x, w) / double(n * m), {}) : void();
      }
    }
  }

  // Writes that meet: iterations of the loop over i touch the same elements.
  void overlap() {
    const Value* v = any_of_rank(2);
    if (!v) return;
    const Tensor x = v->tensor;
    const int64_t n = v->dims[0], m = v->dims[1];
    switch (pick(4)) {
      case 0: return add(einsum("i, j; k => i+k, j", x, tensor(values({3}))) * 0.3, {n + 2, m});
      case 1: return add(einsum("i, j; k => i, j+k", x, tensor(values({3}))) * 0.3, {n, m + 2});
      case 2: return add(einsum("i, j; k => 2*i+k, j", x, tensor(values({3}))) * 0.3, {2 * (n - 1) + 3, m});
      default: return add(einsum("i, j => j", x) / double(n), {m});
    }
  }

  // Sums of integers, in every order: no rounding hides a wrong element.
  void whole_numbers() {
    const Value* v = any_of_rank(2);
    if (!v) return;
    const Tensor x = cast(v->tensor * 4, one_in(2) ? DType::i32 : DType::i64);
    const int64_t n = v->dims[0], m = v->dims[1];
    auto real_of = [](const Tensor& t, double by) { return cast(t, DType::f64) / by; };
    switch (pick(6)) {
      case 0: return add(real_of(sum(einsum("i, -j => i, j", x)), 4.0 * double(n * m)), {});
      case 1: return add(real_of(einsum("-i, j => i", x), 4.0 * double(m)), {n});
      case 2: return add(real_of(einsum("i, j => j", x * x), 16.0 * double(n)), {m});
      case 3: return add(real_of(einmax("i, -j => i", x), 4.0), {n});
      case 4: return add(real_of(einsum("i, -j; -j, i =>", x, einsum("i, j => j, i", x)), 16.0 * double(n * m)), {});
      default: return add(real_of(cast(argmax("i, -j => i", v->tensor), DType::i32), double(m)), {n});
    }
  }

  // Half precision that several read: in registers it is rounded as in memory. One of them has a gradient: two would be
  // added in half precision, which the interpreter does not round.
  void rounded() {
    const Value v = any();
    const Tensor half = cast(v.tensor, one_in(2) ? DType::f16 : DType::bf16);
    add(sin(cast(half, DType::f64)), v.dims);
    const Tensor again = stop_gradient(cast(half, DType::f64));
    if (v.dims.size() == 2) return add(einsum("i, -j => i", again) / double(v.dims[1]), {v.dims[0]});
    add(again - v.tensor * 0.5, v.dims);
  }

  void window() {
    const Value* v = any_of_rank(1);
    if (!v || v->dims[0] < 4) return;
    const Tensor x = v->tensor, w = tensor(values({3})), w2 = tensor(values({2}));
    const int64_t n = v->dims[0];
    switch (pick(8)) {
      case 0: return add(einsum("o+k; k => o", x, w) * 0.3, {n - 2});
      case 1: return add(einsum("2*o+k; k => o", x, w2) * 0.5, {(n - 2) / 2 + 1});
      case 2: return add(einsum("o<1+k; k => o", x, w) * 0.3, {n});
      case 3: return add(einmax("2*o+k => o", x, {{"k", 2}}), {n / 2});
      case 4: return add(einmax("o<1+k => o", x, {{"k", 3}}), {n});
      case 5: return add(einsum("o; k => 2*o+k", x, w2), {2 * (n - 1) + 2});
      case 6: return n <= kTriangle ? add(einsum("j => i", x, {{"i", "j"}, {"j <= i"}}) / double(n), {n}) : void();
      default: return add(einsum("o<1+k => o", sin(x), {{"k", 3}}) * 0.3, {n});  // a padded reader of something inlined
    }
  }

  void parts() {
    if (one_in(2)) {
      const Value *a = any_of_rank(1), *b = any_of_rank(1);
      if (!a || !b || a->dims[0] + b->dims[0] > 8) return;
      return add(concat("a; b => a^b", a->tensor, b->tensor), {a->dims[0] + b->dims[0]});
    }
    const Value* v = any_of_rank(1);
    if (!v || v->dims[0] < 2) return;
    const int64_t n = v->dims[0];
    switch (pick(3)) {
      case 0: return add(einsum("1^rest => rest", v->tensor), {n - 1});
      case 1: return add(einsum("i^1 => 1^i", v->tensor), {n});
      default: return add(einsum("n => 2*n+1", v->tensor), {2 * n});
    }
  }

  void indexed() {
    const Value* v = any_of_rank(2);
    if (!v) return;
    const int64_t n = v->dims[0], m = v->dims[1];
    std::vector<double> ids;
    for (int k = 0; k < 3; ++k) ids.push_back(double(pick(int(n))));
    if (one_in(2)) {
      const Tensor chosen = tensor(Array::vector(ids, DType::i32));
      return add(n % 2 == 0 ? gather(einsum("v, d => v | d", v->tensor), chosen, RowKind::batch)
                            : gather(einsum("v, d => v -> d", v->tensor), chosen),
                 {3, m});
    }
    ids.resize(size_t(n));
    for (double& id : ids) id = double(pick(4));
    add(einsum("v -> d => v, d", scatter_add(v->tensor, tensor(Array::vector(ids, DType::i32)), 4)) * 0.5, {4, m});
  }

  // Rows that are added to four others, which threads must not do at the same time.
  Tensor collisions() {
    std::vector<double> ids;
    for (int64_t k = 0; k < states_[0].dims[0]; ++k) ids.push_back(double(pick(4)));
    return scatter_add(states_[0].tensor, tensor(Array::vector(ids, DType::i32)), 4);
  }

  // The parts of a softmax or a norm, some of which others may read as well.
  void rows() {
    const Value* v = any_of_rank(2);
    if (!v) return;
    const Dims dims = v->dims;
    const Tensor x = tanh(v->tensor);
    if (one_in(2)) {
      const Tensor centred = x - einsum("i, j => i, 0", x) / double(dims[1]);
      if (one_in(3)) add(centred, dims);
      return add(centred * rsqrt(einsum("i, j => i, 0", square(centred)) + 0.5), dims);
    }
    const Tensor e = smooth_ ? exp(x) : exp(x - einmax("i, j => i, 0", x));
    if (one_in(3)) add(e, dims);
    add(e / einsum("i, j => i, 0", e), dims);
  }

  // What simplifies.
  void identity() {
    const Value v = any();
    const Tensor& x = v.tensor;
    switch (pick(8)) {
      case 0: return add(x * 1, v.dims);
      case 1: return add(x - 0, v.dims);
      case 2: return add(x / ones_like(x), v.dims);
      case 3: return add(-(-x), v.dims);
      case 4: return add(max(x, x), v.dims);
      case 5: return add(where(1, x, sin(x)), v.dims);
      case 6: return add(where(x, cos(x), cos(x)), v.dims);
      default: return add(abs(abs(x)) * 0.5, v.dims);
    }
  }

  void copies() {
    if (const Value* v = one_in(2) ? any_of_rank(1) : nullptr) {
      const int64_t n = v->dims[0];
      const Value* w = any_of_rank(1);
      switch (pick(4)) {
        case 0: return add(einsum("i => i, i", v->tensor), {n, n});
        case 1: return add(einsum("-i => i", v->tensor), {n});
        case 2: return w ? add(einsum("i; j => i, j", v->tensor, w->tensor) * 0.5, {n, w->dims[0]}) : void();
        default: return add(full_like(v->tensor, real(-1, 1)), {n});
      }
    }
    const Value* v = any_of_rank(2);
    if (!v) return;
    const int64_t n = v->dims[0], m = v->dims[1];
    switch (pick(4)) {
      case 0: return add(einsum("i, j => j, i", v->tensor), {m, n});
      case 1: return n == m ? add(einsum("i, i => i", v->tensor), {n}) : void();
      case 2: return add(einsum("i, j => i&j", v->tensor), {n * m});
      default: return m > 1 ? add(einsum("i, 1 => i", v->tensor), {n}) : void();
    }
  }

  void assignments(Program& out) {
    std::vector<bool> done(states_.size(), false);
    for (size_t a = 0; a < states_.size(); ++a)  // swaps
      for (size_t b = 0; b < a && one_in(3); ++b)
        if (!done[a] && !done[b] && states_[a].dims == states_[b].dims) {
          out &= assign(states_[a].tensor, states_[b].tensor) &
                 assign(states_[b].tensor, one_in(2) ? states_[a].tensor : sin(states_[a].tensor));
          done[a] = done[b] = true;
        }
    for (size_t k = 0; k < states_.size(); ++k) {
      if (done[k] || one_in(4)) continue;
      const Tensor state = states_[k].tensor;
      const Value* v = any_like(states_[k].dims);
      const Tensor x = v ? v->tensor : cos(state);
      switch (pick(5)) {
        case 0: out &= assign(state, x); break;
        case 1: out &= assign(state, state * 0.5 + x * 0.5); break;
        case 2: out &= assign(state, tanh(x) - state * 0.25); break;
        case 3: out &= assign(state, full_like(state, real(-1, 1))); break;
        default: out &= assign(state, sin(state)); break;
      }
    }
  }

  void gradients(std::vector<Tensor>& seen) {
    Tensor loss = number(0, DType::f64);
    for (int k = 0; k < 2; ++k) loss = loss + mean(sin(any().tensor));
    std::vector<Tensor> by;
    for (const Value& s : states_) by.push_back(s.tensor);
    for (const Tensor& t : grad(loss, by, {.allow_unused = true})) seen.push_back(t);
  }

  std::mt19937 random_;
  bool smooth_;
  const Sizes sizes_;
  int streams_ = 0;  // random draws so far, each of a stream of its own
  std::vector<Value> pool_, states_;
};

}  // namespace

Program random_program(uint32_t seed, bool smooth) { return ProgramGenerator(seed, smooth).run(); }

}  // namespace caravan
