#include "caravan/shape/system.h"

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"

namespace caravan::shape {

OriginId System::add_origin(std::string text, Source where, std::string call) {
  origins.push_back({std::move(text), where, std::move(call)});
  return OriginId(origins.size()) - 1;
}
RowId System::add_row(RowKind kind, OriginId origin, Owner owner) {
  rows.push_back({origin, kind, owner});
  return RowId(rows.size()) - 1;
}
AxisId System::add_axis(std::string name, OriginId origin) {
  axes.push_back({std::move(name), origin});
  return AxisId(axes.size()) - 1;
}
AxisId System::axis_of(const DimRef& dim) {
  auto [at, added] = dims.try_emplace(dim, -1);
  if (added) at->second = add_axis(dim->name, add_origin("the captured size `" + dim->name + "`", dim->where));
  return at->second;
}

Instance System::instantiate(const Relation& relation, const std::vector<Role>& roles, OriginId origin) {
  Instance out;
  for (const std::string& name : relation.iterators) out.iterators.push_back(add_axis(name, origin));
  for (const RowVariable& variable : relation.row_variables)
    out.row_variables.push_back(add_row(variable.kind, origin));
  for (size_t s = 0; s < relation.slots.size(); ++s) {
    std::array<RowId, 3> rows_of_slot{};
    for (RowKind kind : kRowKinds) {
      const RowPattern& pattern = relation.slots[s][kind];
      RowId row = rows_of_slot[size_t(kind)] = add_row(kind, origin);
      Equation equation{row, {}, -1, -1, {}, origin};
      bool in_result = int(s) == relation.result;
      for (const AxisPattern& axis_pattern : pattern.before)
        equation.before.push_back(axis(relation, axis_pattern, out, in_result, origin));
      if (pattern.variable) equation.variable = out.row_variables[size_t(*pattern.variable)];
      if (pattern.second) equation.second = out.row_variables[size_t(*pattern.second)];
      for (const AxisPattern& axis_pattern : pattern.after)
        equation.after.push_back(axis(relation, axis_pattern, out, in_result, origin));
      equations.push_back(std::move(equation));
    }
    out.slots.push_back(rows_of_slot);
  }
  for (const Join& join : relation.joins) {
    JoinConstraint constraint{out.row_variables[size_t(join.result)], {}, {}, join.kind, origin};
    for (RowVariableId v : join.operands) constraint.operands.push_back(out.row_variables[size_t(v)]);
    for (int slot : join.slots) constraint.roles.push_back(roles[size_t(slot)]);
    joins.push_back(std::move(constraint));
  }
  auto axis_for = [&](const SizeOf& of) {
    if (!of.row) return out.iterators[size_t(of.which)];
    AxisId whole = add_axis(relation.row_variables[size_t(of.which)].name, origin);
    Arithmetic product;
    product.kind = Arithmetic::Kind::row_product;
    product.whole = whole, product.row = out.row_variables[size_t(of.which)], product.origin = origin;
    arithmetic.push_back(product);
    return whole;
  };
  for (const SizeRule& rule : relation.sizes) {
    AxisId subject = axis_for(rule.subject);
    if (auto* number = std::get_if<int64_t>(&rule.value)) {
      size(subject, *number, origin);
      continue;
    }
    auto* of = std::get_if<SizeOf>(&rule.value);
    AxisId value = of ? axis_for(*of) : axis_of(std::get<DimRef>(rule.value));
    if (rule.factor == 1) {
      equalities.push_back({subject, value, origin});
    } else {
      Arithmetic factor;
      factor.kind = Arithmetic::Kind::product;
      factor.whole = subject, factor.parts = {value}, factor.factor = rule.factor, factor.origin = origin;
      arithmetic.push_back(factor);
    }
  }
  return out;
}

AxisId System::axis(const Relation& relation, const AxisPattern& pattern, const Instance& instance, bool in_result,
                    OriginId origin) {
  using Kind = AxisPattern::Kind;
  auto iterator = [&](size_t i) {
    return pattern.iterators[i] < 0 ? -1 : instance.iterators[size_t(pattern.iterators[i])];
  };
  if (pattern.kind == Kind::iterator || pattern.kind == Kind::reversed) return iterator(0);

  std::string name;
  for (size_t i = 0; i < pattern.iterators.size(); ++i) {
    if (i) name += pattern.kind == Kind::parts ? "^" : pattern.kind == Kind::merged ? "&" : "+";
    name +=
        pattern.iterators[i] < 0 ? std::to_string(pattern.runs[i]) : relation.iterators[size_t(pattern.iterators[i])];
  }
  AxisId whole = add_axis(name, origin);
  Arithmetic rule;
  rule.whole = whole, rule.in_result = in_result, rule.origin = origin;
  rule.stride = pattern.stride, rule.dilation = pattern.dilation, rule.offset = pattern.offset;
  rule.pad = pattern.pad, rule.padding = pattern.padding, rule.runs = pattern.runs;
  for (size_t i = 0; i < pattern.iterators.size(); ++i) rule.parts.push_back(iterator(i));
  switch (pattern.kind) {
    case Kind::fixed: indices.push_back({whole, pattern.index, in_result, false, origin}); return whole;
    case Kind::symbol:
      if (pattern.symbol->range > 0) indices.push_back({whole, pattern.symbol->range - 1, false, true, origin});
      return whole;
    case Kind::gathered:
      if (pattern.index > 0) size(whole, pattern.index, origin);
      return whole;
    case Kind::strided: rule.kind = Arithmetic::Kind::strided; break;
    case Kind::window: rule.kind = Arithmetic::Kind::window; break;
    case Kind::parts: rule.kind = Arithmetic::Kind::sum; break;
    case Kind::merged: rule.kind = Arithmetic::Kind::product; break;
    case Kind::iterator:
    case Kind::reversed: break;
  }
  arithmetic.push_back(rule);
  return whole;
}

Row Solution::row(RowId row) const {
  Row out;
  for (int c : row_axes[size_t(row)]) {
    const Class& axis = classes[size_t(c)];
    out.push_back(Axis(axis.size, axis.basis));
    out.back().broadcastable = axis.broadcastable;
  }
  return out;
}

std::string to_string(const System& system) {
  std::string out;
  auto origin = [&](OriginId id) {
    const Origin& o = system.origins[size_t(id)];
    return "   # " + o.text + (o.where.known() ? ", " + to_string(o.where) : "") + "\n";
  };
  auto row = [&](RowId id) {
    return (id < 0 ? "-" : std::string(name(system.rows[size_t(id)].kind)).substr(0, 1) + std::to_string(id));
  };
  auto axis = [&](AxisId id) { return system.axes[size_t(id)].first + "'" + std::to_string(id); };
  for (const KnownRow& k : system.known) {
    Shape shape;
    shape.output = k.axes;
    out += row(k.row) + " = [" + to_string(shape) + "]" + origin(k.origin);
  }
  for (const Equation& e : system.equations) {
    out += row(e.row) + " =";
    for (AxisId a : e.before) out += " " + axis(a);
    if (e.variable >= 0) out += " .." + row(e.variable) + "..";
    if (e.second >= 0) out += " .." + row(e.second) + "..";
    for (AxisId a : e.after) out += " " + axis(a);
    out += origin(e.origin);
  }
  for (const JoinConstraint& j : system.joins) {
    out += row(j.result) + " = join(" + joined(j.operands, ", ", row) + ")" + origin(j.origin);
  }
  for (const SizeFact& s : system.sizes) out += axis(s.axis) + " = " + std::to_string(s.size) + origin(s.origin);
  for (const AxisEquality& e : system.equalities) out += axis(e.a) + " = " + axis(e.b) + origin(e.origin);
  for (const IndexFact& i : system.indices)
    out += axis(i.axis) +
           (i.written ? " is written at "
            : i.range ? " is sliced up to "
                      : " is read at ") +
           std::to_string(i.index) + origin(i.origin);
  for (const Arithmetic& a : system.arithmetic) {
    out += axis(a.whole) + " = ";
    switch (a.kind) {
      case Arithmetic::Kind::window:
        out += std::to_string(a.stride) + "*" + axis(a.parts[0]) + " + " + std::to_string(a.dilation) + "*" +
               axis(a.parts[1]) + (a.padding == Padding::same ? " same" : " padded by " + std::to_string(a.pad)) +
               (a.in_result ? " in a result" : "");
        break;
      case Arithmetic::Kind::strided:
        out += std::to_string(a.stride) + "*" + axis(a.parts[0]) + " + " + std::to_string(a.offset);
        break;
      case Arithmetic::Kind::sum:
        for (size_t i = 0; i < a.parts.size(); ++i)
          out += (i ? " + " : "") + (a.parts[i] < 0 ? std::to_string(a.runs[i]) : axis(a.parts[i]));
        break;
      case Arithmetic::Kind::product:
        out += std::to_string(a.factor);
        for (AxisId p : a.parts) out += " * " + axis(p);
        break;
      case Arithmetic::Kind::row_product: out += "product of " + row(a.row); break;
    }
    out += origin(a.origin);
  }
  return out;
}

}  // namespace caravan::shape
