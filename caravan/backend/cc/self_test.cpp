#include "caravan/backend/cc/self_test.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "caravan/backend/cc/untested_device.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/ops/table.h"

namespace caravan::cc {

using ir::Term;

namespace {

// A loop nest of the test: target[write] (+)= body(operands[reads]...). All buffers have one axis. An index is given by
// a coefficient for each loop, outermost first, and a constant.
using Index = std::vector<int64_t>;
struct Loop {
  const char* name;
  std::vector<int64_t> extents;
  Index write;
  std::vector<Index> reads;
  std::vector<DType> dtypes;      // precisions in which it is tested
  std::vector<Index> where = {};  // conditions: each >= 0
  Accumulator accumulator = Accumulator::add;
  DType rounded = DType::f64;  // operands are cast to this precision and back
};
// Few and small loops, because the first program on a machine waits for them. (Loops that read backwards have a second
// operand that is read forwards; otherwise optimize/run_forwards.h would reverse them.)
const Loop kLoops[] = {
    {"a sum of rows read backwards", {4, 4}, {0, 0, 0}, {{4, -1, 3}, {0, 1, 0}}, {DType::f32, DType::f64, DType::i32}},
    {"a sum of rows from the last to the first", {5, 3, 4}, {0, 0, 0, 0}, {{12, -4, 1, 8}, {0, 1, 0, 0}}, {DType::f64}},
    {"short rows inside a sum", {16, 3}, {0, 0, 0}, {{3, 1, 0}}, {DType::f32}},
    {"the gradient of a window", {8, 3}, {1, 0, 0}, {{1, -1, 0}, {0, 1, 0}}, {DType::f32}, {{1, -1, 0}, {-1, 1, 5}}},
    {"a sum in parts", {2, 64}, {1, 0, 0}, {{64, 1, 0}, {0, 1, 0}}, {DType::f32}},
    {"a matrix product", {4, 16, 5}, {16, 1, 0, 0}, {{5, 0, 1, 0}, {0, 1, 16, 0}}, {DType::f32}},
    {"the greatest of six neighbours",
     {16, 6},
     {1, 0, 0},
     {{1, 1, -2}},
     {DType::f32},
     {{1, 1, -2}, {-1, -1, 17}},
     Accumulator::max},
    {"two numbers rounded on the way", {2}, {1, 0}, {{1, 0}}, {DType::f64}, {}, Accumulator::add, DType::f32},
    {"numbers rounded to half precision", {9}, {1, 0}, {{1, 0}}, {DType::f32}, {}, Accumulator::add, DType::f16},
};

Term term(const Index& index) {
  Term out = Term::number(index.back());
  for (size_t k = 0; k + 1 < index.size(); ++k)
    if (index[k] != 0) out = out + Term::iterator(int(k), index[k]);
  return out;
}
int64_t value_at(const Index& index, const std::vector<int64_t>& point) {
  int64_t out = index.back();
  for (size_t k = 0; k < point.size(); ++k) out += index[k] * point[k];
  return out;
}
int64_t size_for(const Loop& loop, const Index& index) {
  int64_t most = ir::range(term(index), loop.extents, {}).high;
  for (const Index& condition : loop.where)  // a condition n - index >= 0 bounds the index by n
    if ((term(condition) + term(index)).is_constant()) most = condition.back() + index.back();
  return most + 1;
}

// A loop in one precision, with its operands and the correct result.
struct Trial {
  std::string name;
  ir::BufferId target = -1;
  std::vector<double> expected;
};

class Trials {
 public:
  Trials() {
    program_.name = "self-test";
    for (const Loop& loop : kLoops)
      for (DType dtype : loop.dtypes) add(loop, dtype);
  }
  const ir::Program& program() const { return program_; }
  const std::vector<Trial>& all() const { return trials_; }

 private:
  ir::BufferId buffer(const std::string& name, int64_t size, DType dtype, ir::BufferKind kind) {
    Shape shape;
    shape.output.push_back({size});
    program_.buffers.push_back({name, std::move(shape), dtype, std::move(kind), {}});
    return ir::BufferId(program_.buffers.size()) - 1;
  }

  void add(const Loop& loop, DType dtype) {
    const std::string number = std::to_string(trials_.size());
    ir::Accumulation a;
    a.accumulator = loop.accumulator;
    a.extents = loop.extents;
    for (size_t k = 0; k < loop.extents.size(); ++k) a.iterators.push_back("i" + std::to_string(k));
    for (const Index& condition : loop.where) a.where.push_back(term(condition));
    a.write = {term(loop.write)};
    std::vector<std::vector<double>> values;
    for (size_t o = 0; o < loop.reads.size(); ++o) {
      std::vector<double> drawn(size_t(size_for(loop, loop.reads[o])));
      for (size_t e = 0; e < drawn.size(); ++e) drawn[e] = value(e, o, loop.rounded);
      Shape shape;
      shape.output.push_back({int64_t(drawn.size())});
      a.operands.push_back({buffer("x" + std::to_string(o) + " " + number, int64_t(drawn.size()), dtype,
                                   ir::DataLeaf{Array(shape, drawn, dtype)}),
                            {term(loop.reads[o])}});
      values.push_back(std::move(drawn));
    }
    a.body = body(loop, dtype);
    const int64_t size = ir::range(a.write[0], loop.extents, {}).high + 1;
    a.target = buffer("y" + number, size, dtype, ir::Computed{});
    a.label = loop.name;
    trials_.push_back(
        {loop.name + std::string(" in ") + std::string(name(dtype)), a.target, expected(loop, a.body, values, size)});
    program_.observed.push_back(a.target);
    program_.accumulations.push_back(std::move(a));
  }

  // Whole numbers that are small enough for every sum to be exact; or, to test rounding, numbers that `rounded` cannot
  // represent.
  static double value(size_t element, size_t operand, DType rounded) {
    const double whole = double((element * 7 + operand * 3 + 1) % 31) - 11;
    return rounded == DType::f64 ? whole : whole / 10;
  }
  static ir::Body body(const Loop& loop, DType dtype) {
    ir::Body out;
    int at = out.load(0);
    if (loop.rounded != DType::f64) at = out.cast(dtype, out.cast(loop.rounded, at));
    if (loop.reads.size() == 2) {
      const int args[] = {at, out.load(1)};
      at = out.apply(Op::mul, args);
    }
    out.finish(at);
    return out;
  }
  static std::vector<double> expected(const Loop& loop, const ir::Body& body,
                                      const std::vector<std::vector<double>>& values, int64_t size) {
    std::vector<double> out(size_t(size), row(loop.accumulator).neutral);
    std::vector<int64_t> point(loop.extents.size(), 0);
    for (bool more = true; more;) {
      const bool inside = std::ranges::all_of(loop.where, [&](const Index& c) { return value_at(c, point) >= 0; });
      if (inside) {
        std::vector<double> operands;
        for (size_t o = 0; o < values.size(); ++o)
          operands.push_back(values[o][size_t(value_at(loop.reads[o], point))]);
        double& total = out[size_t(value_at(loop.write, point))];
        const double one = ir::evaluate(body, operands, 0);
        total = loop.accumulator == Accumulator::max ? std::max(total, one) : total + one;
      }
      more = false;
      for (size_t k = point.size(); k-- > 0 && !more;) more = ++point[k] < loop.extents[k] || (point[k] = 0, false);
    }
    return out;
  }

  ir::Program program_;
  std::vector<Trial> trials_;
};

// The names of the loops that are wrong. Throws BackendError where they cannot be compiled.
std::vector<std::string> wrong_loops(const Trials& trials, const CompilerOptions& compiler) {
  DeviceOptions options;
  options.threads = 1;
  options.compiler = compiler;
  options.compiler.progress = nullptr;
  const auto device = make_untested_device(options);
  const auto executable = backend::prepare(*device, trials.program()).executable;
  executable->run({});
  std::vector<std::string> out;
  for (size_t t = 0; t < trials.all().size(); ++t)
    if (executable->observed(t).values() != trials.all()[t].expected) out.push_back(trials.all()[t].name);
  return out;
}

// Sets of flags in the order in which they are tried. GCC calls its vectoriser of loops and that of straight-line code
// tree vectorisation; Clang accepts the same names.
const std::vector<std::vector<std::string>> kLessOptimisation = {
    {"-fno-tree-vectorize", "-fno-tree-slp-vectorize"},
    {"-O2", "-fno-tree-vectorize", "-fno-tree-slp-vectorize"},
    {"-O1", "-fno-tree-vectorize", "-fno-tree-slp-vectorize"},
};

SelfTest tried(const CompilerOptions& options) {
  const Trials trials;
  SelfTest out;
  out.loops = int(trials.all().size());
  out.wrong = wrong_loops(trials, options);
  out.passed = out.wrong.empty();
  for (size_t k = 0; k < kLessOptimisation.size() && !out.passed; ++k) {
    CompilerOptions less = options;
    out.added = kLessOptimisation[k];
    less.flags.insert(less.flags.end(), out.added.begin(), out.added.end());
    try {
      out.passed = wrong_loops(trials, less).empty();
    } catch (const BackendError&) {  // the compiler does not know these flags
    }
  }
  return out;
}

}  // namespace

SelfTest self_test(const CompilerOptions& options) {
  static std::mutex mutex;
  static std::map<std::string, SelfTest> known;  // results by compiler and flags
  std::lock_guard lock(mutex);
  const std::string key = options.compiler + "\n" + joined(options.flags, "\n");
  auto at = known.find(key);
  if (at == known.end()) at = known.emplace(key, tried(options)).first;
  return at->second;
}

void refuse(const SelfTest& test, const CompilerOptions& options) {
  throw WrongCompilerError("the C compiler `" + options.compiler + "` computes " + std::to_string(test.wrong.size()) +
                           " of " + std::to_string(test.loops) + " test loops wrongly (" + joined(test.wrong) +
                           "), with little optimisation too; install another one (apt-get install gcc).");
}

CompilerOptions tested(const CompilerOptions& options) {
  SelfTest test;
  try {
    test = self_test(options);
  } catch (const BackendError&) {
    return options;
  }
  if (!test.passed) refuse(test, options);
  CompilerOptions out = options;
  out.flags.insert(out.flags.end(), test.added.begin(), test.added.end());
  return out;
}

}  // namespace caravan::cc
