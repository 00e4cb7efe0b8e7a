// The intermediate representation between the front (tensors, inference, gradients) and the back (loops, devices).
//
// Meaning. A program is a list of accumulations followed by simultaneous assignments to state.
//
//     for i in D:   y[L(i)]  (+)=  body( a[A(i)], b[B(i)], ... )
//
// * Buffers. A buffer is a leaf (state, data, number, ...), or is written by exactly one accumulation, or is written by
//   several that are marked `part`: each writes a slice of it, and together they write every element once.
//   Accumulations are in an order in which operands come before their readers, and `after` before what names it.
// * Domain. D is the box of the iterators, restricted to the points where every term of `where` is >= 0. Inside D every
//   read and write is in range: the verifier proves it from intervals and `where`. Only terms with a load (an index
//   tensor) are checked at run time; a point where one is out of range contributes nothing.
// * Initial value. Before its accumulation every element of y holds the accumulator's neutral element.
// * Order. Points of D may be visited in any order, except that argmax and argmin keep the first winner in iterator
//   order (the last iterator runs fastest) and that compiled code adds the terms of a floating-point sum in the order
//   that `SumOrder` states.
// * Precision. Operands are read at their buffer's precision, the body computes as type_of says, the total is kept in
//   at least the precision of y. The interpreter computes floats in double, whatever the precision.
// * State. All accumulations read the old state; then all assignments take effect.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "caravan/array/array.h"
#include "caravan/base/source.h"
#include "caravan/ir/body.h"
#include "caravan/ir/index.h"

namespace caravan::ir {

using BufferId = int;

struct StateLeaf {            // kept by the Context under the buffer's name
  bool of_optimizer = false;  // it is what an optimiser remembers of a weight
};
struct DataLeaf {
  Array array;                     // of the buffer's sizes and precision
  std::optional<double> number{};  // a scalar before it was rounded to that precision, for the interpreter
};
struct NumberLeaf {
  double value = 0;
};
struct SymbolLeaf {
  int symbol = 0;
};                   // the value of a static index
struct IotaLeaf {};  // the position along the only axis
// The top `width` bits of one of the element's four random words (base/random.h), that with index `lane`.
struct RandomLeaf {
  std::string stream;  // the name of the stream: with the Context's seed and the step it determines the random words
  int lane = 0, width = 32;
  BufferId step = -1;  // a scalar buffer with the step number
};
struct Computed {};  // written by an accumulation

using BufferKind = std::variant<StateLeaf, DataLeaf, NumberLeaf, SymbolLeaf, IotaLeaf, RandomLeaf, Computed>;

struct Buffer {
  std::string name;  // unique in the program
  Shape shape;
  DType dtype = DType::f32;
  BufferKind kind;
  Source where;
};

// True for states, data and what an accumulation writes. Other leaves are computed where they are read.
bool in_memory(const Buffer& buffer);

struct Operand {
  BufferId buffer = -1;
  std::vector<Term> map;  // one term per axis, in memory order
  bool operator==(const Operand&) const = default;
};

// The order in which compiled code adds the terms of one element's floating-point sum, which decides how the sum
// rounds. optimize/split_sums chooses it once, before any optimisation, from the accumulation alone. So no pass, number
// of threads or observed tensor changes a bit of a result.
//
// A sum without a stated order is one chain of additions: the reduced iterators are nested loops, the last one
// innermost. The rounding error of a chain grows with its length, and so a long sum is cut into blocks. `y += x[k]`
// over k < 1000 in blocks of 50 is
//
//     for kb < 20:  block = 0;  for ki < 50: block += x[50*kb + ki];  y += block
//
// Blocks of blocks make a cascade: chains stay short at every level, so the error grows with the logarithm of the
// number of terms. If the block size does not divide the extent, the last block is shorter. Values that are added into
// memory element by element (a write map that is not injective) have no stated order.
struct SumOrder {
  // Lanes are partial sums that are computed at the same time, as elements of a vector. Along one iterator, the terms
  // with index l, l + width, l + 2*width, ... are added to lane l; at the end the lanes are added to the total, lane 0
  // first. That iterator is the innermost loop. If its extent is a multiple of the width, a lane sums over all reduced
  // iterators; if not, the lanes are added to the total whenever the innermost loop ends.
  int lanes = -1;     // the iterator; -1: no lanes
  int64_t width = 0;  // number of lanes
  // Every `size` consecutive values of the iterator, with all loops inside, have a sum of their own, which is then
  // added to the sum of the next larger block. The list goes from the innermost block to the largest.
  struct Block {
    int iterator = -1;
    int64_t size = 0;
    bool operator==(const Block&) const = default;
  };
  std::vector<Block> blocks;
  // The body is a product, and each product is added by a fused multiply-add, which rounds once: sum = fma(a, b, sum).
  bool fused = false;
  bool operator==(const SumOrder&) const = default;
};

// In a program that several devices of a mesh run together (caravan/mesh): the accumulation computes nothing. Its
// operand has a value on each device, and the target gets all of them, or a slice of all of them. The devices are those
// along one axis of the mesh.
struct Collective {
  enum class Kind : uint8_t {
    all_reduce,      // target = the operands of all devices, combined by the accumulator
    all_gather,      // the operand of device d is slice d of the target
    reduce_scatter,  // target of device d = slice d of the operands of all devices, combined by the accumulator
  } kind{};
  int mesh_axis = 0;
  bool operator==(const Collective&) const = default;
};
std::string_view name(Collective::Kind kind);

struct Accumulation {
  BufferId target = -1;
  Accumulator accumulator{};
  std::vector<std::string> iterators;  // names, outermost first
  std::vector<int64_t> extents;
  std::vector<Term> where;  // each >= 0
  std::vector<Term> write;  // one term per axis of the target, in memory order
  std::vector<Operand> operands;
  Body body;
  // For argmax and argmin: by iterator, does it count in the linear position that is kept? Empty for other
  // accumulators. The target is i32 or i64, or u8 if there are at most 255 positions, each element has one, and so none
  // gets -1.
  std::vector<bool> counted;
  SumOrder order;
  // By iterator, the extents from which optimize/split_sums chooses the order; empty: `extents`. In a program that is
  // divided over devices (caravan/mesh) these are the extents of the whole program, so that the order does not depend
  // on the number of devices.
  std::vector<int64_t> chosen_by{};
  bool part = false;  // writes a slice of the target; other accumulations write the rest
  // A buffer that must be computed before this accumulation runs, although it is not read; -1: none. So a value that is
  // computed again to save memory (optimize/rematerialise.h) is not computed too early.
  BufferId after = -1;
  std::optional<Collective> collective{};
  std::string label;  // what the user wrote: an op or a spec
  Source source;
};

struct Symbol {
  std::string name;
  int64_t range = 0;  // 0: any value >= 0
};

struct Assignment {
  BufferId state = -1, value = -1;
};

// An axis of a buffer is divided over the devices along an axis of a mesh (caravan/mesh). Before a program is divided,
// what the user asked for; after that, what holds.
struct Placement {
  BufferId buffer = -1;
  size_t axis = 0;  // in memory order
  std::string mesh_axis;
};

struct Program {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<Buffer> buffers;
  std::vector<Accumulation> accumulations;
  std::vector<Assignment> assignments;
  std::vector<BufferId> observed;
  std::vector<Placement> placements{};
};

// One line for each accumulation, in the notation above. See print.cpp for examples.
std::string to_string(const Program& program);
std::string to_string(const Program& program, const Accumulation& accumulation);

// Of a collective that gathers or scatters an axis: a slice of the whole consists of so many stripes, one for each
// position of the axes before that one. In memory the stripes of all devices take turns. 1 for an all_reduce.
int64_t stripes_of_slice(const Program& program, const Accumulation& accumulation);

// Structural equality, without names, labels and source lines. Buffers are compared by their sizes and precision, and
// by which operands are the same buffer. So two layers of the same form are equal.
bool equal(const Program& p, const Accumulation& a, const Program& q, const Accumulation& b);
size_t hash(const Program& program, const Accumulation& accumulation);

// The first invariant of this header that does not hold: "accumulation `..` reads `x` out of range: ..".
std::optional<std::string> problem(const Program& program);
void verify(const Program& program);  // throws InternalError if there is a problem
// Could the verifier prove that the accumulation, with this operand, reads it in range?
bool reads_in_range(const Program& program, const Accumulation& accumulation, const Operand& operand);

}  // namespace caravan::ir
