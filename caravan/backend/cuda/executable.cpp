#include "caravan/backend/cuda/executable.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "caravan/backend/cuda/compile.h"
#include "caravan/backend/cuda/gpu_exchange.h"
#include "caravan/backend/cuda/graph.h"
#include "caravan/base/list_text.h"
#include "caravan/codegen/cuda.h"
#include "caravan/loop/walk.h"
#include "caravan/target/gpu_steps.h"

namespace caravan::cuda {

using codegen::CudaForm;
using codegen::CudaText;
using ir::BufferId;

namespace {

CompileOptions compile_options(const Shared& shared) {
  return {.cache = shared.options.cache, .progress = shared.options.compiling};
}

class CudaExecutable : public backend::Executable {
 public:
  CudaExecutable(std::shared_ptr<const plan::Plan> plan, Step step, std::optional<Compiled> compiled,
                 std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        gpu_(*shared_->gpu),
        plan_(std::move(plan)),
        runnable_(std::move(step.runnable)),
        form_(step.form),
        calls_(std::move(step.calls)) {
    load_products(step.text);
    check_memory();
    step_ = load(form_, std::move(step.text), std::move(compiled));
    long_steps_ = std::clamp<int64_t>(kMostGraphLaunches / int64_t(step_.text.launches.size() + 1), 1, kMostGraphSteps);
    arena_ = shared_->allocate(runnable_.arena_bytes);
    workspace_ = shared_->allocate(workspace_bytes_);
    symbols_ = shared_->allocate((long_steps_ + 1) * symbol_bytes());
    staged_ = HostMemory(*shared_->gpu, kMostUnderWay * (long_steps_ + 1) * symbol_bytes());
    buffers_.assign(size_t(runnable_.buffers), 0);
    for (const backend::Runnable::Place& place : runnable_.places)
      buffers_[size_t(place.buffer)] = arena_.address() + Address(place.offset);

    const ir::Program& program = plan_->program;
    for (const backend::LeafUse& use : runnable_.data) {
      data_.push_back(shared_->on_gpu(std::get<ir::DataLeaf>(program.buffers[size_t(use.leaf)].kind).array));
      buffers_[size_t(use.buffer)] = data_.back()->memory.address();
    }
    states_ = {shared_->states, program, runnable_.states, [&](int64_t bytes) { return shared_->allocate(bytes); }};
    divide_step();
  }
  ~CudaExecutable() override {
    try {
      gpu_.wait();
      forget_graphs();
      for (const Code* code : {&step_, &timed_})
        for (ModuleHandle* part : code->modules) gpu_.driver().module_unload(part);
      for (EventHandle* event : events_) gpu_.driver().event_destroy(event);
    } catch (const BackendError&) {  // after an error of the GPU nothing can be freed
    }
  }
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;

  void run(const std::vector<int64_t>& symbols) override {
    make_ready(symbols);
    if (form_ == CudaForm::separate)
      launch_kernels();
    else if (form_ == CudaForm::one_block)
      launch_block(1);
    else if (exchange_)
      launch_sections(false);
    else
      launch_graph(once_, 0, step_.text.launches.size(), 1, false);
    states_.note_assigned();  // whoever reads waits
  }
  void run_steps(int64_t steps, std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges) override {
    if (form_ == CudaForm::separate) {
      for (; steps > 0; --steps) run(symbols), backend::next(symbols, ranges);
      return;
    }
    make_ready(symbols, ranges);
    int64_t left = steps;
    if (form_ == CudaForm::one_block)
      for (; left > 0; left -= kMostInALaunch) launch_block(std::min(left, kMostInALaunch));
    const size_t end = step_.text.launches.size();
    for (; exchange_ && left > 0; --left) launch_sections(true);
    for (; long_steps_ > 1 && left >= long_steps_; left -= long_steps_) launch_graph(many_, 0, end, long_steps_, true);
    for (; left > 0; --left) launch_graph(and_next_, 0, end, 1, true);
    for (size_t k = 0; k < symbols.size(); ++k)  // a range of 0 has no end
      symbols[k] = ranges[k] > 0 ? (symbols[k] + steps) % ranges[k] : symbols[k] + steps;
    gpu_.wait();
    states_.note_assigned();
  }
  std::optional<std::vector<double>> run_timed(int64_t steps, std::vector<int64_t>& symbols,
                                               const std::vector<int64_t>& ranges) override {
    if (timed_.modules.empty()) {
      if (!plan_->made) plan_ = backend::plan_for(plan_->target, plan_->program, plan_->options);
      timed_ = load(CudaForm::separate, codegen::to_cuda(plan_->scheduled, CudaForm::separate));
    }
    while (events_.size() <= timed_.text.launches.size()) {
      EventHandle* event = nullptr;
      check(gpu_.driver().event_create(&event, 0), "the GPU gives no event");
      events_.push_back(event);
    }
    std::vector<double> out(timed_.text.launches.size(), 0);
    for (int64_t s = 0; s < steps; ++s) {
      make_ready(symbols);
      check(gpu_.driver().event_record(events_[0], gpu_.stream()), "the GPU does not tell the time");
      for (size_t k = 0; k < timed_.text.launches.size(); ++k) {
        launch(timed_, k, gpu_.stream());
        check(gpu_.driver().event_record(events_[k + 1], gpu_.stream()), "the GPU does not tell the time");
      }
      gpu_.wait();
      for (size_t k = 0; k < out.size(); ++k) {
        float milliseconds = 0;
        check(gpu_.driver().event_elapsed(&milliseconds, events_[k], events_[k + 1]), "the GPU does not tell the time");
        out[k] += 1e6 * double(milliseconds);
      }
      backend::next(symbols, ranges);
    }
    states_.note_assigned();
    return out;
  }

  Array observed(size_t which) const override {
    const ir::Buffer& b = plan_->program.buffers[size_t(plan_->program.observed[which])];
    return to_array(gpu_, b.shape, b.dtype, buffers_[size_t(runnable_.observed[which])]);
  }
  backend::Report report() const override {
    return {runnable_.arena_bytes, int(runnable_.kernels), step_.compiled.sources, step_.compiled.from_cache};
  }
  // What is kept of it in the cache beside the note.
  const Compiled& compiled() const { return step_.compiled; }

 private:
  // Before anything is allocated: is there room for the buffers, and for the states that are not there yet?
  void check_memory() const {
    const int64_t needed = runnable_.arena_bytes + workspace_bytes_;
    const int64_t free = gpu_.free_bytes();
    if (needed > free)
      throw StateError("the program `" + plan_->program.name + "` needs " + std::to_string(needed) +
                       " bytes for its buffers; the GPU has " + std::to_string(free) + " bytes free of " +
                       std::to_string(gpu_.target().gpu.memory) + ".");
  }
  // The calls of products. Those of one stage may run at the same time, and so each of them has memory of its own.
  void load_products(const CudaText& text) {
    int stage = -1;
    int64_t end = 0;  // of the memory of the products of the stage
    for (const CudaText::Launch& launch : text.launches) {
      const size_t kernel = launch.kernels[0];
      const auto call = calls_.find(kernel);
      if (call == calls_.end() || !std::holds_alternative<loop::LibraryCall::Product>(call->second.call.function))
        continue;
      if (!shared_->library) shared_->library = std::make_unique<ProductLibrary>(gpu_);
      if (stage != launch.stage) stage = launch.stage, end = 0;
      const LibraryProduct& product = shared_->library->product(call->second);
      const int64_t begin = std::exchange(end, end + product.workspace_bytes());
      workspace_bytes_ = std::max(workspace_bytes_, end);
      products_.emplace(kernel, std::pair(&product, begin));
    }
  }
  int64_t symbol_bytes() const { return int64_t(std::max<size_t>(plan_->program.symbols.size(), 1) * sizeof(int64_t)); }

  // Compiled kernels on the GPU.
  struct Code {
    CudaText text;
    Compiled compiled;
    std::vector<ModuleHandle*> modules;      // by text
    std::vector<FunctionHandle*> functions;  // by launch
    FunctionHandle *steps = nullptr, *next = nullptr;
  };
  // Compiles the text, if it is not compiled yet.
  Code load(CudaForm form, CudaText text, std::optional<Compiled> compiled = {}) const {
    Code out;
    out.text = std::move(text);
    out.compiled =
        compiled ? std::move(*compiled) : compile(out.text.texts, gpu_.target().gpu.compute, compile_options(*shared_));
    gpu_.use();
    for (const std::string& code : out.compiled.codes) {
      out.modules.push_back(nullptr);
      check(gpu_.driver().module_load(&out.modules.back(), code.data()),
            "the GPU does not load the kernels of `" + plan_->program.name + "`");
    }
    if (form == CudaForm::one_block) {
      out.steps = function(out.modules[0], codegen::kCudaSteps, out.text.shared_bytes);
      return out;
    }
    out.next = function(out.modules.back(), codegen::kCudaNext, 0);
    for (const CudaText::Launch& l : out.text.launches)
      out.functions.push_back(l.function.empty() ? nullptr : function(out.modules[l.text], l.function, l.shared_bytes));
    return out;
  }
  FunctionHandle* function(ModuleHandle* code, const std::string& name, int64_t shared) const {
    constexpr int kMostShared = 8;  // the number of the attribute in the driver's interface
    FunctionHandle* out = nullptr;
    check(gpu_.driver().module_function(&out, code, name.c_str()), "the GPU does not find the kernel " + name);
    check(gpu_.driver().function_set(out, kMostShared, int(shared)),
          "the GPU has less than " + std::to_string(shared) + " bytes of shared memory for the kernel " + name);
    return out;
  }
  // --- one step ---

  // One kernel after the other, each with a launch of its own, so that an error is found where it happens.
  void launch_kernels() {
    for (size_t k = 0; k < step_.text.launches.size(); ++k) {
      const loop::Kernel& kernel = plan_->scheduled.kernels[step_.text.launches[k].kernels[0]];
      launch(step_, k, gpu_.stream());
      gpu_.wait("the GPU reports an error in the kernel `" + kernel.name + "`" +
                (kernel.origins.empty() ? "" : " (" + joined(kernel.origins, "; ") + ")"));
    }
  }

  // The addresses of the values of symbols for a step of a graph, and of their ranges.
  Address symbols_of(int64_t step) const { return symbols_.address() + Address(step * symbol_bytes()); }
  Address ranges() const { return symbols_of(long_steps_); }

  void launch(const Code& code, size_t k, StreamHandle* stream, bool early = false, int64_t step = 0) {
    const CudaText::Launch& l = code.text.launches[k];
    if (l.function.empty()) return call_library(l.kernels[0], stream);
    std::vector<uint64_t> values;  // all arguments have 8 bytes
    for (const CudaText::Launch::Argument& a : l.arguments)
      values.push_back(a.buffer >= 0 ? buffers_[size_t(a.buffer)]
                                     : symbols_of(step) + size_t(a.symbol) * sizeof(int64_t));
    if (l.has_seed) values.push_back(shared_->options.seed);
    std::vector<void*> arguments;
    for (uint64_t& value : values) arguments.push_back(&value);
    launch(code.functions[k], l.blocks, l.threads, l.shared_bytes, arguments, l.function, stream, early);
  }
  void call_library(size_t kernel, StreamHandle* stream) {
    const loop::LibraryCall& call = calls_.at(kernel).call;
    const Address to = buffers_[size_t(call.writes[0])], from = buffers_[size_t(call.reads[0])];
    match(
        call.function,
        [&](const loop::LibraryCall::Copy& copy) {
          check(gpu_.driver().copy_on_device(to, from, size_t(copy.bytes), stream),
                "the GPU does not copy a state of `" + plan_->program.name + "`");
        },
        [&](const loop::LibraryCall::Product&) {
          const auto& [product, workspace] = products_.at(kernel);
          product->run(stream, from, buffers_[size_t(call.reads[1])], to, workspace_.address() + Address(workspace));
        },
        [&](const loop::LibraryCall::Collective&) { exchange_->run(kernel, buffers_); },
        [&](const loop::LibraryCall::Wait&) { exchange_->run(kernel, buffers_); });
  }
  void launch(FunctionHandle* function, int64_t blocks, int threads, int64_t shared, std::vector<void*>& arguments,
              const std::string& name, StreamHandle* stream, bool early = false) const {
    LaunchAttribute may_be_early{};
    may_be_early.id = LaunchAttribute::kEarly, may_be_early.value = 1;
    const LaunchConfig config{unsigned(blocks), 1, 1, unsigned(threads), 1, 1, unsigned(shared), stream, &may_be_early,
                              early ? 1u : 0u};
    check(gpu_.driver().launch(&config, function, arguments.data(), nullptr),
          "the GPU does not run the kernel `" + name + "`");
  }
  void launch_next(int64_t steps, StreamHandle* stream, bool early) const {
    Address symbols = symbols_of(0), most = ranges();
    int64_t count = int64_t(plan_->program.symbols.size()), copies = long_steps_;
    std::vector<void*> arguments = {&symbols, &most, &count, &copies, &steps};
    launch(step_.next, 1, int(gpu_.target().gpu.warp), 0, arguments, "next", stream, early);
  }
  void launch_block(int64_t steps) {
    Address symbols = symbols_of(0), most = ranges();
    uint64_t seed = shared_->options.seed;
    std::vector<void*> arguments = {buffers_.data(), &symbols, &most, &steps, &seed};
    launch(step_.steps, 1, step_.text.threads, step_.text.shared_bytes, arguments, codegen::kCudaSteps, gpu_.stream());
  }
  // Collectives stand between recorded sections of the step.
  void divide_step() {
    const auto& launches = step_.text.launches;
    auto exchanges = [&](size_t k) {
      const auto call = calls_.find(launches[k].kernels[0]);
      return call != calls_.end() && GpuExchange::runs(call->second.call);
    };
    for (size_t k = 0; k < launches.size(); ++k) {
      if (!exchange_ && exchanges(k)) {
        CARAVAN_CHECK(shared_->options.exchange, "the device is not one of a mesh");
        exchange_ = std::make_unique<GpuExchange>(shared_->gpu, shared_->options.exchange, plan_->scheduled);
      }
    }
    if (!exchange_) return;
    for (size_t k = 0, end = 0; k < launches.size(); k = end) {
      for (end = k + 1; !exchanges(k) && end < launches.size() && !exchanges(end);) ++end;
      sections_.push_back({k, end, exchanges(k) ? nullptr : std::make_unique<Graph>(gpu_)});
    }
  }
  void launch_sections(bool next) {
    for (const Section& s : sections_) {
      if (s.graph)
        launch_graph(*s.graph, s.first, s.last, 1, false);
      else
        exchange_->run(step_.text.launches[s.first].kernels[0], buffers_);
    }
    if (next && !plan_->program.symbols.empty()) launch_next(1, gpu_.stream(), false);
  }
  void forget_graphs() {
    once_.forget(), and_next_.forget(), many_.forget();
    for (const Section& s : sections_)
      if (s.graph) s.graph->forget();
  }
  // These launches of some steps as one launch. Each step has its own copy of the symbols, so that nothing need run
  // between two steps. With `next`, all copies are advanced at the end.
  void launch_graph(Graph& graph, size_t first, size_t end, int64_t steps, bool next) {
    if (!graph.recorded()) {
      // While a step is recorded, the library must not load its kernels. What these results are does not matter.
      if (!std::exchange(called_, true))
        for (const auto& [kernel, product] : products_) call_library(kernel, gpu_.stream());
      std::vector<Graph::Stage> stages;
      for (int64_t step = 0; step < steps; ++step)
        for (size_t k = first; k < end; ++k) {
          const int stage = step_.text.launches[k].stage;
          if (k == first || stage < 0 || stage != step_.text.launches[k - 1].stage) stages.emplace_back();
          stages.back().push_back(
              {[this, k, step](StreamHandle* stream, bool early) { launch(step_, k, stream, early, step); },
               !step_.text.launches[k].function.empty()});
        }
      if (next && !plan_->program.symbols.empty())
        stages.push_back(
            {{[this, steps](StreamHandle* stream, bool early) { launch_next(steps, stream, early); }, true}});
      graph.record(stages);
    }
    graph.launch();
  }
  // All checks come before the first change, so that a failure leaves the state as it was.
  void make_ready(const std::vector<int64_t>& symbols, const std::vector<int64_t>& ranges = {}) {
    bool moved = false;
    states_.make_ready(symbols, [&](BufferId id, const Memory& memory) {
      Address& address = buffers_[size_t(id)];
      moved = moved || address != memory.address();
      address = memory.address();
    });
    gpu_.use();
    if (moved) {
      gpu_.wait();
      forget_graphs();
    }
    if (!symbols.empty()) {  // without waiting: steps that are under way have their values elsewhere
      if (under_way_ == kMostUnderWay) gpu_.wait(), under_way_ = 0;
      const int64_t bytes = (long_steps_ + 1) * symbol_bytes();
      int64_t* const begin = staged_.get() + under_way_++ * bytes / int64_t(sizeof(int64_t));
      int64_t* values = begin;
      std::vector<int64_t> at = symbols;
      for (int64_t step = 0; step < long_steps_; ++step) {
        values = std::copy(at.begin(), at.end(), values);
        if (!ranges.empty()) backend::next(at, ranges);
      }
      std::copy(ranges.begin(), ranges.end(), values);
      check(gpu_.driver().copy_to_device(symbols_.address(), begin, size_t(bytes), gpu_.stream()),
            "data cannot be copied to the GPU");
    }
  }
  std::shared_ptr<Shared> shared_;
  Gpu& gpu_;
  std::shared_ptr<const plan::Plan> plan_;  // not made where the cache had the program
  backend::Runnable runnable_;
  CudaForm form_;                 // `separate`: to find errors
  std::map<size_t, Call> calls_;  // by kernel
  Code step_, timed_;             // `timed_` is compiled when it is first needed
  // A range of steps runs `long_steps_` of them in one graph.
  Graph once_{gpu_}, and_next_{gpu_}, many_{gpu_};
  int64_t long_steps_ = 1;
  struct Section {  // launches of a step that are recorded together, or one collective
    size_t first = 0, last = 0;
    std::unique_ptr<Graph> graph;  // null: a collective
  };
  std::vector<Section> sections_;          // if there are collectives
  std::unique_ptr<GpuExchange> exchange_;  // likewise
  // By kernel: its call, and where its part of the library's memory begins.
  std::map<size_t, std::pair<const LibraryProduct*, int64_t>> products_;
  int64_t workspace_bytes_ = 0;
  bool called_ = false;  // has each of them been called once?
  std::vector<EventHandle*> events_;
  HostMemory staged_;  // the values of symbols of these, and their ranges
  int64_t under_way_ = 0;
  std::vector<std::shared_ptr<const Shared::Data>> data_;
  Memory arena_, workspace_;
  Memory symbols_;  // the values of symbols for each of `long_steps_`, then their ranges
  std::vector<Address> buffers_;
  backend::UsedStates<Memory> states_;
};

}  // namespace

Array to_array(const Gpu& gpu, const Shape& shape, DType dtype, Address from) {
  Array out(shape, dtype);
  gpu.download(out.mutable_data(), from, shape.elements() * bytes(dtype));
  return out;
}
std::unique_ptr<backend::Executable> make_executable(std::shared_ptr<const plan::Plan> plan,
                                                     std::shared_ptr<Shared> shared) {
  Step step = step_of(*plan, debugging() ? CudaForm::separate : codegen::form_of(plan->scheduled));
  const std::string origin = debugging() ? "" : backend::origin(*plan), note = origin.empty() ? "" : to_text(step);
  auto out = std::make_unique<CudaExecutable>(std::move(plan), std::move(step), std::nullopt, shared);
  if (!origin.empty()) keep(origin, shared->gpu->target().gpu.compute, out->compiled(), note, compile_options(*shared));
  return out;
}
std::unique_ptr<backend::Executable> restored_executable(std::shared_ptr<const plan::Plan> bare,
                                                         std::shared_ptr<Shared> shared) {
  const std::string origin = debugging() ? "" : backend::origin(*bare);
  if (origin.empty()) return nullptr;
  auto kept = find_kept(origin, shared->gpu->target().gpu.compute, compile_options(*shared));
  auto step = kept ? parse_step(kept->note) : std::nullopt;
  if (!step) return nullptr;
  return std::make_unique<CudaExecutable>(std::move(bare), std::move(*step), std::move(kept->compiled),
                                          std::move(shared));
}

}  // namespace caravan::cuda
