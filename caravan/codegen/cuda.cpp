#include "caravan/codegen/cuda.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/codegen/cuda_dialect.h"
#include "caravan/codegen/cuda_printer.h"
#include "caravan/codegen/kernel_functions.h"
#include "caravan/codegen/prelude.h"
#include "caravan/codegen/words.h"
#include "caravan/loop/grid.h"
#include "caravan/loop/walk.h"
#include "caravan/target/compile_times.h"

namespace caravan::codegen {

using namespace loop;

namespace {

// A kernel as text.
struct Printed {
  size_t kernel = 0;  // its number in the module
  std::string function;
  size_t text = 0;  // the number of its function
  Uses uses;
};

// The kernels of a launch. A block works for one of them, so that they can have the same shared memory.
class Together {
 public:
  Together(const Module& module, CudaForm form) : module_(&module), form_(form) {}

  bool joins(size_t next) const {
    return form_ == CudaForm::launches && !members_.empty() && module_->kernels[next].grid.launch >= 0 &&
           module_->kernels[next].grid.launch == module_->kernels[members_[0].kernel].grid.launch;
  }
  void add(const Printed& next) {
    launch_.add(module_->kernels[next.kernel]);
    members_.push_back(next);
  }
  const std::vector<Printed>& members() const { return members_; }
  const Launch& launch() const { return launch_; }
  int64_t blocks(const Printed& member) const { return launch_.blocks(module_->kernels[member.kernel]); }

 private:
  const Module* module_;
  CudaForm form_;
  std::vector<Printed> members_;
  Launch launch_;
};

// The function that a GPU is told to run: its blocks are divided among the kernels.
std::string global_function(const Module& module, const Together& group, const std::string& name) {
  std::vector<std::string> parameters;
  std::string body;
  bool has_seed = false;
  for (size_t m = 0; m < group.members().size(); ++m) {
    const Printed& member = group.members()[m];
    const Uses& uses = member.uses;
    std::vector<std::string> arguments;
    auto add = [&](const std::string& type, const std::string& kind, const char* before) {
      const std::string parameter = kind + std::to_string(parameters.size());
      parameters.push_back(type + parameter);
      arguments.push_back(before + parameter);
    };
    for (const ir::BufferId id : uses.buffers) {
      const std::string type = c_type(module.buffers[size_t(id)].dtype);
      // A buffer that two kernels read is named twice, and so is not restricted here; it is in each kernel.
      add((uses.written.count(id) ? "" : "const ") + type + "* ", "b", "");
    }
    for (size_t n = 0; n < uses.symbols.size(); ++n) add("const int64_t* ", "s", "*");
    add_streams(arguments, uses, "seed");
    has_seed = has_seed || !uses.streams.empty();
    const std::string blocks = std::to_string(group.blocks(member));
    const bool last = m + 1 == group.members().size();
    const std::string call =
        member.function + "(" + joined(arguments) + (arguments.empty() ? "" : ", ") + "block, " + blocks + ");\n";
    body += last ? "  " + call : "  if (block < " + blocks + ") return " + call + "  block -= " + blocks + ";\n";
  }
  if (has_seed) parameters.push_back("uint64_t seed");
  const Launch& launch = group.launch();
  std::string bounds = "__launch_bounds__(" + std::to_string(launch.threads);
  if (launch.resident > 0) bounds += ", " + std::to_string(launch.resident);
  bounds += ") ";
  if (launch.cluster > 1) bounds += "__cluster_dims__(" + std::to_string(launch.cluster) + ", 1, 1) ";
  return "extern \"C\" __global__ void " + bounds + name + "(" + joined(parameters) +
         ") {\n  caravan_begin();\n  int block = blockIdx.x;\n" + body + "}\n";
}

CudaText::Launch launch_of(const Module& module, const Together& group) {
  CudaText::Launch out;
  out.stage = module.kernels[group.members()[0].kernel].grid.stage;
  out.threads = group.launch().threads, out.shared_bytes = group.launch().shared_bytes;
  for (const Printed& member : group.members()) {
    out.kernels.push_back(member.kernel);
    for (const ir::BufferId id : member.uses.buffers) out.arguments.push_back({.buffer = id});
    for (const int s : member.uses.symbols) out.arguments.push_back({.symbol = s});
    out.has_seed = out.has_seed || !member.uses.streams.empty();
    out.blocks += group.blocks(member);
  }
  return out;
}

// A call of the kernel from the function that runs all kernels in one block.
std::string call_in_block(const Module& module, const Printed& printed) {
  std::vector<std::string> arguments;
  for (const ir::BufferId id : printed.uses.buffers) {
    const std::string type = c_type(module.buffers[size_t(id)].dtype);
    arguments.push_back("(" + type + "*)buffers.at[" + std::to_string(id) + "]");
  }
  for (const int s : printed.uses.symbols) arguments.push_back("symbols[" + std::to_string(s) + "]");
  add_streams(arguments, printed.uses, "seed");
  arguments.push_back(std::to_string(module.kernels[printed.kernel].grid.first)), arguments.push_back("1");
  return "    " + printed.function + "(" + joined(arguments) + ");\n";
}
std::string copy_in_block(const LibraryCall& call) {
  return "    for (int64_t i = threadIdx.x; i < " + std::to_string(std::get<LibraryCall::Copy>(call.function).bytes) +
         "; i += caravan_threads())\n      ((char*)buffers.at[" + std::to_string(call.writes[0]) +
         "])[i] = ((const char*)buffers.at[" + std::to_string(call.reads[0]) + "])[i];\n";
}

std::string cuda_prelude(const Module& module, bool restrict) {
  std::string out =
      std::string("/* Generated by Caravan. */\n#define CARAVAN_RESTRICT ") + (restrict ? "__restrict__" : "") + "\n";
  for (const std::string_view text : {kCudaPrelude, kProductPrelude, kScatterPrelude}) out.append(text).append("\n");
  if (std::any_of(module.kernels.begin(), module.kernels.end(), loop::attention))
    out.append(kAttentionPrelude).append("\n");
  out.append(kMathPrelude).append("\n");
  for (const Helper& helper : kHelpers)
    if (helper.name != "caravan_keep_loop") out.append(helper.text).append("\n");
  return out;
}

// Prints the kernels of a module.
class Functions {
 public:
  explicit Functions(const Module& module) : module_(module) {}

  Printed print(size_t k) {
    const Kernel& kernel = module_.kernels[k];
    CARAVAN_CHECK(kernel.grid.lanes > 0, "`" + kernel.name + "` is not mapped to threads");
    const Cuda dialect(kernel);
    CudaPrinter printer(module_, kernel, dialect, KernelPrinter::Names::own);
    const auto& [function, number, fresh] =
        functions_.find<CudaPrinter>(module_, kernel, dialect, "k" + std::to_string(k) + "_" + identifier(kernel.name));
    if (fresh) {
      std::string text = "\n";
      for (const std::string& line : kernel.comments) text += comment(line) + "\n";
      texts_.push_back(text + printer.head(function) + printer.body());
    }
    return {k, function, number, printer.uses()};
  }
  const std::string& text(size_t function) const { return texts_[function]; }
  size_t size() const { return texts_.size(); }

 private:
  const Module& module_;
  KernelFunctions functions_;
  std::vector<std::string> texts_;  // by function
};

// The launches of a step, and texts with their functions. Equal launches share one function.
CudaText in_launches(const Module& module, CudaForm form) {
  CudaText out;
  Functions functions(module);
  const std::string prelude = cuda_prelude(module, true);
  std::map<std::string, std::pair<std::string, size_t>> known;  // name and text of a launch, by what it calls
  std::set<size_t> there;                                       // functions in the last text
  auto end = [&](const Together& group) {
    if (group.members().empty()) return;
    CudaText::Launch launch = launch_of(module, group);
    const std::string key = global_function(module, group, "");
    auto at = known.find(key);
    if (at == known.end()) {
      if (out.texts.empty() || out.texts.back().size() > prelude.size() + kCompileTimes.cuda_text)
        out.texts.push_back(prelude), there.clear();
      for (const Printed& member : group.members())
        if (there.insert(member.text).second) out.texts.back() += functions.text(member.text);
      const std::string name = group.members()[0].function + "_launch" + std::to_string(known.size());
      out.texts.back() += global_function(module, group, name);
      at = known.emplace(key, std::pair(name, out.texts.size() - 1)).first;
    }
    launch.function = at->second.first, launch.text = at->second.second;
    out.launches.push_back(std::move(launch));
  };
  Together group(module, form);
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    if (library_call(module.kernels[k])) {
      end(std::exchange(group, Together(module, form)));
      CudaText::Launch launch;
      launch.stage = module.kernels[k].grid.stage;
      launch.kernels = {k};
      out.launches.push_back(std::move(launch));
      if (out.texts.empty()) out.texts.push_back(prelude);
      out.texts.back() += "\n" + comment(to_string(module, module.kernels[k])) + "\n";
      continue;
    }
    const Printed printed = functions.print(k);
    if (!group.joins(k)) end(std::exchange(group, Together(module, form)));
    group.add(printed);
  }
  end(group);
  if (out.texts.empty()) out.texts.push_back(prelude);
  out.texts.back().append("\n").append(kNextPrelude);
  return out;
}

// All kernels in one function that a single block runs.
CudaText in_one_block(const Module& module) {
  Functions functions(module);
  std::string calls;
  Launch block;
  const int threads = module.block_threads;
  for (size_t k = 0; k < module.kernels.size(); ++k) {
    const Kernel& kernel = module.kernels[k];
    block.add(kernel);
    if (kernel.grid.waits_before) calls += "    __syncthreads();\n";
    const LibraryCall* copy = library_call(kernel);
    calls += copy ? copy_in_block(*copy) : call_in_block(module, functions.print(k));
  }
  std::string text = "#define CARAVAN_ONE_BLOCK " + std::to_string(threads) + "\n" + cuda_prelude(module, false);
  for (size_t f = 0; f < functions.size(); ++f) text += functions.text(f);
  text += "\nstruct caravan_buffers {\n  void* at[" + std::to_string(std::max<size_t>(module.buffers.size(), 1)) +
          "];\n};\nextern \"C\" __global__ void __launch_bounds__(" + std::to_string(threads) + ") " + kCudaSteps +
          "(caravan_buffers buffers, int64_t* symbols, const int64_t* ranges, int64_t steps, uint64_t seed) {\n"
          "  for (int64_t step = 0; step < steps; ++step) {\n" +
          calls + "    __syncthreads();\n    if (threadIdx.x == 0)\n      for (int k = 0; k < " +
          std::to_string(module.symbols.size()) +
          "; ++k)\n        if (++symbols[k] == ranges[k]) symbols[k] = 0;\n  }\n}\n";
  return {{std::move(text)}, {}, block.shared_bytes, threads};
}

}  // namespace

CudaForm form_of(const Module& module) { return module.in_one_block ? CudaForm::one_block : CudaForm::launches; }

CudaText to_cuda(const Module& module, CudaForm form) {
  return form == CudaForm::one_block ? in_one_block(module) : in_launches(module, form);
}

}  // namespace caravan::codegen
