#include "solver/model.h"

namespace caravan::shape {

const std::vector<NamedModel>& solvable_models() {
  static const std::vector<NamedModel> kModels = {
      {"one layer",
       [](Model& m) {
         m.point({m.apply(m.param(), m.data("5|3")), m.data("2")});
       }},
      {"perceptron with a hinge loss",
       [](Model& m) {
         T y = m.layer(m.layer(m.layer(m.data("10|2"), "16"), "16"), "1");
         m.einsum("...|...->... => ", {m.point({m.number(), m.point({m.data("10|1"), y})})});
       }},
      {"target sizes the last layer",
       [](Model& m) {
         m.point({m.layer(m.layer(m.data("10|2"), "16")), m.data("10|3")});
       }},
      {"thirty layers",
       [](Model& m) {
         T x = m.data("4|8");
         for (int i = 0; i < 30; ++i) x = m.layer(x, "8");
       }},
      {"residual",
       [](Model& m) {
         T x = m.data("4|8");
         for (int i = 0; i < 4; ++i) x = m.point({x, m.apply(m.param(), m.layer(x, "16"))});
       }},
      {"tied autoencoder",
       [](Model& m) {
         T w = m.param(nullptr, "4"), x = m.data("5|9");
         m.point({m.apply(m.einsum("...->... => ...->...", {w}), x), m.param()});
         m.point({m.einsum("i->o; b|o => b|i", {w, m.apply(w, x)}), x});
       }},
      {"gate",
       [](Model& m) {
         T x = m.data("4|8");
         m.point({m.point({m.point({m.apply(m.param(), x), m.param()}), m.layer(x, "5")}), m.param()});
       }},
      {"softmax",
       [](Model& m) {
         T x = m.layer(m.data("4|8"), "5"), e = m.point({x, m.einsum("...|...->... => ...|...->0", {x})});
         m.point({e, m.einsum("...|...->... => ...|...->0", {e})});
       }},
      {"layer norm with gain and bias",
       [](Model& m) {
         T x = m.data("4|8"), c = m.point({x, m.kept_mean(x)});
         m.point({m.point({m.point({c, m.kept_mean(m.point({c, c}))}), m.param()}), m.param()});
       }},
      {"running mean of a kept reduction",
       [](Model& m) {
         T s = m.state(), x = m.data("10|8"), mean = m.einsum("...|...->... => 0|...->...", {x});
         m.assign(s, m.point({m.point({s, m.number()}), m.point({mean, m.number()})}));
         m.point({x, s});
       }},
      {"momentum of a parameter",
       [](Model& m) {
         T w = m.param(nullptr, "3"), v = m.state();
         T g = m.same({w});
         m.point({m.apply(w, m.data("5|2")), m.param()});
         m.assign(v, m.point({m.point({v, m.number()}), g}));
         m.assign(w, m.point({w, m.point({v, m.number()})}));
       }},
      {"wq(x) + bq",
       [](Model& m) {
         m.point({m.apply(m.param("100", "4,16"), m.data("5|100")), m.param()});
       }},
      {"bias of a convolution",
       [](Model& m) {
         m.point({m.einsum("... | oh=+kh, ow=+kw, ..ic..; kh, kw, ..ic.. -> ..oc.. => ... | oh, ow, ..oc..",
                           {m.data("2|8,8,3"), m.param("3,3,3", "16")}),
                  m.param()});
       }},
      {"convolution, pool, linear",
       [](Model& m) {
         T c = m.einsum("... | 2*oh<1+kh, ow=+2*kw, ic; kh, kw, ic -> oc => ... | oh, ow, oc",
                        {m.data("2|9,8,3"), m.param("3,3,3", "4")});
         T p = m.einsum("... | 2*y+ky, 2*x+kx, c => ... | y, x, c", {m.point({c, m.param()})},
                        {{"ky", int64_t(2)}, {"kx", int64_t(2)}});
         m.layer(p, "10");
       }},
      {"kernel found by stride 1",
       [](Model& m) {
         m.point({m.einsum("o+k; k => o", {m.data("9"), m.param("")}), m.data("7")});
       }},
      {"input found by stride 1",
       [](Model& m) {
         m.einsum("o+k; k => o", {m.param(""), m.data("3")}, {{"o", int64_t(5)}});
       }},
      {"transposed convolution compared with 10",
       [](Model& m) {
         m.point({m.einsum("o; k => 2*o+k", {m.data("4"), m.data("3")}), m.data("10")});
       }},
      {"two transposed convolutions in a row",
       [](Model& m) {
         m.einsum("o; k => 2*o+k", {m.einsum("o; k => 2*o+k", {m.data("4"), m.data("3")}), m.data("3")});
       }},
      {"i=>i0 read by i2=>i", [](Model& m) { m.einsum("i2=>i", {m.einsum("i=>i0", {m.data("4")})}); }},
      {"third part of a concatenation",
       [](Model& m) {
         m.point({m.concat("a; b; c => a^b^c", {m.data("2"), m.data("3"), m.param("")}), m.data("7")});
       }},
      {"parts of parts",
       [](Model& m) {
         T ab = m.concat("a; b => a^b", {m.data("2"), m.param("")});
         m.point({m.concat("a; b => 1^a^b", {ab, m.data("4")}), m.data("9")});
       }},
      {"split into heads and back",
       [](Model& m) {
         T h = m.einsum("b | h&d => b, h | d", {m.layer(m.data("5|8"), "12")}, {{"h", int64_t(3)}});
         m.layer(m.einsum("b, h | d => b | h&d", {h}), "8");
       }},
      {"attention",
       [](Model& m) {
         T x = m.data("2,6|8"), q = m.apply(m.param(nullptr, "2,4"), x), k = m.apply(m.param(nullptr, "2,4"), x),
           v = m.apply(m.param(nullptr, "2,4"), x);
         T scores = m.einsum("... s | h d; ... t | h d => ... s | t -> h", {q, k});
         m.point(
             {m.apply(m.param(nullptr, "8"), m.einsum("... s | t -> h; ... t | h d => ... s | h d", {scores, v})), x});
       }},
      {"a factor",
       [](Model& m) {
         m.einsum("c->f; b|c => b|f", {m.param(), m.data("5|3")}, {{"f", Multiple{4, "c"}}});
       }},
      {"a factor, backwards",
       [](Model& m) {
         m.einsum("c->f => f", {m.param(nullptr, "12")}, {{"f", Multiple{4, "c"}}});
       }},
      {"a captured size used elsewhere",
       [](Model& m) {
         auto dim = std::make_shared<const DimVariable>();
         m.einsum("b|i => b|i", {m.data("5|3")}, {{"i", dim}});
         m.einsum("i->o => o", {m.param()}, {{"o", Multiple{2, dim}}, {"i", SameAs{"o"}}});
       }},
      {"a row variable's product",
       [](Model& m) {
         m.einsum("..r..; n => n", {m.data("2,3"), m.param("")}, {{"n", SameAs{"r"}}});
       }},
      {"a slice sized by its range",
       [](Model& m) {
         m.point({m.slice(m.state(nullptr, "", "3"), 8), m.data("2|3")});
       }},
      {"a slice's range is no size where arithmetic gives one",
       [](Model& m) {
         m.slice(m.concat("a|x; b|x => a^b|x", {m.data("3|2"), m.data("5|2")}), 4);
       }},
      {"a slice's range asks more of a written window",
       [](Model& m) {
         m.slice(m.einsum("o; k => 2*o+k|", {m.data("4"), m.data("3")}), 10);
       }},
      {"a slice of a slice", [](Model& m) { m.slice(m.slice(m.data("4,5,6|3"), 4), 2); }},
      {"an embedding with positions",
       [](Model& m) {
         m.point({m.gather(m.param("10"), m.data("2,6|")), m.point({m.param(nullptr, "8"), m.number()})});
       }},
      {"an embedding of rows",
       [](Model& m) {
         m.point({m.gather(m.param(nullptr, nullptr, "10"), m.data("2,6|"), RowKind::batch),
                  m.point({m.param(nullptr, "8"), m.number()})});
       }},
      {"gather of gathered ids",
       [](Model& m) { m.gather(m.param("10", "4"), m.gather(m.param("5", "3"), m.data("2|"))); }},
      {"stack of a parameter",
       [](Model& m) {
         m.stack({m.data("4"), m.param(), m.data("4")}, RowKind::batch);
       }},
      {"stack of kept means, stretched",
       [](Model& m) {
         T mean = m.kept_mean(m.data("4|8"));
         m.point({m.stack({mean, mean}, RowKind::batch), m.data("2,4|8")});
       }},
      {"an axis that stretches, alone in one sum and stretched in the next",
       [](Model& m) {
         T kept = m.stretching("1,3"), alone = m.point({kept, m.data("3")});
         m.point({kept, m.data("3")});
         m.point({kept, kept, m.data("3")});
         m.point({alone, m.data("5,3")});
       }},
      {"gain of a leaf-like",
       [](Model& m) {
         m.point({m.data("5|4,3"), m.point({m.param(), m.number()})});
       }},
      {"sum of leaves",
       [](Model& m) {
         m.point({m.data("5|4,3"), m.point({m.param(), m.point({m.param(), m.param()})})});
       }},
      {"leaf used twice, the longest counts",
       [](Model& m) {
         T b = m.param();
         m.point({m.apply(m.param("3", "4,5"), m.data("2|3")), b});
         m.point({m.data("2|4,5"), b});
       }},
      {"a chain of leaves through einsums",
       [](Model& m) {
         T x = m.data("4|3");
         for (int i = 0; i < 8; ++i) {
           T p = m.param("");
           m.point({x, p});
           x = m.einsum("... => ...", {p});
         }
       }},
      {"named row variables across kinds",
       [](Model& m) { m.einsum("..a..|..b..->..c.. => ..c..|..a..->..b..", {m.data("2,3|4->5,6")}); }},
      {"a map of maps", [](Model& m) { m.apply(m.param(nullptr, "2"), m.param("5", "3")); }},
      {"basis tags",
       [](Model& m) {
         m.point({m.apply(m.param(nullptr, "2out"), m.data("5|3rgb")), m.data("2out")});
       }},
      {"given 1 against a kept 1",
       [](Model& m) {
         m.point({m.kept_mean(m.data("4|8")), m.data("4|1")});
       }},
      {"broadcast of three",
       [](Model& m) {
         m.point({m.data("3|2"), m.data("4,3|2"), m.data("2")});
       }},
      {"an open state is a scalar",
       [](Model& m) {
         m.point({m.state(), m.number()});
       }},
      {"diagonals",
       [](Model& m) {
         m.einsum("ii; i => ii", {m.param("", "3,3"), m.param("")});
       }},
      {"recurrence through a state",
       [](Model& m) {
         T h = m.state(nullptr, nullptr, "6"), x = m.data("4|3");
         m.assign(h, m.point({m.point({m.apply(m.param(), h), m.apply(m.param(), x)}), m.param()}));
       }},
  };
  return kModels;
}

}  // namespace caravan::shape
