// The unsolved relation: what ties the axes of a node's operands and result together, before any size is known.
//
// A relation has slots. A tensor attached to a slot has the slot's shape; which slot is written is the node's
// choice, so the gradient of an accumulation is the same relation with another slot written.
// A relation is only the pattern, so all additions share one; each use of it in a graph has rows of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "caravan/base/shape.h"
#include "caravan/base/source.h"
#include "caravan/shape/ast.h"

namespace caravan::shape {

struct Symbol {  // a static index; its identity is its address
  std::string name;
  int64_t range = 0;  // 0: any value
  Source where;
};
using SymbolRef = std::shared_ptr<const Symbol>;

struct DimVariable {  // a captured size; its identity is its address
  std::string name;   // of the axis or row variable that first captured it
  Source where;
};
using DimRef = std::shared_ptr<const DimVariable>;

// No axis is longer than the one, no stride, dilation or padding larger than the other: arithmetic on sizes cannot
// overflow.
inline constexpr int64_t kMaxSize = int64_t(1) << 40;
inline constexpr int64_t kMaxStep = int64_t(1) << 20;

using IteratorId = int;  // within one relation
using RowVariableId = int;

struct AxisPattern {
  enum class Kind : uint8_t { iterator, fixed, symbol, reversed, strided, window, parts, merged, gathered };
  Kind kind = Kind::iterator;
  std::vector<IteratorId> iterators;  // window: output, kernel; parts: -1 for a run
  std::vector<int64_t> runs;          // parts: length of each run, 0 for an iterator
  int64_t index = 0;                  // fixed: the index; gathered: the size if the call gives it, else 0
  int64_t stride = 1, dilation = 1, offset = 0, pad = 0;
  Padding padding = Padding::valid;
  SymbolRef symbol;  // symbol
  int slot = -1;     // gathered: the slot of the index tensor
};

struct RowPattern {
  std::vector<AxisPattern> before;
  std::optional<RowVariableId> variable;
  std::optional<RowVariableId> second;  // directly after `variable`, only in gather's result
  std::vector<AxisPattern> after;
};

struct SlotPattern {
  RowPattern rows[3];  // by RowKind
  RowPattern& operator[](RowKind kind) { return rows[int(kind)]; }
  const RowPattern& operator[](RowKind kind) const { return rows[int(kind)]; }
};

// result = join(operands), aligned at the right: the only broadcast.
struct Join {
  RowVariableId result = 0;
  std::vector<RowVariableId> operands;
  std::vector<int> slots;  // of the operands
  RowKind kind = RowKind::output;
};

// A relation with concatenations has one clause per part: the iterators and slots that take part in it.
// Without concatenations there is one clause with everything.
struct Clause {
  std::vector<bool> iterators, slots;
};

// sum of coefficient * iterator + constant >= 0
struct Inequality {
  int64_t constant = 0;
  std::vector<std::pair<IteratorId, int64_t>> parts;
  std::string text;
};

// A size the call gives: of an iterator, or (the product) of a row variable.
struct SizeOf {
  bool row = false;
  int which = 0;
};
struct SizeRule {
  SizeOf subject;
  int64_t factor = 1;
  std::variant<int64_t, SizeOf, DimRef> value;  // subject = factor * value
};

struct RowVariable {
  std::string name;  // "..." or the user's
  RowKind kind = RowKind::output;
};

struct Relation {
  std::string text;  // the spec; "" for the relations that are not written as specs
  std::vector<std::string> iterators;
  std::vector<RowVariable> row_variables;
  std::vector<SlotPattern> slots;
  int result = 0;  // the slot written by the node that made the relation
  std::vector<Join> joins;
  std::vector<SizeRule> sizes;
  std::vector<Inequality> where_;
  std::vector<Clause> clauses;
  std::vector<SizeOf> order;  // iterators and row variables, outermost first: the iterator order
  bool pointwise = false;     // true iff every row of the result is the join of the operands' rows
  bool apply = false;         // true iff the relation is w(x)
};
using RelationRef = std::shared_ptr<const Relation>;

// What a call adds to a spec.
struct SameAs {
  std::string name;
};
struct Multiple {
  int64_t factor = 1;
  std::variant<std::string, DimRef> of;
};
struct Binding {
  std::string name;                                                       // for a condition: its text, "j <= i"
  std::variant<std::monostate, int64_t, DimRef, SameAs, Multiple> value;  // monostate: a condition
};

std::string unnamed_row(RowKind kind);  // the name by which a binding reaches the row variable `...`

enum class SpecUse : uint8_t { product, concatenate };  // concatenate: each operand is a clause of its own

// Throws SpecError.
RelationRef relation_of(const SpecSyntax& spec, const std::vector<Binding>& bindings, SpecUse use, Source where);

RelationRef pointwise_relation(int operands);            // slots operands, result
RelationRef same_relation(int operands);                 // equal shapes, no broadcast; slots operands, result
RelationRef apply_relation();                            // slots w, x, result
RelationRef slice_relation(SymbolRef index);             // slots tensor, result
RelationRef stack_relation(int operands, RowKind kind);  // a new first axis; one clause per operand
// Slots table, ids, result; ids choose in the first axis of this row of the table; size 0: from the table.
RelationRef gather_relation(int64_t size, RowKind chosen = RowKind::input);

}  // namespace caravan::shape
