// Operations over a spec: the einsum family, concatenations and reductions.
#include <set>

#include "caravan/base/error.h"
#include "caravan/ops/table.h"
#include "caravan/tensor/operands.h"

namespace caravan {

namespace {

shape::DimRef dim_variable(const Dim& dim, const std::string& name, Source where) {
  Dim::State& state = *dim.state();
  if (state.variable->name.empty()) state.variable->name = name, state.variable->where = where;
  return state.variable;
}

std::vector<shape::Binding> to_bindings(const Bindings& bindings, Source where) {
  using Kind = BindingArgument::Kind;
  std::vector<shape::Binding> out;
  for (const BindingArgument& b : bindings.list) {
    switch (b.kind) {
      case Kind::size: out.push_back({b.name, b.size}); break;
      case Kind::dim:
        if (b.dim.state()->size >= 0)
          out.push_back({b.name, b.dim.state()->size});
        else
          out.push_back({b.name, dim_variable(b.dim, b.name, where)});
        break;
      case Kind::same: out.push_back({b.name, shape::SameAs{b.other}}); break;
      case Kind::multiple: out.push_back({b.name, shape::Multiple{b.size, b.other}}); break;
      case Kind::multiple_dim:
        if (b.dim.state()->size >= 0)
          out.push_back({b.name, b.size * b.dim.state()->size});
        else
          out.push_back({b.name, shape::Multiple{b.size, dim_variable(b.dim, b.name, where)}});
        break;
      case Kind::condition: out.push_back({b.name, std::monostate{}}); break;
    }
  }
  return out;
}

// One node per clause, joined by the accumulator's op; captured sizes remember the node that knows them.
Tensor over_spec(Accumulator accumulator, ir::Body body, SpecRef spec, const std::vector<Operand>& operands,
                 const Bindings& bindings, shape::SpecUse use, std::string label, bool counts_reduced = false,
                 bool writes_once = false) {
  Source where = spec.where.known() ? spec.where : operands[0].where;
  if (use == shape::SpecUse::product) check_numbers(operands, accumulator);
  shape::SpecSyntax syntax = shape::parse_spec(spec.text);
  shape::RelationRef relation = shape::relation_of(syntax, to_bindings(bindings, where), use, where);
  auto link = link_to(relation, where);
  std::vector<Tensor> sources;  // of sizes captured elsewhere and used here
  for (const BindingArgument& b : bindings.list)
    if (b.dim.state()->source.defined()) sources.push_back(b.dim.state()->source);

  auto shared_body = shared(std::move(body));
  std::vector<Tensor> parts;
  for (size_t c = 0; c < relation->clauses.size(); ++c) {
    auto clause_body = use == shape::SpecUse::product ? shared_body : [&] {  // concatenation: clause c is operand c
      ir::Body load;
      load.finish(load.load(int(c)));
      return shared(std::move(load));
    }();
    Tensor part =
        use == shape::SpecUse::product && !writes_once
            ? make_accumulate(link, int(c), accumulator, clause_body, attach(operands), relation->result, label, where)
            : make_store(link, int(c), clause_body, attach(operands), relation->result, label, where);
    if (!sources.empty() || counts_reduced) {
      auto node = std::make_shared<Node>(part.node());
      node->shape_operands = sources;
      std::get<AccumulateNode>(node->kind).counts_reduced = counts_reduced;
      part = Tensor(std::move(node));
    }
    parts.push_back(part);
  }
  for (const BindingArgument& b : bindings.list)
    if (b.dim.state()->size < 0 && !b.dim.state()->source.defined()) b.dim.state()->source = parts[0];
  if (parts.size() == 1) return parts[0];
  if (!row(accumulator).op)
    throw SpecError("spec \"" + relation->text + "\"" + where_text(where) + ": " + std::string(row(accumulator).name) +
                        " cannot run over the parts of a concatenation.",
                    where);
  return fold_same(*row(accumulator).op, parts, label, where);
}

ir::Body nonzero_body() {
  ir::Body body;
  int args[2] = {body.load(0), body.constant(0)};
  body.finish(body.apply(Op::ne, args));
  return body;
}

}  // namespace

void check_operand_count(SpecRef spec, int operands) {
  const WrittenAt at(spec.where);
  int given = shape::parse_spec(spec.text).operands();
  if (operands < 0 || given == operands) return;
  throw SpecError("spec \"" + std::string(spec.text) + "\"" + where_text(spec.where) + " has " + std::to_string(given) +
                      " shapes before `=>`, but the call has " + std::to_string(operands) +
                      (operands == 1 ? " operand." : " operands."),
                  spec.where);
}

Tensor accumulate(Op op, SpecRef spec, const std::vector<Operand>& operands, const Bindings& bindings) {
  return over_spec(Accumulator::add, ir::Body::op(op), spec, operands, bindings, shape::SpecUse::product,
                   std::string(row(op).name));
}

Tensor with_slice(const Tensor& whole, const Index& at, Operand slice, const std::string& axis,
                  const std::string& slice_axes, const std::string& whole_axes, const Tensor& bound) {
  const Source where = slice.where;
  const Operand all(whole, where);
  Dim size;
  einsum(spec(whole_axes + " => " + axis, where), all, {{axis, size}});
  ir::Body body;  // where(position == at, slice, whole)
  const int here[] = {body.load(0), body.load(1)};
  const int chosen[] = {body.apply(Op::eq, here), body.load(2), body.load(3)};
  body.finish(body.apply(Op::where, chosen));
  std::vector<Operand> operands = {Operand(iota(size, where), where), Operand(at, where), slice, all};
  std::string written = axis + ";; " + slice_axes + "; " + whole_axes;
  if (bound.defined()) operands.emplace_back(bound, where), written += "; " + slice_axes;  // the body does not read it
  written += " => " + whole_axes;
  return over_spec(Accumulator::add, std::move(body), {written, where}, operands, {}, shape::SpecUse::product, "update",
                   false, true);
}

namespace {
Tensor products(Accumulator accumulator, SpecRef spec, const std::vector<Operand>& operands, const Bindings& bindings,
                const char* label) {
  return over_spec(accumulator, fold_body(Op::mul, int(operands.size())), spec, operands, bindings,
                   shape::SpecUse::product, label);
}

// Does every element of the result come from at most one of the operand, so that nothing is added up? So it is where
// the result has every name of the operand, and each place of the result is written by one combination of them.
bool only_moves(const shape::SpecSyntax& syntax) {
  auto variable = [](RowKind kind, const shape::RowSyntax& row) {
    return row.variable.empty() ? shape::unnamed_row(kind) : std::string(row.variable);
  };
  std::set<std::string> in_result;
  for (RowKind kind : kRowKinds) {
    const shape::RowSyntax& row = syntax.result().rows[int(kind)];
    if (row.open) in_result.insert(variable(kind, row));
    for (auto axes : {syntax.before(row), syntax.after(row)})
      for (const shape::AxisSyntax& axis : axes) {
        int named = 0;
        for (int i = 0; i < axis.count; ++i)
          if (!axis.names[size_t(i)].empty()) in_result.emplace(axis.names[size_t(i)]), ++named;
        using Kind = shape::AxisSyntax::Kind;
        if (axis.kind == Kind::window) return false;              // positions of the kernel may write to one place
        if (axis.kind == Kind::parts && named > 1) return false;  // each part sums over the other's name
      }
  }
  for (RowKind kind : kRowKinds) {
    const shape::RowSyntax& row = syntax.shapes[0].rows[int(kind)];
    if (row.open && !in_result.count(variable(kind, row))) return false;
    for (auto axes : {syntax.before(row), syntax.after(row)})
      for (const shape::AxisSyntax& axis : axes) {
        if (axis.kind == shape::AxisSyntax::Kind::anonymous) return false;
        for (int i = 0; i < axis.count; ++i)
          if (!axis.names[size_t(i)].empty() && !in_result.count(std::string(axis.names[size_t(i)]))) return false;
      }
  }
  return true;
}
}  // namespace

Tensor einsum(Spec<1> spec, Operand a, const Bindings& bindings) {
  const SpecRef ref = spec.syntax_ref();
  return over_spec(Accumulator::add, ir::Body::identity(), ref, {a}, bindings, shape::SpecUse::product, "einsum", false,
                   only_moves(shape::parse_spec(ref.text)));
}
Tensor einsum(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return products(Accumulator::add, spec.syntax_ref(), {a, b}, bindings, "einsum");
}
Tensor einsum(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return products(Accumulator::add, spec.syntax_ref(), {a, b, c}, bindings, "einsum");
}
Tensor einmax(Spec<1> spec, Operand a, const Bindings& bindings) {
  return products(Accumulator::max, spec.syntax_ref(), {a}, bindings, "einmax");
}
Tensor einmax(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return products(Accumulator::max, spec.syntax_ref(), {a, b}, bindings, "einmax");
}
Tensor einmax(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return products(Accumulator::max, spec.syntax_ref(), {a, b, c}, bindings, "einmax");
}
Tensor einmin(Spec<1> spec, Operand a, const Bindings& bindings) {
  return products(Accumulator::min, spec.syntax_ref(), {a}, bindings, "einmin");
}
Tensor einmin(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return products(Accumulator::min, spec.syntax_ref(), {a, b}, bindings, "einmin");
}
Tensor einmin(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return products(Accumulator::min, spec.syntax_ref(), {a, b, c}, bindings, "einmin");
}
Tensor einprod(Spec<1> spec, Operand a, const Bindings& bindings) {
  return products(Accumulator::mul, spec.syntax_ref(), {a}, bindings, "einprod");
}
Tensor einany(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::or_, nonzero_body(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "einany");
}
Tensor einall(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::and_, nonzero_body(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "einall");
}
Tensor tropical(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return over_spec(Accumulator::max, ir::Body::op(Op::add), spec.syntax_ref(), {a, b}, bindings,
                   shape::SpecUse::product, "tropical");
}
Tensor outer_sum(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return accumulate(Op::add, spec.syntax_ref(), {a, b}, bindings);
}
Tensor argmax(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::argmax, ir::Body::identity(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "argmax", true);
}
Tensor argmin(Spec<1> spec, Operand a, const Bindings& bindings) {
  return over_spec(Accumulator::argmin, ir::Body::identity(), spec.syntax_ref(), {a}, bindings, shape::SpecUse::product,
                   "argmin", true);
}

namespace {
Tensor concatenate(SpecRef spec, const std::vector<Operand>& parts, const Bindings& bindings) {
  return over_spec(Accumulator::add, {}, spec, parts, bindings, shape::SpecUse::concatenate, "concat");
}
}  // namespace
Tensor concat(Spec<2> spec, Operand a, Operand b, const Bindings& bindings) {
  return concatenate(spec.syntax_ref(), {a, b}, bindings);
}
Tensor concat(Spec<3> spec, Operand a, Operand b, Operand c, const Bindings& bindings) {
  return concatenate(spec.syntax_ref(), {a, b, c}, bindings);
}
Tensor concat(Spec<-1> spec, const std::vector<Tensor>& parts, const Bindings& bindings) {
  SpecRef ref = spec.syntax_ref();
  check_operand_count(ref, int(parts.size()));
  std::vector<Operand> operands;
  for (const Tensor& t : parts) operands.push_back(Operand(t, ref.where));
  return concatenate(ref, operands, bindings);
}

namespace {
// The names of one shape of a spec; a row variable without a name has the one that bindings know it by.
std::set<std::string> names_in(const shape::SpecSyntax& syntax, const shape::ShapeSyntax& in, SpecRef spec) {
  std::set<std::string> out;
  for (RowKind kind : kRowKinds) {
    const shape::RowSyntax& row = in.rows[int(kind)];
    if (row.open) out.insert(row.variable.empty() ? shape::unnamed_row(kind) : std::string(row.variable));
    for (auto axes : {syntax.before(row), syntax.after(row)})
      for (const shape::AxisSyntax& axis : axes) {
        if (axis.kind == shape::AxisSyntax::Kind::anonymous)
          throw SpecError("spec \"" + std::string(spec.text) + "\"" + where_text(spec.where) +
                              ": a mean needs the sizes of the axes it reduces; give `_` a name.",
                          spec.where);
        for (int i = 0; i < axis.count; ++i)
          if (!axis.names[size_t(i)].empty()) out.insert(std::string(axis.names[size_t(i)]));
      }
  }
  return out;
}
// What a mean adds up: the sum of many integers need not be one of i32.
Operand in_floats(Operand a) {
  return is_float(a.tensor.dtype()) || a.tensor.node().weak ? a : Operand(cast(a, DType::f32), a.where);
}
struct Summed {
  Tensor total, count;
};
Summed summed(Spec<1> spec, Operand a, Bindings bindings) {
  const SpecRef ref = spec.syntax_ref();
  const shape::SpecSyntax syntax = shape::parse_spec(ref.text);
  std::set<std::string> reduced = names_in(syntax, syntax.shapes[0], ref);
  for (const std::string& kept : names_in(syntax, syntax.result(), ref)) reduced.erase(kept);
  std::vector<Dim> sizes(reduced.size());
  size_t i = 0;
  for (const std::string& name : reduced) bindings.list.push_back({name, sizes[i++]});
  Summed out{einsum(spec, a, bindings).named("sum"), Operand(1, a.where).tensor};
  for (const Dim& size : sizes) out.count = Operand(out.count, a.where) * Operand(size, a.where);
  return out;
}
}  // namespace

Tensor mean(Spec<1> spec, Operand a, const Bindings& bindings) {
  const Summed s = summed(spec, in_floats(a), bindings);
  return (Operand(s.total, a.where) / s.count).named("mean");
}
Tensor count(Spec<1> spec, Operand a, const Bindings& bindings) { return summed(spec, a, bindings).count; }

// --- reductions ---
namespace {
constexpr const char* kAll = "...|...->... => ";
}
Tensor sum(Operand a) { return einsum(spec(kAll, a.where), a).named("sum"); }
Tensor mean(Operand a) {
  a = in_floats(a);
  Dim batch, input, output;
  Tensor total =
      einsum(spec("..b..|..i..->..o.. => ", a.where), a, {{"b", batch}, {"i", input}, {"o", output}}).named("sum");
  return (Operand(total, a.where) / (Operand(batch, a.where) * Operand(input, a.where) * Operand(output, a.where)))
      .named("mean");
}
Tensor sum(Spec<1> spec, Operand a, const Bindings& bindings) { return einsum(spec, a, bindings).named("sum"); }
Tensor product(Spec<1> spec, Operand a, const Bindings& bindings) {
  return einprod(spec, a, bindings).named("product");
}
Tensor largest(Spec<1> spec, Operand a, const Bindings& bindings) { return einmax(spec, a, bindings).named("largest"); }
Tensor smallest(Spec<1> spec, Operand a, const Bindings& bindings) {
  return einmin(spec, a, bindings).named("smallest");
}
Tensor product(Operand a) { return einprod(spec(kAll, a.where), a).named("product"); }
Tensor largest(Operand a) { return einmax(spec(kAll, a.where), a).named("largest"); }
Tensor smallest(Operand a) { return einmin(spec(kAll, a.where), a).named("smallest"); }
Tensor dot(Operand a, Operand b) {
  const Call call = Call::function("dot", {{"a", a}, {"b", b}});
  return einsum(spec("...|...->...; ...|...->... => ", a.where), a, b).named("dot");
}

}  // namespace caravan
