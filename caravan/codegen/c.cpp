// The kernels of a module as texts for the C compiler of this machine, with entries that run them in order.
#include "caravan/codegen/c.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/codegen/balance.h"
#include "caravan/codegen/gnu_printer.h"
#include "caravan/codegen/kernel_functions.h"
#include "caravan/codegen/prelude.h"
#include "caravan/codegen/step.h"
#include "caravan/codegen/words.h"

namespace caravan::codegen {

using namespace loop;

namespace {

// A function of a module. Kernels that differ only in their buffers share one.
struct Function {
  std::string comments, head, body;
  bool calls_math;
  const Attention* attends;  // null: it does not
  double milliseconds;       // that the C compiler takes for it, about
};
struct Parts {
  std::vector<Function> functions;
  std::string run;  // the text of the entry functions, and of the functions that run chunks or groups of calls
  size_t calls = 0;
};

// A function that runs one chunk of a parallel loop. Chunks do not depend on how many threads run them.
std::string chunk_function(const std::string& name, const Shares& shares, const std::string& call) {
  const std::string extent = std::to_string(shares.iterations), rows = std::to_string(shares.chunk);
  return "static void " + name + "(const caravan_step* step, int64_t chunk) {\n  const int64_t from = " + rows +
         "*chunk, to = from + " + rows + " < " + extent + " ? from + " + rows + " : " + extent + ";\n  " + call +
         "\n}\n";
}

std::string call_of(const Kernel& kernel, const Uses& uses, const std::string& function) {
  std::vector<std::string> arguments;
  for (ir::BufferId id : uses.buffers) arguments.push_back("step->buffers[" + std::to_string(id) + "]");
  for (int s : uses.symbols) arguments.push_back("step->symbols[" + std::to_string(s) + "]");
  add_streams(arguments, uses, "step->seed");
  if (shares(kernel)) arguments.push_back("from"), arguments.push_back("to");
  return function + "(" + joined(arguments) + ");";
}

std::string copy_of(const LibraryCall& call) {
  return "memcpy(step->buffers[" + std::to_string(call.writes[0]) + "], step->buffers[" +
         std::to_string(call.reads[0]) + "], " + std::to_string(std::get<LibraryCall::Copy>(call.function).bytes) +
         ");";
}

// Functions that another text calls are not visible outside of the library, so that they are called directly.
const std::string kShared = "__attribute__((visibility(\"hidden\"))) ";

// The parameters of functions that call kernels, and the arguments with which these call each other.
struct Given {
  const char *parameters, *arguments;
};
constexpr Given given(Entries entries) {
  return entries == Entries::runs ? Given{"(const caravan_step* step)", "(step)"}
                                  : Given{"(const caravan_step* step, caravan_laps* laps)", "(step, laps)"};
}

// Moves calls into functions of as many calls as one may make, repeatedly, until no more are left.
void group(std::vector<std::string>& calls, std::string& functions, Entries entries) {
  constexpr size_t most = kCompileTimes.most_calls;
  for (size_t n = 0; calls.size() > most; ++n) {
    std::vector<std::string> fewer;
    for (size_t from = 0; from < calls.size(); from += most) {
      const std::string name = std::string(kEntry) + std::to_string(n) + "_" + std::to_string(fewer.size());
      functions += "\nstatic __attribute__((noinline)) void " + name + given(entries).parameters + " {\n";
      for (size_t k = from; k < std::min(from + most, calls.size()); ++k) functions += calls[k];
      functions += "}\n";
      fewer.push_back("  " + name + given(entries).arguments + ";\n");
    }
    calls = std::move(fewer);
  }
}

std::string many_steps(const Module& module) {
  std::string out = "\nvoid " + std::string(kManySteps) +
                    "(const caravan_step* step, int64_t* symbols, const int64_t* ranges, int64_t steps) {\n"
                    "  (void)symbols, (void)ranges;\n  for (int64_t s = 0; s < steps; ++s) {\n    " +
                    kEntry + "(step);\n";
  for (size_t k = 0; k < module.symbols.size(); ++k) {
    const std::string n = "[" + std::to_string(k) + "]";
    out += "    if (++symbols" + n + " == ranges" + n + ") symbols" + n + " = 0;\n";
  }
  return out + "  }\n}\n";
}

Parts parts_of(const Module& module, Entries entries) {
  Parts out;
  const GnuC dialect;
  KernelFunctions functions;
  std::string chunks;
  std::vector<std::string> calls;
  bool calls_library = false;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const Kernel& kernel = module.kernels[k];
    const std::string lap = entries == Entries::timed ? "  caravan_lap(laps, " + std::to_string(k) + ");\n" : "";
    if (const LibraryCall* called = library_call(kernel)) {
      const bool copies = std::holds_alternative<LibraryCall::Copy>(called->function);
      if (!copies && !std::exchange(calls_library, true)) chunks += "\n" + std::string(kLibraryPrelude);
      calls.push_back("  " + (copies ? copy_of(*called) : "caravan_library(step, " + std::to_string(k) + ");") + "  " +
                      comment(kernel.comments[0]) + "\n" + lap);
      continue;
    }
    GnuPrinter printer(module, kernel, dialect, GnuPrinter::Names::own);
    const auto& [function, number, fresh] =
        functions.find<GnuPrinter>(module, kernel, dialect, "k" + std::to_string(k) + "_" + identifier(kernel.name));
    std::string call;
    if (fresh) {
      std::string comments;
      for (const std::string& text : kernel.comments) comments += comment(text) + "\n";
      const std::string body = printer.body();
      out.functions.push_back({comments, printer.head(function), body, printer.calls_math(), attention(kernel),
                               compile_milliseconds(kernel)});
    } else {
      for (const std::string& text : kernel.comments) call += "  " + comment(text) + "\n";
    }
    if (const auto shared = shares(kernel)) {
      const std::string name = "chunk" + std::to_string(k);
      chunks += chunk_function(name, *shared, call_of(kernel, printer.uses(), function));
      const int64_t n = (shared->iterations + shared->chunk - 1) / shared->chunk;
      call += "  caravan_parallel(step, " + name + ", " + std::to_string(n) + ");\n";
    } else {
      call += "  " + call_of(kernel, printer.uses(), function) + "\n";
    }
    calls.push_back(std::move(call) + lap);
  }
  out.calls = calls.size();
  group(calls, chunks, entries);
  const char* name = entries == Entries::runs ? kEntry : kTimedEntry;
  out.run = chunks + "\nvoid " + name + given(entries).parameters + " {\n  (void)step;\n";
  for (const std::string& call : calls) out.run += call;
  out.run += "}\n";
  if (entries == Entries::runs) out.run += many_steps(module);
  return out;
}

std::string with_prelude(bool calls_math, const Attention* attends, const std::string& text) {
  return "/* Generated by Caravan. */\n" + cpu_prelude(calls_math || attends, attends) + text;
}

// A text for each group of functions. Number 0 are the entry functions, number k is function k - 1. Functions in the
// text of the entry functions can be inlined into them.
std::vector<std::string> texts_of(const Parts& parts, const std::vector<std::vector<size_t>>& groups) {
  std::vector<std::string> out;
  for (const std::vector<size_t>& group : groups) {
    const bool has_entries = group.front() == 0;
    std::vector<bool> here(parts.functions.size(), false);
    for (const size_t k : group)
      if (k > 0) here[k - 1] = true;
    std::string text;
    bool calls_math = false;
    const Attention* attends = nullptr;  // all of a module have the same tiles
    for (size_t f = 0; f < here.size(); ++f) {
      const Function& function = parts.functions[f];
      if (here[f]) {
        text += "\n" + function.comments + (has_entries ? "static " : kShared) + function.head + function.body;
        calls_math = calls_math || function.calls_math;
        if (function.attends) attends = function.attends;
      } else if (has_entries) {
        text += kShared + function.head + ";\n";
      }
    }
    out.push_back(with_prelude(calls_math, attends, has_entries ? text + parts.run : text));
  }
  return out;
}

}  // namespace

std::string to_c(const Module& module) {
  const Parts parts = parts_of(module, Entries::runs);
  std::vector<size_t> all(parts.functions.size() + 1);
  std::iota(all.begin(), all.end(), size_t(0));
  return texts_of(parts, {all})[0];
}

Units to_units(const Module& module, Entries entries, double milliseconds) {
  Parts parts = parts_of(module, entries);
  if (entries == Entries::timed) parts.run = "\n" + std::string(kTimingPrelude) + parts.run;
  std::vector<double> costs = {kCompileTimes.call * double(parts.calls)};
  for (const Function& f : parts.functions) costs.push_back(f.milliseconds);
  return {texts_of(parts, balanced(costs, milliseconds)), std::accumulate(costs.begin(), costs.end(), 0.0)};
}

}  // namespace caravan::codegen
