#include "solver/model.h"

namespace caravan::shape {

const std::vector<NamedModel>& refused_models() {
  static const std::vector<NamedModel> kModels = {
      {"two sizes",
       [](Model& m) {
         m.einsum("ij;jk=>ik", {m.data("3,4"), m.data("5,6")});
       }},
      {"a given 1 against 5",
       [](Model& m) {
         m.point({m.data("1"), m.data("5")});
       }},
      {"a kept mean equated with 3",
       [](Model& m) {
         m.einsum("b|i; i => b", {m.kept_mean(m.data("10|4")), m.data("3")});
       }},
      {"two bases",
       [](Model& m) {
         m.point({m.data("3rgb"), m.data("3heads")});
       }},
      {"different ranks", [](Model& m) { m.einsum("ij => i", {m.data("3")}); }},
      {"an infinite row, directly",
       [](Model& m) {
         T s = m.state();
         m.einsum("..r..; i, ..r.. => ", {s, s});
       }},
      {"an infinite row through a state",
       [](Model& m) {
         T s = m.state();
         m.assign(s, m.stack({s, s}, RowKind::output));
       }},
      {"an infinite row through joins",
       [](Model& m) {
         T s = m.state(), t = m.state();
         m.assign(s, m.point({m.stack({t}, RowKind::output), m.number()}));
         m.assign(t, m.point({s, m.number()}));
       }},
      {"an infinite row through a cycle of three",
       [](Model& m) {
         T a = m.state(), b = m.state(), c = m.state();
         m.assign(a, m.einsum("..r.. => ..r.., 0", {b}));
         m.assign(b, m.point({c, m.data("3")}));
         m.assign(c, m.point({a, a}));
       }},
      {"undetermined parameters", [](Model& m) { m.apply(m.param(), m.param()); }},
      {"w2(z) + b against 28,28",
       [](Model& m) {
         m.point({m.layer(m.data("10|5")), m.data("10|28,28")});
       }},
      {"the open kernel",
       [](Model& m) {
         m.point({m.einsum("... | oh+kh, ow+kw, ..ic..; kh, kw, ..ic.. -> ..oc.. => ... | oh, ow, ..oc..",
                           {m.data("2|8,8,3"), m.param()}),
                  m.param("", "16")});
       }},
      {"W * m without .input",
       [](Model& m) {
         m.point({m.data("3->4"), m.param()});
       }},
      {"a factor that does not divide",
       [](Model& m) {
         m.einsum("f; c => f", {m.data("10"), m.param("")}, {{"f", Multiple{4, "c"}}});
       }},
      {"parts longer than the whole",
       [](Model& m) {
         m.point({m.concat("a; b => a^b", {m.data("5"), m.param("")}), m.data("4")});
       }},
      {"an index beyond the axis", [](Model& m) { m.einsum("i3 => i", {m.data("4,3")}); }},
      {"a written index against another size",
       [](Model& m) {
         m.point({m.einsum("i => i2", {m.data("4")}), m.data("4,4")});
       }},
      {"a window that does not fit",
       [](Model& m) {
         m.einsum("o+k; k => o", {m.data("3"), m.data("4")});
       }},
      {"a window smaller than nothing",
       [](Model& m) {
         m.einsum("o<5+k; k => o", {m.param(""), m.data("3")}, {{"o", int64_t(2)}});
       }},
      {"a parameter equated with kept ones does not stretch",
       [](Model& m) {
         T kept = m.kept_mean(m.data("4|8")), sum = m.point({m.param(), kept});
         m.point({m.stack({sum, kept}, RowKind::batch), m.data("5")});
       }},
      {"a parameter is never guessed to be a kept 1",
       [](Model& m) {
         T w = m.param("");
         m.assign(w, m.point({w, m.kept_mean(m.data("8"))}));
       }},
      {"a slice beyond the axis", [](Model& m) { m.slice(m.data("4|3"), 5); }},
      {"a name without a size", [](Model& m) { m.einsum("i => ij", {m.data("3")}); }},
      {"a factor of itself",
       [](Model& m) {
         m.einsum("a => a", {m.data("3")}, {{"a", Multiple{2, "a"}}});
       }},
      {"a product that overflows",
       [](Model& m) { m.einsum("a, b, c, d => a&b&c&d", {m.param("", "1000000000,1000000000,1000000000,16")}); }},
  };
  return kModels;
}

}  // namespace caravan::shape
