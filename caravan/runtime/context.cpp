#include "caravan/runtime/context.h"

#include <chrono>
#include <limits>
#include <set>

#include "caravan/backend/backend.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/names.h"
#include "caravan/ir/text.h"
#include "caravan/plan/profile.h"
#include "caravan/runtime/devices.h"
#include "caravan/runtime/ids.h"
#include "caravan/runtime/initial_values.h"
#include "caravan/tensor/infer.h"

namespace caravan {

struct Context::Impl {
  struct Info {
    Shape shape;
    DType dtype = DType::f32;
    bool declared = true;    // by a program; otherwise written by name alone, and any float precision may adopt it
    uint64_t writes = 0;     // by the host, its initial value among them
    bool from_host = false;  // its value; otherwise a program assigned it
    bool input = false;      // declared without an initialiser, and no program assigns it
    bool created = false;    // by a write that said so
    Init init{Init::Kind::none, 0, 0, nullptr};  // what it was filled from, or would have been
    StateOwnerRef owner{};                       // the optimiser whose program was compiled last, if any
  };
  ContextOptions options;
  std::unique_ptr<backend::Device> device;
  std::map<std::string, Info> info;  // of states that programs use or the user wrote
  uint64_t writes = 0;               // to all states
  bool has_programs = false;
  uint64_t resets = 0;  // after each, the states of an optimiser may have gone to another

  void write(const std::string& name, const Array& value) {
    device->write(name, value, info.at(name).dtype);
    note_written(name);
  }
  void initialise(const std::string& name) {
    const Info& to = info.at(name);
    fill_initial(*device, {name, to.shape, to.dtype, to.init}, options.seed, options.threads);
    note_written(name);
  }
  void note_written(const std::string& name) {
    Info& to = info.at(name);
    ++to.writes, ++writes;
    to.from_host = true;
  }
  KnownShapes known() const {
    KnownShapes out;
    for (const auto& [name, i] : info)
      if (device->has(name)) out[name] = i.shape;
    return out;
  }
};

struct Routine::Impl {
  std::shared_ptr<Context::Impl> context;
  std::shared_ptr<const plan::Plan> plan;   // what the device needs of it
  std::shared_ptr<const plan::Plan> shown;  // all of it, where the device does not need it and somebody asked
  std::unique_ptr<backend::Executable> executable;
  std::vector<Tensor> observed;
  std::vector<std::string> indices;
  std::vector<int64_t> symbols, ranges;  // kept, so that a step allocates nothing
  bool ran = false;

  // Ids in states are looked at when the host wrote them since the last look.
  struct StateIds {
    IdUse use;
    uint64_t seen = 0;  // writes
  };
  std::vector<StateIds> ids;
  uint64_t seen = 0;
  void check_written_ids() {
    if (ids.empty() || seen == context->writes) return;
    for (StateIds& i : ids) {
      const ir::Program& program = plan->program;
      const std::string& name = program.buffers[size_t(i.use.leaf)].name;
      const Context::Impl::Info& info = context->info.at(name);
      if (i.seen != info.writes && info.from_host) check_ids(program, i.use, context->device->read(name));
      i.seen = info.writes;
    }
    seen = context->writes;
  }
  // After a reset, an optimiser's states are those of the first that uses them.
  struct Owned {
    std::string name;
    Context::Impl::Info* info;
    StateOwnerRef owner;
  };
  std::vector<Owned> owned;
  uint64_t seen_resets = 0;
  void check_owners() {
    if (seen_resets == context->resets) return;
    for (const Owned& o : owned) check_owner(o.name, o.info->owner, o.owner);
    for (const Owned& o : owned) o.info->owner = o.owner;
    seen_resets = context->resets;
  }
  std::vector<Context::Impl::Info*> assigned;
  void note_run() {
    for (Context::Impl::Info* info : assigned) info->from_host = false;
    ran = true;
  }
};

namespace {

// The first value of a state must have the sizes that the state was declared with.
void check_given(const StateNode& state, const Shape& shape, Source where) {
  const GivenRow* rows[] = {&state.batch, &state.input, &state.output};
  for (RowKind kind : kRowKinds) {
    const GivenRow& given = *rows[size_t(kind)];
    if (!given.given) continue;
    bool fits = given.extents.size() == shape[kind].size();
    std::string sizes;
    for (size_t i = 0; i < given.extents.size(); ++i) {
      const Extent& e = given.extents[i];
      sizes += (i ? "," : "") + (e.captured ? std::string("?") : std::to_string(e.size));
      fits = fits && (e.captured || e.size == shape[kind][i].size);
    }
    if (!fits)
      throw ShapeError("`" + state.name + "` (" + to_string(where) + ") was declared with the " +
                       std::string(name(kind)) + " axes [" + sizes + "]; an array of shape " + to_string(shape) +
                       " cannot be written to it.");
  }
}

}  // namespace

Context::Context(const ContextOptions& options) : impl_("a Context", std::make_shared<Impl>()) {
  impl_->options = options;
  impl_->device = options.make_device ? options.make_device(options) : make_device(options);
  if (!impl_->device) throw ConfigError("the make_device of the ContextOptions gave no device.");
}

uint64_t Context::seed() const { return impl_->options.seed; }
std::string Context::device() const { return impl_->device->name(); }

Routine Context::compile(const Program& program) {
  Inference inference(program, impl_->known());
  auto routine = std::make_shared<Routine::Impl>();
  std::vector<Tensor> tensors;
  const ir::Program solved = to_ir(program, inference, &tensors);
  ir::verify(solved);
  for (IdUse& use : id_uses(solved)) {
    if (auto* data = std::get_if<ir::DataLeaf>(&solved.buffers[size_t(use.leaf)].kind))
      check_ids(solved, use, data->array);
    else
      routine->ids.push_back({std::move(use)});
  }
  routine->context = impl_.shared();
  routine->observed = program.observed_as();
  for (const ir::Symbol& symbol : solved.symbols)
    routine->indices.push_back(symbol.name), routine->ranges.push_back(symbol.range);

  std::map<std::string, Impl::Info> info;
  std::map<std::string, Array> adopted;
  std::vector<std::string> fresh;
  for (const Tensor& t : tensors) {
    const StateNode* state = t.node().state();
    if (!state) continue;
    auto at = impl_->info.find(state->name);
    auto adopts = [&](const Impl::Info& known) {
      return !known.declared && is_float(known.dtype) && is_float(t.dtype());
    };
    if (at != impl_->info.end() && at->second.dtype != t.dtype() && !adopts(at->second))
      throw DTypeError("`" + state->name + "` is " + std::string(name(at->second.dtype)) +
                       " in the Context, but the program (" + to_string(t.node().where) + ") has it as " +
                       std::string(name(t.dtype())) + ".");
    Shape shape = inference.shape(t);
    info[state->name] = {shape, t.dtype(), true};
    Impl::Info& now = info[state->name];
    now.input = state->init.kind == Init::Kind::none;
    now.init = state->init.kind == Init::Kind::automatic ? impl_->options.init : state->init;
    now.owner = state->owner;
    if (at != impl_->info.end()) {
      check_owner(state->name, at->second.owner, state->owner);
      if (!now.owner) now.owner = at->second.owner;
      if (now.input) now.init = at->second.init;
      now.writes = at->second.writes, now.from_host = at->second.from_host;
      if (at->second.declared) now.input = now.input && at->second.input;
    }
    if (impl_->device->has(state->name)) {
      if (at != impl_->info.end() && at->second.dtype != t.dtype())
        adopted[state->name] = impl_->device->read(state->name);
      continue;
    }
    if (now.init.kind != Init::Kind::none) {
      check_initial({state->name, shape, t.dtype(), now.init});
      fresh.push_back(state->name);
    }
  }
  for (const auto& [written, known] : impl_->info) {  // a slip in a name leaves the state it was meant for as it is
    if (known.declared || known.created || info.count(written)) continue;
    for (const auto& [name, now] : info)
      if (!impl_->device->has(name) && looks_like(written, name))
        throw StateError("`" + written + "` was written, but no program has a state of that name; did you mean `" +
                         name + "`, which nothing was written to? If both exist, write `" + written +
                         "` by its tensor or with {.create = true}.");
  }
  routine->plan = backend::needed_plan(*impl_->device, solved, {impl_->options.passes_off});
  routine->executable = impl_->device->prepare(routine->plan);
  routine->symbols.resize(routine->indices.size());
  for (auto& [name, i] : info) impl_->info[name] = i;  // nothing fails from here on
  for (const auto& [name, value] : adopted) impl_->write(name, value);
  for (const std::string& name : fresh) impl_->initialise(name);
  for (const auto& a : solved.assignments)
    routine->assigned.push_back(&impl_->info.at(solved.buffers[size_t(a.state)].name));
  for (Impl::Info* assigned : routine->assigned) assigned->input = false;
  for (const Tensor& t : tensors)
    if (const StateNode* state = t.node().state(); state && state->owner)
      routine->owned.push_back({state->name, &impl_->info.at(state->name), state->owner});
  routine->seen_resets = impl_->resets;
  impl_->has_programs = true;
  return Routine(std::move(routine));
}

void Routine::bind(const IndexValues& values) {
  const ir::Program& program = impl_->plan->program;
  std::vector<int64_t>& symbols = impl_->symbols;
  for (size_t s = 0; s < symbols.size(); ++s) {
    bool bound = false;
    for (const auto& [index, value] : values)
      if (index.name() == program.symbols[s].name) bound = true, symbols[s] = value;
    if (!bound)
      throw StateError("the index `" + program.symbols[s].name + "` is not bound; run it with {{" +
                       program.symbols[s].name + ", value}}.");
  }
}

void Routine::run(const IndexValues& values) {
  bind(values);
  impl_->check_owners();
  impl_->check_written_ids();
  try {
    impl_->executable->run(impl_->symbols);
  } catch (const std::bad_alloc&) {
    throw BackendError("there is not enough memory to run `" + impl_->plan->program.name + "` on " +
                       impl_->context->device->name() + ".");
  }
  impl_->note_run();
}

void Routine::run_steps(int64_t steps, const IndexValues& first) {
  bind(first);
  if (steps < 0) throw StateError("`run_steps` was asked for " + std::to_string(steps) + " steps.");
  if (steps == 0) return;
  for (size_t k = 0; k < impl_->symbols.size(); ++k)
    if (impl_->ranges[k] == 0 && impl_->symbols[k] > std::numeric_limits<int64_t>::max() - steps)
      throw StateError("`run_steps` of " + std::to_string(steps) + " steps would take the index `" + impl_->indices[k] +
                       "` from " + std::to_string(impl_->symbols[k]) + " beyond the largest number there is.");
  impl_->check_owners();
  impl_->check_written_ids();
  impl_->executable->run_steps(steps, impl_->symbols, impl_->ranges);
  impl_->note_run();
}

Array Routine::read(const Tensor& observed) const {
  for (size_t i = 0; i < impl_->observed.size(); ++i) {
    if (!impl_->observed[i].same_as(observed)) continue;
    if (!impl_->ran)
      throw StateError("`" + observed.node().label + "` has no value yet: run the routine before reading it.");
    return impl_->executable->observed(i);
  }
  throw StateError(
      "`" + observed.node().label + "` (" + caravan::to_string(observed.node().where) +
      ") is not observed by this program; add `& observe(tensor)` to it, or use Context::read for a state.");
}

const std::vector<std::string>& Routine::indices() const { return impl_->indices; }
std::string Routine::to_string() const { return ir::to_string(impl_->plan->program); }
const plan::Plan& Routine::plan() const {
  if (impl_->context->device->target()) return *impl_->plan;
  if (!impl_->shown)
    impl_->shown =
        backend::plan_for(*impl_->context->device, impl_->plan->program, {impl_->context->options.passes_off});
  return *impl_->shown;
}
plan::Profile Routine::profile(const ProfileOptions& options) {
  using Clock = std::chrono::steady_clock;
  bind(options.first);
  if (options.steps < 0) throw StateError("`profile` was asked for " + std::to_string(options.steps) + " steps.");
  impl_->check_owners();
  impl_->check_written_ids();
  backend::Executable& executable = *impl_->executable;
  auto untimed = [&](int64_t steps) {  // nanoseconds
    const auto start = Clock::now();
    executable.run_steps(steps, impl_->symbols, impl_->ranges);
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  const auto first = executable.run_timed(1, impl_->symbols, impl_->ranges);  // compiles, and touches all memory
  if (!first)
    throw BackendError("the device `" + impl_->context->device->name() +
                       "` does not run kernels, so there is nothing to time; use the device `cpu`.");
  int64_t steps = options.steps;
  if (steps == 0) {  // half of the time for steps with the clock, half for those without
    constexpr double kHalf = 0.25e9;
    int64_t tried = 1;
    double spent = untimed(tried);
    while (spent < kHalf / 100) spent = untimed(tried *= 4);
    steps = std::max<int64_t>(1, int64_t(kHalf / spent * double(tried)));
  }
  std::vector<double> times(first->size(), 0);
  double whole = 0;
  constexpr int64_t kRounds = 8;  // in turn, so that what disturbs one kind disturbs the other
  for (int64_t done = 0, round = 1; round <= kRounds; ++round) {
    const int64_t some = steps * round / kRounds - done;
    if (some == 0) continue;
    const std::vector<double> spent = *executable.run_timed(some, impl_->symbols, impl_->ranges);
    for (size_t k = 0; k < times.size(); ++k) times[k] += spent[k] / double(steps);
    whole += untimed(some) / double(steps);
    done += some;
  }
  impl_->note_run();
  plan::Profile out = plan::make_profile(plan(), times, impl_->context->device->peaks().value_or(Peaks{}));
  out.steps = steps, out.step_microseconds = whole / 1e3;
  return out;
}
RoutineReport Routine::report() const {
  backend::Report report = impl_->executable->report();
  return {report.arena_bytes, report.kernels, std::move(report.sources), report.from_cache};
}

Array Context::eval(const Tensor& tensor, const IndexValues& values) {
  return eval(std::vector<Tensor>{tensor}, values)[0];
}
std::vector<Array> Context::eval(const std::vector<Tensor>& tensors, const IndexValues& values) {
  Routine routine = compile(observe(tensors));
  routine.run(values);
  std::vector<Array> out;
  for (const Tensor& t : tensors) out.push_back(routine.read(t));
  return out;
}

ir::Program Context::solved(const Program& program) const { return to_ir(program, Inference(program, impl_->known())); }
std::shared_ptr<const plan::Plan> Context::plan(const Program& program) const {
  return backend::plan_for(*impl_->device, solved(program), {impl_->options.passes_off});
}
std::map<std::string, Shape> Context::shapes() const { return impl_->known(); }
Shape Context::shape(const Tensor& tensor) { return Inference(observe(tensor), impl_->known()).shape(tensor); }

bool Context::has(const std::string& name) const { return impl_->device->has(name); }
bool Context::is_input(const std::string& name) const {
  const auto at = impl_->info.find(name);
  return at != impl_->info.end() && at->second.input;
}
DType Context::dtype(const std::string& name) const {
  return has(name) ? impl_->info.at(name).dtype : read(name).dtype();
}
std::vector<std::string> Context::names() const { return impl_->device->names(); }

Array Context::read(const std::string& name) const {
  if (!has(name)) {
    std::string known;
    for (const std::string& n : names()) known += (known.empty() ? " It has: " : ", ") + n;
    throw StateError("the Context has no state `" + name +
                     "`; it exists after a program that uses it was compiled, or after a write." +
                     (known.empty() ? "" : known + "."));
  }
  return impl_->device->read(name);
}
Array Context::read(const Tensor& state) const {
  if (const StateNode* s = state.node().state()) return read(s->name);
  throw StateError("`" + state.node().label + "` (" + to_string(state.node().where) +
                   ") is computed, not state: observe it in a program, or use eval.");
}

void Context::check_write(const std::string& name, const Array& value, const WriteOptions& options) const {
  auto at = impl_->info.find(name);
  if (at == impl_->info.end()) {
    if (options.create || !impl_->has_programs) return;
    std::vector<std::string> known;
    for (const auto& [other, info] : impl_->info) known.push_back(other);
    const std::string meant = nearest(name, known);
    throw StateError("no program of this Context has a state `" + name + "`" +
                     (meant.empty() ? "" : "; did you mean `" + meant + "`?") + (meant.empty() ? ". To" : " To") +
                     " write it for a program that comes later, write it by its tensor or with {.create = true}.");
  }
  const Shape& shape = at->second.shape;
  const DType dtype = at->second.dtype;
  if (!same_sizes(shape, value.shape()))
    throw ShapeError("`" + name + "` has the shape " + to_string(shape) + "; an array of shape " +
                     to_string(value.shape()) + " cannot be written to it.");
  if (dtype == value.dtype()) return;
  const bool rounds = is_float(dtype) && !is_float(value.dtype());  // an integer is not to become its neighbour
  for (double v : value.values())
    if (!can_hold(dtype, v) || (rounds && convert(dtype, v) != v))
      throw DTypeError(
          "`" + name + "` is " + std::string(caravan::name(dtype)) + "; the value " + ir::number_text(v) +
          (can_hold(dtype, v) ? " would be rounded to " + ir::number_text(convert(dtype, v)) + "." : " does not fit."));
}
void Context::write(const std::string& name, const Array& value, const WriteOptions& options) {
  check_write(name, value, options);
  Impl::Info info{value.shape(), value.dtype(), false};
  info.created = options.create;
  impl_->info.emplace(name, info);
  impl_->write(name, value);
}
void Context::write(const std::map<std::string, Array>& values, const WriteOptions& options) {
  for (const auto& [name, value] : values) check_write(name, value, options);
  for (const auto& [name, value] : values) write(name, value, options);
}
std::vector<std::string> Context::unused() const {
  std::vector<std::string> out;
  for (const auto& [name, info] : impl_->info)
    if (!info.declared) out.push_back(name);
  return out;
}
void Context::write(const Tensor& state, const Array& value) {
  const StateNode* s = state.node().state();
  if (!s)
    throw StateError("`" + state.node().label + "` (" + to_string(state.node().where) +
                     ") is computed, not state: it cannot be written.");
  if (!impl_->info.count(s->name)) {
    check_given(*s, value.shape(), state.node().where);
    Impl::Info info{value.shape(), state.dtype()};
    impl_->info.emplace(s->name, info);
    try {
      write(s->name, value);
    } catch (...) {
      impl_->info.erase(s->name);
      throw;
    }
    return;
  }
  write(s->name, value);
}

void Context::reset(const std::string& optimizer) {
  std::vector<std::string> kept;
  std::set<std::string> others;
  for (const auto& [name, info] : impl_->info) {
    if (!info.owner) continue;
    others.insert(info.owner->name);
    if (info.owner->name == optimizer) kept.push_back(name);
  }
  if (kept.empty())
    throw StateError("no program of this Context has an optimiser `" + optimizer + "` that keeps states" +
                     (others.empty() ? "." : "; there is " + joined(others) + "."));
  for (const std::string& name : kept) impl_->initialise(name), impl_->info.at(name).owner = nullptr;
  ++impl_->resets;
}

void copy_state(const Context& from, Context& to, const std::string& name) {
  to.write(name, from.read(name), {.create = true});
}
void copy_states(const Context& from, Context& to) {
  std::map<std::string, Array> values;
  for (const std::string& name : from.names()) values.emplace(name, from.read(name));
  to.write(values, {.create = true});  // also what only a program that comes later has
}

}  // namespace caravan
