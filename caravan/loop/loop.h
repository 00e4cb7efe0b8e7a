// The loop IR: kernels as nests of loops over registers. Every backend that makes code starts from here.
//
// Meaning. A kernel is a block of statements executed in order.
// * Registers. A register is a scalar of one precision, or a vector of several. `Define` gives it its value; within one
//   execution of the block that defines it the value does not change, so a definition may be moved, duplicated or
//   dropped as its operands allow. `Reset` and `Combine` make a register an accumulator, which is the only kind that
//   changes.
// * Loops. `For` runs its body for 0 <= variable < extent, in order if serial. Iterations of a parallel loop write
//   disjoint elements. A chunk of consecutive iterations runs on one thread, different chunks may run on different
//   threads. A parallel loop that is all that another one contains is one loop with it: a chunk then has consecutive
//   iterations of the whole nest. In a kernel with a parallel loop, only definitions stand before that loop, which
//   every chunk computes for itself, and nothing stands after it. Iterations of vector and unrolled loops run side by
//   side, in lockstep: each statement is executed for all of them, in order, before the next statement, and an inner
//   loop is entered once for all. All kinds compute the same bits.
// * Groups of threads. On a GPU, groups of `Grid::lanes` threads, the lanes, run a kernel. The iterations of a nest of
//   grid loops are shared by the groups, those of a nest of lane loops by the lanes of a group; every other statement
//   is executed by all lanes, with the same values. `Barrier` makes what a lane has stored visible to the other lanes
//   of its group. `AcrossLanes` is the total of a register over all lanes, in a fixed order.
//   Loops over rows, columns and terms are those of a product of matrices that a block of threads computes in tiles
//   (schedule/gpu_products.h); they mean the same as serial loops.
// * Vectors. A register of width w holds w values. A load fills it from w neighbouring elements, an op is computed for
//   each of them (a scalar operand is the same for all), an accumulator has a total for each of them, and a store or an
//   accumulation in memory changes w neighbouring elements.
// * Guards. `If` runs its body where every term is >= 0. All accesses inside the guards are in range. So padding is a
//   guard around a load: there are no padding elements in memory.
// * Memory. Buffers do not overlap. A kernel sees the stores of the kernels before it, and its own in program order. A
//   local belongs to one execution of the kernel, or of an iteration of its parallel loop; its initial value is
//   undefined.
// * Pieces. A thread of a GPU can load or store up to 16 bytes at a time. A piece is a local for neighbouring elements
//   of a buffer, in the buffer's precision. `Move` loads all of them from the buffer, or stores all of them.
// * Arithmetic. Floats are not reassociated, and contracted only in a `Combine` with a factor. Integers wrap.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "caravan/ir/program.h"

namespace caravan::loop {

using Register = int;
using Variable = int;
using ir::Term;  // here: iterators are loop variables, symbols are the program's, loads are integer registers

enum class LoopKind : uint8_t { serial, parallel, vector, unrolled, grid, lanes, rows, columns, terms };
std::string_view name(LoopKind kind);
std::string_view total_name(Accumulator accumulator);  // a name for the accumulated value: "sum", "max"

// How the compiler of the generated text is told to unroll a serial loop. It changes no result.
enum class Unroll : uint8_t {
  free,   // the compiler decides
  full,   // unrolled completely
  some,   // For::at_once iterations, whose loads are then on their way at the same time; 1: not unrolled
  lanes,  // not before the compiler's vectoriser has tried to compute all iterations as vectors
  never,  // not unrolled, because GCC would miscompile the sum in it (schedule/keep_loops.h)
};

struct RegisterType {
  DType dtype{};
  int width = 1;
  constexpr RegisterType(DType dtype, int width = 1) : dtype(dtype), width(width) {}
  constexpr operator DType() const { return dtype; }
  friend constexpr bool operator==(const RegisterType& a, const RegisterType& b) = default;
  friend constexpr bool operator==(const RegisterType& a, DType b) { return a.dtype == b; }
};

// Memory of a kernel's own.
enum class Scope : uint8_t {
  registers,  // few elements, whose indices are constants once loops are unrolled, so that they fit into registers
  thread,     // on the stack of one thread
  shared,     // shared by the threads that run one block of iterations
  piece,      // in registers of a thread of a GPU; `Move` loads and stores all elements together
};
struct Local {
  std::string name;
  DType dtype{};
  int64_t elements = 0;
  Scope scope = Scope::registers;
  int64_t alignment = 0;  // bytes, of its first element; 0: that of its precision
  bool operator==(const Local&) const = default;
};

// What a load or a store reaches: a buffer of the module, or a local of the kernel.
class Memory {
 public:
  constexpr Memory(ir::BufferId buffer = -1) : id_(buffer) {}
  static constexpr Memory local(int which) { return Memory(-2 - which); }

  constexpr bool is_local() const { return id_ < -1; }
  constexpr int local() const { return -2 - id_; }
  constexpr operator ir::BufferId() const { return is_local() ? -1 : id_; }  // -1 for a local
  friend constexpr bool operator==(const Memory& a, const Memory& b) { return a.id_ == b.id_; }
  friend constexpr bool operator==(const Memory& a, ir::BufferId b) { return a.id_ == b; }

 private:
  int id_;
};

struct Constant {  // converted to the register's precision; infinities become an integer's bounds
  double value = 0;
  bool operator==(const Constant&) const = default;
};
struct Load {  // element `offset` of a buffer or a local
  Memory buffer;
  Term offset;
  // Its value stays in a register. Else a C compiler may load it anew for every instruction that reads it.
  bool once = false;
  // On a GPU, after a product: loaded while the sum is computed, before the values of other sums are stored.
  bool early = false;
  bool operator==(const Load&) const = default;
};
struct IndexValue {  // an index as a number
  Term term;
  bool operator==(const IndexValue&) const = default;
};
struct RandomValue {
  ir::BufferId leaf = -1;
  Term element;
  Register step = -1;
  bool operator==(const RandomValue&) const = default;
};
struct Apply {  // operands are converted to `compute` first
  Op op{};
  DType compute{};
  Register args[3] = {-1, -1, -1};
  bool operator==(const Apply&) const = default;
};
struct Cast {  // a narrow float is kept in a register of f32, rounded
  Register arg = -1;
  DType to{};
  bool operator==(const Cast&) const = default;
};
// Elements of two vectors in turn, first[0], second[0], first[1], ..: from their low halves, or from their high ones.
struct Interleave {
  Register first = -1, second = -1;
  bool high = false;
  bool operator==(const Interleave&) const = default;
};
struct AcrossLanes {  // the registers of all lanes, combined
  Accumulator accumulator{};
  Register arg = -1;
  bool operator==(const AcrossLanes&) const = default;
};
using Value = std::variant<Constant, Load, IndexValue, RandomValue, Apply, Cast, Interleave, AcrossLanes>;

struct Define {
  Register to = -1;
  Value value;
  bool operator==(const Define&) const = default;
};
struct Reset {
  Register to = -1;
  double value = 0;
  bool operator==(const Reset&) const = default;
};
// With a `factor`, adds value * factor by a fused multiply-add, which rounds once.
struct Combine {
  Register to = -1;
  Accumulator accumulator{};
  Register value = -1, factor = -1;
  bool operator==(const Combine&) const = default;
};
// Argmax, argmin: if there is no winner yet or `value` beats `best`, then best = value, position = term.
struct CombineFirst {
  Register best = -1, position = -1;
  Accumulator accumulator{};
  Register value = -1;
  Term term;
  bool operator==(const CombineFirst&) const = default;
};
struct Store {
  Memory buffer;
  Term offset;
  Register value = -1;
  bool operator==(const Store&) const = default;
};
struct StoreCombine {  // a Combine in memory
  Memory buffer;
  Term offset;
  Accumulator accumulator{};
  Register value = -1, factor = -1;
  bool operator==(const StoreCombine&) const = default;
};
struct StoreFirst {  // CombineFirst in memory; -1 in `positions` means that there is no winner yet
  Memory positions, best;
  Term offset;
  Accumulator accumulator{};
  Register value = -1;
  Term term;
  bool operator==(const StoreFirst&) const = default;
};

// Loads or stores a piece. Its elements begin in the buffer at a multiple of their number.
struct Move {
  int local = -1;  // the piece
  Memory buffer;
  Term offset;  // of the first element
  bool store = false;
  bool operator==(const Move&) const = default;
};

struct Barrier {  // waits for all lanes of the group
  bool operator==(const Barrier&) const = default;
};

// Asks the processor to bring elements of a buffer into a cache, because they will be loaded soon. It changes no value,
// and is no access: the elements may lie beyond the end of the buffer. A language without such an instruction leaves it
// out.
struct Prefetch {
  Memory buffer;
  Term offset;  // of the first element
  int64_t elements = 0;
  bool nearest = false;  // into the nearest cache; otherwise into the second-level cache
  bool operator==(const Prefetch&) const = default;
};

struct For;
struct If;
using Statement = std::variant<Define, Reset, Combine, CombineFirst, Store, StoreCombine, StoreFirst, Move, Barrier,
                               Prefetch, For, If>;
using Block = std::vector<Statement>;

struct For {
  Variable variable = -1;
  int64_t extent = 0;
  LoopKind kind = LoopKind::serial;
  Block body;
  // Of a parallel loop: how many iterations of the nest a thread takes at a time, 0 if it is inside of another one. Of
  // a grid or lane loop: how many iterations the loops of its kind directly inside of it have together, 1 if it is the
  // innermost one. Around the rows of a table (schedule/gpu_scatters.h): how many blocks of threads share them.
  int64_t chunk = 0;
  // The order of the sum that the loop adds to (ir::SumOrder): how many partial sums it has along this loop, and the
  // sizes of its blocks in iterations, each a multiple of the one before. The pass `split_loops` turns both into loops;
  // after it they are 0 and empty.
  int64_t lanes = 0;
  std::vector<int64_t> blocks{};
  Unroll unroll = Unroll::free;
  int at_once = 0;     // if it is Unroll::some
  bool group = false;  // its statements were kernels of their own, and each is scheduled for itself (group_kernels.h)
  // Of an innermost parallel loop: iterations of a chunk may also run side by side, as those of a vector loop.
  bool vector = false;
};
struct If {
  std::vector<Term> where;
  Block body;
};
bool operator==(const For& a, const For& b);
bool operator==(const If& a, const If& b);

// A function that a library has, called with whole buffers in place of loops of our own.
struct LibraryCall {
  struct Copy {  // of a buffer to another of the same size
    int64_t bytes = 0;
    bool operator==(const Copy&) const = default;
  };
  // Products of matrices: writes[0][result] = sum over all terms of reads[0][left] * reads[1][right]. In the offsets
  // the variables are kBatch, kRow, kColumn and kTerm, which run below these sizes. In each factor and in the result,
  // one variable beside kBatch has stride 1. Both factors are f32, bf16 or f16, sums are f32, and the result is f32 or
  // what the factors are.
  struct Product {
    static constexpr Variable kBatch = 0, kRow = 1, kColumn = 2, kTerm = 3;
    int64_t batch = 1, rows = 1, columns = 1, terms = 1;
    Term left, right, result;
    bool tf32 = false;  // factors may be rounded to 10 bits of fraction
    int64_t multiplications() const { return batch * rows * columns * terms; }
    bool operator==(const Product&) const = default;
  };
  // Exchanges values with the devices along an axis of the mesh (ir::Collective): each of `writes` gets what all
  // devices have in the corresponding one of `reads`, or a slice of it. Only begins: the values are there after a Wait,
  // and until then no other kernel touches these buffers.
  struct Collective {
    ir::Collective exchange;
    struct Value {
      Accumulator accumulator{};  // of an all_reduce or a reduce_scatter
      // What a device has of the slices of all devices has so many stripes of equal size, which take turns with those
      // of the other devices: in what is written by an all_gather, and in what is read by a reduce_scatter.
      int64_t stripes = 1;
      bool operator==(const Value&) const = default;
    };
    std::vector<Value> values;  // one for each buffer
    bool operator==(const Collective&) const = default;
  };
  struct Wait {         // ends a collective, with the same buffers
    size_t kernel = 0;  // that began it
    bool operator==(const Wait&) const = default;
  };
  std::variant<Copy, Product, Collective, Wait> function;
  std::vector<ir::BufferId> writes, reads;  // the arguments
  bool operator==(const LibraryCall&) const = default;
};

// Attention of all heads of all examples, or a part of its gradient (schedule/gpu_attention.h, cpu_attention.h): with
//     weight[m, n] = softmax over n of scale * (query[m] . key[n]), where n <= m if it is causal,
// the result at m is the sum over n of weight[m, n] * value[n]. A function of the prelude computes it, without storing
// the weights; totals[m], and dots[m] or sums[m], are what it stores of each row instead (codegen/prelude/attention.cuh
// and attention.h).
struct Attention {
  enum class Part : uint8_t {
    forward,  // writes the result and `totals`; reads query, key, value
    rows,  // writes the query's gradient and `dots`; reads query, key, value, result, the result's gradient, `totals`
    columns,  // writes the gradients of key, value; reads query, key, value, the result's gradient, `totals`, `dots`
    // For a processor: writes the gradients of query, key, value; reads these, the result's gradient, `totals`, `sums`.
    gradient,
  };
  // Element k of row r of head h of example b is at offset + b * batch + h * head + r * row + k.
  struct Rows {
    ir::BufferId buffer = -1;
    int64_t offset = 0, batch = 0, head = 0, row = 0;
    bool adds_zero = false;  // what is written is the value plus 0
    bool operator==(const Rows&) const = default;
  };
  Part part{};
  int64_t batch = 1, heads = 1, rows = 1, columns = 1, depth = 1;
  double scale = 1, divisor = 0;  // scores are divided by the divisor if it is not 0
  bool causal = false, tf32 = false;
  std::vector<Rows> writes, reads;
  // f32, by example, head and row; -1: not needed. On a processor `totals` are the largest scores, and `sums` those of
  // the exponentials.
  ir::BufferId totals = -1, dots = -1, sums = -1;
  // On a processor: a tile of scores has `tile_rows` rows of `tile_columns` columns, in vectors of `lanes`; the weights
  // and gradients of `kept_rows` rows are kept at a time. `chunk`: how many heads a thread takes at a time; 0: threads
  // do not share them. `room`: the numbers that a thread computes on the way; if they do not fit into the thread's own
  // memory, `rooms` is a buffer with as many for each chunk, else -1.
  // On a GPU: how many rows (or columns) a block of threads has, how many columns (or rows) are in shared memory at a
  // time, and how long their rows are there.
  int64_t tile_rows = 1, tile_columns = 0;
  int64_t lanes = 0, kept_rows = 0, chunk = 0, room = 0;
  ir::BufferId rooms = -1;
  // On a processor, the order of a sum (ir::SumOrder): blocks of so many terms, and slices of so many; 0: none. Of sums
  // over the scores of a row, and of products that add over rows, or over columns.
  struct Order {
    int64_t block = 0, slice = 0;
    bool operator==(const Order&) const = default;
  };
  Order over_scores, over_rows, over_columns;
  int64_t padded = 0;
  bool operator==(const Attention&) const = default;
};
int64_t chunks(const Attention& attention);  // of heads, on a processor
// "attention of 384 heads: 1024 rows, 1024 columns, depth 64, causal"
std::string to_string(const Attention& attention);

// A sum of products that is computed in tiles (schedule/tile_contractions.h), for those who print or measure the
// kernel.
struct Contraction {
  int64_t batch = 1, rows = 1, columns = 1, terms = 1;  // `batch` products of rows x terms with terms x columns
  int64_t tile_rows = 1, tile_columns = 1;

  // The rest is for a GPU (codegen/prelude/product.cuh).
  enum class Units : uint8_t {
    plain,  // fused multiply-adds
    tf32,   // tensor cores, with factors rounded to 10 bits of fraction
    bf16,
    f16,  // tensor cores, with factors of 16 bits
  };
  Units units = Units::plain;
  int64_t depth = 0, stages = 0;  // terms of a panel in shared memory, and how many panels there are
  int64_t slices = 1;             // how many blocks of threads share the terms of a tile
  struct Factor {
    bool along = false;    // are neighbours in memory those along the terms? If not, along the rows (columns)
    int copied = 0;        // bytes that are copied to shared memory together; 0: every element is computed
    bool guarded = false;  // where the guard of the product does not hold, this factor is 0
    bool operator==(const Factor&) const = default;
  };
  Factor left{}, right{};
  bool operator==(const Contraction&) const = default;
};
std::string to_string(const Contraction& contraction);  // "8 x 48 of 1024 rows, 384 columns, 256 terms"

// How threads of a GPU share a kernel (schedule/map_to_grid.h).
struct Grid {
  int lanes = 0;  // threads of a group; 0: the kernel is not for a GPU
  // Neighbouring threads take neighbouring iterations of the grid loops. If not, they are lanes of one group.
  bool spread = false;
  int threads = 0;      // of a block: a multiple of `lanes`
  bool narrow = false;  // do all indices of the kernel fit into 32 bits?
  int resident = 0;     // blocks that a multiprocessor should have registers for; 0: the compiler of the GPU decides
  int64_t shared_bytes = 0;  // of a block's shared memory
  // Kernels of one stage do not depend on each other and may run at the same time; stages run one after the other
  // (schedule/order_stages.h).
  int stage = -1;
  int launch = -1;  // kernels of one launch are started together; they are neighbours in the module
  // If one block runs all kernels (schedule/place_in_block.h): do all its threads wait before this one, and which is
  // the first that runs it?
  bool waits_before = false;
  int first = 0;
  bool operator==(const Grid&) const = default;
};

struct Kernel {
  std::string name;                    // that of its accumulation with the most operations
  std::vector<std::string> comments;   // the accumulations it came from
  std::vector<std::string> variables;  // names of loop variables
  std::vector<RegisterType> registers;
  std::variant<Block, LibraryCall, Attention> body;
  std::vector<Local> locals{};
  std::vector<std::string> origins{};  // what each accumulation is in the user's program: "w1(x), moons.cpp:16"
  std::vector<Contraction> contractions{};
  std::vector<ir::BufferId> after{};    // must be computed before it runs, although it does not read them
  std::vector<ir::BufferId> aligned{};  // begin at a cache line, and vectors are loaded from them (mark_aligned.h)
  Grid grid{};
  bool operator==(const Kernel&) const = default;
};
const Block& statements(const Kernel& kernel);  // empty if the kernel has none
Block& statements(Kernel& kernel);              // the kernel must have statements
inline bool has_statements(const Kernel& kernel) { return std::holds_alternative<Block>(kernel.body); }
inline const LibraryCall* library_call(const Kernel& kernel) { return std::get_if<LibraryCall>(&kernel.body); }
inline const Attention* attention(const Kernel& kernel) { return std::get_if<Attention>(&kernel.body); }

const For* parallel_loop(const Kernel& kernel);  // the outermost; null if it has none
// How many iterations the parallel loop and those inside of it have together.
int64_t parallel_iterations(const For& loop);
// The iterations that threads of a processor share, and how many of them one takes at a time: of the parallel loop, or
// the heads of attention.
struct Shares {
  int64_t iterations = 0, chunk = 0;
};
std::optional<Shares> shares(const Kernel& kernel);
// A program whose accumulations have become kernels.
struct Module {
  std::string name;
  std::vector<ir::Symbol> symbols;
  std::vector<ir::Buffer> buffers;
  std::vector<Kernel> kernels;  // in order
  bool in_one_block = false;    // on a GPU: one block of threads runs all kernels, many steps a launch
  int block_threads = 0;        // of that block
  // To states that no kernel writes directly. schedule/copy_states turns them into kernels.
  std::vector<ir::Assignment> assignments;
  std::vector<ir::BufferId> observed;
  // Collectives that are not kernels yet, one for each buffer. What they read ends the list of observed buffers, what
  // they write counts as data, and kernels that read the latter come `after` the former. So passes leave these buffers
  // alone, and schedule/place_collectives can put a call between the kernels.
  std::vector<LibraryCall> collectives{};
};

std::string to_string(const Module& module, const Kernel& kernel);
std::string to_string(const Module& module);
// "b0 10 (o0 16 (i0 2), o0 16)": a loop, its extent, the loops inside it. Of a library call, what is called: "copy",
// "library product of 1024 rows, 384 columns, 256 terms".
std::string loops_text(const Kernel& kernel);

// The precision of a register for values of `dtype`: f32 for f16 and bf16, which are computed in f32.
DType wide(DType dtype);

// What is wrong with a kernel, the first thing found:
// - a register is read before its definition or outside its block, has two definitions, or is accumulated without a
//   reset,
// - precisions do not fit: a load or a random value of another precision than its register, an index that is not i64, a
//   position of an argmax that is not an integer, an f16 or bf16 in a register or accumulated in memory,
// - a loop variable is used outside its loop or twice in a nest, or an extent is negative,
// - a parallel loop has other statements than definitions beside it, or no chunk, or an iteration may touch what
//   another one writes,
// - a vector or unrolled loop cannot run side by side,
// - a vector is used where a scalar must be, or with a vector of another width,
// - a buffer, local, symbol or operand does not exist, or a leaf that is not in memory is loaded or stored,
// - a local that is no piece is moved, or a piece to or from another precision or a place where no piece begins,
// - a library call has other arguments than its function takes, or attention reaches beyond a buffer.
std::optional<std::string> problem(const Module& module, const Kernel& kernel);
void verify(const Module& module);  // throws InternalError naming the kernel and printing it

}  // namespace caravan::loop
