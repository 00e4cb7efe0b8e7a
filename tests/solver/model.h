// Systems of constraints, built directly: those that a graph of tensors would give.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "caravan/shape/parse.h"
#include "caravan/shape/system.h"

namespace caravan::shape {

struct T {
  std::array<RowId, 3> rows{};
  Role role = Role::other;
};

class Model {
 public:
  System system;

  T data(const char* shape) {
    const Shape s = parse_shape(shape);
    return known("data " + std::string(shape), s, Role::other);
  }
  T stretching(const char* shape) {  // its axes of size 1 may stretch
    Shape s = parse_shape(shape);
    for (RowKind kind : kRowKinds)
      for (Axis& axis : s[kind]) axis.broadcastable = axis.size == 1;
    return known("stretching " + std::string(shape), s, Role::other);
  }
  T number() { return known("number", {}, Role::number); }
  // Rows that are not given (nullptr) are open; of a parameter the batch row is empty.
  T param(const char* input = nullptr, const char* output = nullptr, const char* batch = "") {
    return leaf(Owner::parameter, batch, input, output);
  }
  T state(const char* batch = nullptr, const char* input = nullptr, const char* output = nullptr) {
    return leaf(Owner::state, batch, input, output);
  }

  T point(const std::vector<T>& operands) {
    Role role = Role::number;
    for (const T& t : operands) {
      if (t.role == Role::other || role == Role::other)
        role = Role::other;
      else if (t.role == Role::image || (t.role == Role::leaf && role == Role::number))
        role = t.role;
    }
    return use("pointwise", pointwise_relation(int(operands.size())), operands, role);
  }
  T apply(const T& w, const T& x) { return use("w(x)", apply_relation(), {w, x}, Role::image); }
  T einsum(const char* spec, const std::vector<T>& operands, const std::vector<Binding>& bindings = {}) {
    return use(spec, relation_of(parse_spec(spec), bindings, SpecUse::product, {}), operands, Role::other);
  }
  T concat(const char* spec, const std::vector<T>& operands) {
    return use(spec, relation_of(parse_spec(spec), {}, SpecUse::concatenate, {}), operands, Role::other);
  }
  T slice(const T& t, int64_t range) {
    return use("slice", slice_relation(std::make_shared<const Symbol>(Symbol{"i", range, {}})), {t}, Role::other);
  }
  T stack(const std::vector<T>& operands, RowKind kind) {
    return use("stack", stack_relation(int(operands.size()), kind), operands, Role::other);
  }
  T gather(const T& table, const T& ids, RowKind positions = RowKind::input) {
    return use("gather", gather_relation(0, positions), {table, ids}, Role::other);
  }
  T same(const std::vector<T>& operands) {
    return use("same", same_relation(int(operands.size())), operands, Role::other);
  }
  void assign(const T& state, const T& value) {
    const OriginId origin = system.add_origin("assignment", {});
    for (size_t k = 0; k < 3; ++k) system.equate(state.rows[k], value.rows[k], origin);
  }
  // What models are made of.
  T kept_mean(const T& x) { return point({einsum("...|...->... => ...|...->0", {x}), number()}); }
  T layer(const T& x, const char* output = nullptr) {
    return point({point({apply(param(nullptr, output), x), param()}), number()});
  }

 private:
  T known(const std::string& text, const Shape& shape, Role role) {
    T out{{}, role};
    const OriginId origin = system.add_origin(text, {});
    for (RowKind kind : kRowKinds) {
      out.rows[size_t(kind)] = system.add_row(kind, origin);
      system.know(out.rows[size_t(kind)], shape[kind], origin);
    }
    return out;
  }
  T leaf(Owner owner, const char* batch, const char* input, const char* output) {
    T out{{}, Role::leaf};
    const OriginId origin = system.add_origin("p" + std::to_string(++leaves_), {});
    const char* given[] = {batch, input, output};
    for (RowKind kind : kRowKinds) {
      out.rows[size_t(kind)] = system.add_row(kind, origin, owner);
      if (const char* text = given[int(kind)]) system.know(out.rows[size_t(kind)], parse_shape(text).output, origin);
    }
    return out;
  }
  T use(const std::string& text, const RelationRef& relation, const std::vector<T>& operands, Role role) {
    const OriginId origin = system.add_origin(text, {});
    std::vector<Role> roles;
    for (const T& t : operands) roles.push_back(t.role);
    roles.push_back(Role::other);
    const Instance instance = system.instantiate(*relation, roles, origin);
    for (size_t s = 0; s < operands.size(); ++s)
      for (size_t k = 0; k < 3; ++k) system.equate(operands[s].rows[k], instance.slots[s][k], origin);
    return {instance.slots.back(), role};
  }
  int leaves_ = 0;
};

struct NamedModel {
  const char* what;
  std::function<void(Model&)> build;
};
const std::vector<NamedModel>& solvable_models();
const std::vector<NamedModel>& refused_models();

}  // namespace caravan::shape
