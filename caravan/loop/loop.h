// The loop IR: kernels as nests of loops over scalar registers. Every backend that makes code starts from here.
//
// Meaning. A kernel is a block of statements executed in order.
// * Registers. A register is a scalar of one precision. `Define` gives it its value; within one execution of the block that
//   defines it the value does not change, so a definition may be moved, duplicated or dropped as its operands allow.
//   `Reset` and `Combine` make a register an accumulator, which is the only kind that changes.
// * Loops. `For` runs its body for 0 <= variable < extent, in order if serial. Iterations of a parallel loop write disjoint
//   elements and may run on different threads; a vector loop may run several at once; an unrolled loop has no control flow.
//   All kinds compute the same bits.
// * Guards. `If` runs its body where every term is >= 0. All accesses inside the guards are in range; so a load under a
//   guard is a guarded load, and there are no values in margins.
// * Memory. Buffers do not overlap. A kernel reads what kernels before it have stored, and its own stores in program order.
// * Floating point. No contraction and no reassociation, except that a `Combine` in a loop marked `fused` may use
//   fused multiply-add. Integer arithmetic wraps.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::loop {

using Register = int;
using Variable = int;
using ir::Term;  // here: iterators are loop variables, symbols are the program's, loads are integer registers

enum class LoopKind : uint8_t { serial, parallel, vector, unrolled };
std::string_view name(LoopKind kind);

struct Constant { double value = 0; };
struct Load { ir::BufferId buffer = -1; Term offset; };       // element `offset` of a buffer in memory
struct IndexValue { Term term; };                             // an index as a number
struct RandomValue { ir::BufferId leaf = -1; Term element; Register step = -1; };
struct Apply { Op op{}; DType compute{}; Register args[3] = {-1, -1, -1}; };  // operands are converted to `compute` first
struct Cast { Register arg = -1; };                           // to the register's precision
using Value = std::variant<Constant, Load, IndexValue, RandomValue, Apply, Cast>;

struct Define { Register to = -1; Value value; };
struct Reset { Register to = -1; double value = 0; };
struct Combine { Register to = -1; Accumulator accumulator{}; Register value = -1; };
// The first winner: if nothing won yet or `value` beats `best`, best = value and position = term.
struct CombineFirst { Register best = -1, position = -1; Accumulator accumulator{}; Register value = -1; Term term; };
struct Store { ir::BufferId buffer = -1; Term offset; Register value = -1; };
struct StoreCombine { ir::BufferId buffer = -1; Term offset; Accumulator accumulator{}; Register value = -1; };

// The first winner in memory; -1 in `positions` means that nothing won yet.
struct StoreFirst { ir::BufferId positions = -1, best = -1; Term offset; Accumulator accumulator{}; Register value = -1; Term term; };

struct For;
struct If;
using Statement = std::variant<Define, Reset, Combine, CombineFirst, Store, StoreCombine, StoreFirst, For, If>;
using Block = std::vector<Statement>;

struct For { Variable variable = -1; int64_t extent = 0; LoopKind kind = LoopKind::serial; Block body; };
struct If { std::vector<Term> where; Block body; };

struct Kernel {
  std::string name;
  std::vector<std::string> comments;      // the accumulations it came from
  std::vector<std::string> variables;     // names of loop variables
  std::vector<DType> registers;           // precision of each register
  Block body;
};

struct Module {
  ir::Program program;                    // buffers and symbols; its accumulations are the kernels now
  std::vector<Kernel> kernels;            // in order
};

std::string to_string(const Module& module, const Kernel& kernel);
std::string to_string(const Module& module);

// Throws InternalError naming the kernel if a register is read before it is defined, has two definitions, if precisions
// do not fit, or if a variable is used outside its loop.
void verify(const Module& module);

}  // namespace caravan::loop
