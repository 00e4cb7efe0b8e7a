// The 21 public Tensor Puzzles, each one line of notation, checked against a loop.
#include <caravan/caravan.h>
using namespace caravan;

// --- the answers ---
Tensor ones(int n) { return einsum("=>i", 1, {{"i", n}}); }
Tensor total(Tensor a) { return einsum("i=>", a); }
Tensor outer(Tensor a, Tensor b) { return einsum("i;j=>ij", a, b); }
Tensor diag(Tensor a) { return einsum("ii=>i", a); }
Tensor eye(int n) { return einsum("=>ii", 1, {{"i", n}}); }
Tensor triu(int n) { return einsum("=>ij", 1, {{"i", n}, {"j", n}, {"i <= j"}}); }
Tensor cumsum(Tensor a) { return einsum("j=>i", a, {{"i", "j"}, {"j <= i"}}); }
Tensor diff(Tensor a) { return a - einsum("i^1 => 1^i", a); }
Tensor vstack(Tensor a, Tensor b) { return stack({a, b}); }
Tensor roll(Tensor a) { return einsum("k^i => i^k", a, {{"k", 1}}); }
Tensor flip(Tensor a) { return einsum("i=>-i", a); }
Tensor compress(Tensor g, Tensor v, int n) { return einsum("i; ij => j", v, eq("i; j => ij", cumsum(g) * g, iota(n) + 1)); }
Tensor pad_to(Tensor a, int n) { return einsum("i=>j", a, {{"j", n}, {"i == j"}}); }
Tensor sequence_mask(Tensor v, Tensor length, int n) { return einsum("ij; ij => ij", v, lt("j; i => ij", iota(n), length)); }
Tensor bincount(Tensor a, int n) { return eq("i; j => j", a, iota(n)); }
Tensor scatter(Tensor v, Tensor link, int n) { return einsum("i; ij => j", v, eq("i; j => ij", link, iota(n))); }
Tensor flatten(Tensor a) { return einsum("i, j => i&j", a); }
Tensor linspace(Tensor from, Tensor to, int n) { return from + (to - from) * iota(n) / std::max(1, n - 1); }
Tensor heaviside(Tensor a, Tensor b) { return where(a == 0, b, a > 0); }
Tensor repeat(Tensor a, int d) { return einsum("i=>di", a, {{"d", d}}); }
Tensor bucketize(Tensor v, Tensor boundaries) { return ge("i; j => i", v, boundaries); }

// --- the checks ---
int solved = 0;

// The puzzle's value must have this shape and, at [i] or [i][j], the value that a plain loop gives.
void check(const char* name, Tensor answer, const char* shape, const std::function<double(int i, int j)>& loop) {
  Context ctx;
  Array value = ctx.eval(answer);
  bool ok = to_string(value.shape()) == shape;
  std::vector<int64_t> sizes = value.shape().sizes();
  for (int e = 0; ok && e < value.size(); ++e) {
    int columns = sizes.size() == 2 ? int(sizes[1]) : 1;
    ok = std::abs(value.at(e) - loop(e / columns, e % columns)) < 1e-6;
  }
  solved += ok;
  std::cout << name << (ok ? " ok\n" : " WRONG\n");
  if (!ok) std::cout << "  its shape is " << to_string(value.shape()) << " and its value " << value << '\n';
}

int main() {
  const std::vector<double> a = {3, -1, 0, 5, 2}, b = {2, 7, 1, 8, 0}, g = {0, 1, 1, 0, 1}, ids = {1, 0, 3, 1, 1}, bounds = {0, 2, 4};
  const std::vector<std::vector<double>> m = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  auto vec = [](const std::vector<double>& v) { return tensor(Array::vector(v)); };
  auto whole = [](const std::vector<double>& v) { return tensor(Array::vector(v, DType::i32)); };
  Tensor ta = vec(a), tb = vec(b), tm = tensor(Array::matrix(m));

  check("ones", ones(5), "5", [](int, int) { return 1; });
  check("sum", total(ta), "", [&](int, int) { double s = 0; for (double x : a) s += x; return s; });
  check("outer", outer(ta, vec(bounds)), "5,3", [&](int i, int j) { return a[i] * bounds[j]; });
  check("diag", diag(tm), "3", [&](int i, int) { return m[i][i]; });
  check("eye", eye(4), "4,4", [](int i, int j) { return i == j; });
  check("triu", triu(4), "4,4", [](int i, int j) { return i <= j; });
  check("cumsum", cumsum(ta), "5", [&](int i, int) { double s = 0; for (int k = 0; k <= i; ++k) s += a[k]; return s; });
  check("diff", diff(ta), "5", [&](int i, int) { return i == 0 ? a[0] : a[i] - a[i - 1]; });
  check("vstack", vstack(ta, tb), "2,5", [&](int i, int j) { return i == 0 ? a[j] : b[j]; });
  check("roll", roll(ta), "5", [&](int i, int) { return a[(i + 1) % 5]; });
  check("flip", flip(ta), "5", [&](int i, int) { return a[4 - i]; });
  check("compress", compress(vec(g), ta, 5), "5", [&](int i, int) { for (int k = 0; k < 5; ++k) if (g[k] && i-- == 0) return a[k]; return 0.0; });
  check("pad_to", einsum("i; j => ij", pad_to(ta, 8), pad_to(ta, 3)), "8,3", [&](int i, int j) { return (i < 5 ? a[i] : 0) * a[j]; });
  check("sequence_mask", sequence_mask(tm, whole({2, 0, 3}), 3), "3,3", [&](int i, int j) { return j < std::vector{2, 0, 3}[i] ? m[i][j] : 0; });
  check("bincount", bincount(whole(ids), 4), "4", [&](int j, int) { return std::count(ids.begin(), ids.end(), j); });
  check("scatter_add", scatter(ta, whole(ids), 4), "4", [&](int j, int) { double s = 0; for (int i = 0; i < 5; ++i) s += ids[i] == j ? a[i] : 0; return s; });
  check("flatten", flatten(tm), "9", [&](int i, int) { return m[i / 3][i % 3]; });
  check("linspace", linspace(tensor(Array::scalar(-1)), tensor(Array::scalar(2)), 7), "7", [](int i, int) { return -1 + i * 0.5; });
  check("heaviside", heaviside(ta, tb), "5", [&](int i, int) { return a[i] == 0 ? b[i] : a[i] > 0; });
  check("repeat", repeat(ta, 3), "3,5", [&](int, int j) { return a[j]; });
  check("bucketize", bucketize(ta, vec(bounds)), "5", [&](int i, int) { int n = 0; while (n < 3 && a[i] >= bounds[n]) ++n; return n; });
  std::cout << solved << " of 21\n";
  return solved == 21 ? 0 : 1;
}
