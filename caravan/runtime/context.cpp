#include "caravan/runtime/context.h"

#include <algorithm>
#include <set>

#include "caravan/backend/refused_text.h"
#include "caravan/base/error.h"
#include "caravan/base/list_text.h"
#include "caravan/base/names.h"
#include "caravan/ir/text.h"
#include "caravan/plan/cost.h"
#include "caravan/runtime/automatic_device.h"
#include "caravan/runtime/context_impl.h"
#include "caravan/runtime/devices.h"

namespace caravan {

bool fits_given(const StateNode& state, const Shape& shape) {
  const GivenRow* rows[] = {&state.batch, &state.input, &state.output};
  for (RowKind kind : kRowKinds) {
    const GivenRow& given = *rows[size_t(kind)];
    if (!given.given) continue;
    if (given.extents.size() != shape[kind].size()) return false;
    for (size_t i = 0; i < given.extents.size(); ++i)
      if (const Extent& e = given.extents[i]; !e.captured && e.size != shape[kind][i].size) return false;
  }
  return true;
}

namespace {

// The first value of a state must have the sizes that the state was declared with.
void check_given(const StateNode& state, const Shape& shape, Source where) {
  if (fits_given(state, shape)) return;
  const GivenRow* rows[] = {&state.batch, &state.input, &state.output};
  for (RowKind kind : kRowKinds) {
    const GivenRow& given = *rows[size_t(kind)];
    if (!given.given) continue;
    std::string sizes;
    for (const Extent& e : given.extents)
      sizes += (sizes.empty() ? "" : ",") + (e.captured ? std::string("?") : std::to_string(e.size));
    bool fits = given.extents.size() == shape[kind].size();
    for (size_t i = 0; fits && i < given.extents.size(); ++i)
      fits = given.extents[i].captured || given.extents[i].size == shape[kind][i].size;
    if (!fits)
      throw ShapeError("`" + state.name + "` (" + to_string(where) + ") was declared with the " +
                           std::string(name(kind)) + " axes [" + sizes + "]; an array of shape " + to_string(shape) +
                           " cannot be written to it.",
                       where);
  }
}

bool has_shape(const std::vector<Shape>& shapes, const Shape& shape) {
  return std::any_of(shapes.begin(), shapes.end(), [&](const Shape& s) { return same_sizes(s, shape); });
}

}  // namespace

Context::Context(const ContextOptions& options, Source where) : impl_("a Context", std::make_shared<Impl>()) {
  const WrittenAt at(where);
  if (options.threads < 0)
    throw ConfigError("a Context cannot have " + std::to_string(options.threads) +
                      " threads; 0 takes one for each processor.");
  check(options.mesh);
  impl_->options = options;
  impl_->open_device();
}

uint64_t Context::seed() const { return impl_->options.seed; }
std::string Context::device() const { return impl_->device->name(); }
const std::string& Context::device_reason() const { return impl_->device_reason; }

void Context::Impl::open_device() {
  ContextOptions named = options;
  if (options.device == "auto" && !options.make_device) {
    // The devices of a mesh cannot change after they have found each other, so the compiler is tested before.
    const AutomaticDevice found =
        automatic_device(options.cache, options.mesh.exchanges() ? Compiler::passed_self_test : Compiler::can_be_run);
    named.device = found.name;
    device_reason = found.why_interpreted;
  }
  device = options.make_device ? options.make_device(options) : make_device(named);
  if (!device) throw ConfigError("the make_device of the ContextOptions gave no device.");
}

std::unique_ptr<backend::Device> Context::Impl::move_to(std::unique_ptr<backend::Device> other) {
  for (const std::string& name : device->names()) other->write(name, device->read(name), info.at(name).dtype);
  device.swap(other);
  options.device = device->name();
  return other;
}

std::unique_ptr<backend::Device> Context::Impl::take_gpu(const ir::Program& program) {
  if (!may_move() || lender || program.assignments.empty()) return nullptr;
  AutomaticGpu gpu = automatic_gpu(options, plan::operations(program));
  if (!gpu.device) {
    if (device_reason.empty()) device_reason = gpu.why;
    return nullptr;
  }
  try {
    auto before = move_to(std::move(gpu.device));
    device_reason = gpu.why;
    return before;
  } catch (const Error& error) {
    device_reason = backend::brief(error);
    return nullptr;
  }
}

bool Context::Impl::take_interpreter() {
  if (!may_move() || !device_kind(device->name()).compiles_c) return false;
  const AutomaticDevice found = automatic_device(options.cache, Compiler::passed_self_test);
  if (found.why_interpreted.empty()) return false;
  ContextOptions named = options;
  named.device = found.name;
  move_to(make_device(named));
  device_reason = found.why_interpreted;
  return true;
}

// An input that the program declares with other sizes than its value has counts as unknown: it gets a value of those
// sizes before it runs.
Inference Context::Impl::infer(const Program& program) const {
  KnownShapes shapes = known();
  std::vector<Tensor> roots = program.observed();
  for (const Program::Assignment& a : program.assignments()) roots.push_back(a.state), roots.push_back(a.value);
  for (const Tensor& t : topological(roots, false)) {
    const StateNode* state = t.node().state();
    if (!state || state->init.kind != Init::Kind::none || !is_input(state->name)) continue;
    if (auto at = shapes.find(state->name); at != shapes.end() && !fits_given(*state, at->second)) shapes.erase(at);
  }
  return Inference(program, shapes);
}

Routine Context::compile(const Program& program, Source where) {
  const WrittenAt written(where);
  const Impl::Use used(*impl_);
  auto routine = std::make_shared<Routine::Impl>(impl_->infer(program));
  const Inference& inference = routine->inference;
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
                           std::string(name(t.dtype())) + ".",
                       t.node().where);
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
      now.shapes = at->second.shapes;
      if (at->second.declared) now.input = now.input && at->second.input;
    }
    if (now.input && !has_shape(now.shapes, shape)) now.shapes.push_back(shape);
    if (impl_->device->has(state->name)) {
      if (at != impl_->info.end() && at->second.any_axes && at->second.shape.sizes() != shape.sizes())
        throw ShapeError("`" + state->name + "` was loaded with the sizes " + to_string(at->second.shape) +
                             ", but the program (" + to_string(t.node().where) + ") has it as " + to_string(shape) +
                             ".",
                         t.node().where);
      // A reader's state that lies in memory of its lender has only its axes to learn.
      const bool shared = impl_->lent.count(state->name) && impl_->device->memory(state->name);
      if (at != impl_->info.end() && (at->second.dtype != t.dtype() || (at->second.any_axes && !shared)))
        adopted[state->name] = impl_->device->read(state->name).reshaped(shape);
      continue;
    }
    if (impl_->loaded && !state->owner && state->init.kind != Init::Kind::none)
      throw StateError("`" + state->name + "` (" + to_string(t.node().where) +
                           ") is not among the states that were loaded into the Context; compile the program before "
                           "loading, and load with {.allow_missing = true}, to begin with its initial value.",
                       t.node().where);
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
  for (const auto& a : solved.assignments) {
    const std::string& name = solved.buffers[size_t(a.state)].name;
    routine->assigned_names.push_back(name);
    if (impl_->lent.count(name)) impl_->check_may_change(name);
  }
  for (const auto& [name, value] : adopted)
    if (!impl_->lent.count(name)) impl_->check_may_change(name);
  KnownShapes shapes;
  for (const auto& [name, i] : info) shapes.emplace(name, i.shape);
  auto prepare_once = [&] {
    if ((routine->plan = impl_->plans->find(program, shapes))) {
      routine->executable = impl_->device->prepare(routine->plan);
      return;
    }
    backend::Prepared prepared = backend::prepare(*impl_->device, impl_->for_one_device(solved), impl_->plan_options());
    routine->plan = std::move(prepared.plan), routine->executable = std::move(prepared.executable);
    if (routine->plan->made || !impl_->device->target()) impl_->plans->keep(program, shapes, routine->plan);
  };
  auto prepare = [&] {
    try {
      prepare_once();
    } catch (const BackendError&) {
      if (!impl_->take_interpreter()) throw;
      prepare_once();
    }
  };
  if (std::unique_ptr<backend::Device> before = impl_->take_gpu(solved)) {
    try {
      prepare();
    } catch (const Error& error) {  // most often it is full
      impl_->device = std::move(before);
      impl_->options.device = "auto";
      impl_->device_reason = backend::brief(error);
      prepare();
    }
  } else {
    prepare();
  }
  routine->symbols.resize(routine->indices.size());
  for (auto& [name, i] : info) impl_->info[name] = i;  // nothing fails from here on
  for (auto& [name, places] : mesh::state_places(routine->plan->program, impl_->options.mesh))
    impl_->places[name] = std::move(places);
  for (const auto& [name, value] : adopted) impl_->adopt(name, value);
  for (const std::string& name : fresh) impl_->initialise(name);
  for (const auto& a : solved.assignments)
    routine->assigned.push_back(&impl_->info.at(solved.buffers[size_t(a.state)].name));
  for (Impl::Info* assigned : routine->assigned) assigned->input = false;
  for (const auto& [name, i] : info)
    if (const Impl::Info& kept = impl_->info.at(name); kept.input) routine->inputs.push_back({name, i.shape, &kept});
  for (const Tensor& t : tensors)
    if (const StateNode* state = t.node().state(); state && state->owner)
      routine->owned.push_back({state->name, &impl_->info.at(state->name), state->owner});
  routine->seen_resets = impl_->resets;
  impl_->has_programs = true;
  return Routine(std::move(routine));
}

Array Context::eval(const Tensor& tensor, const IndexValues& values, Source where) {
  return eval(std::vector<Tensor>{tensor}, values, where)[0];
}
std::vector<Array> Context::eval(const std::vector<Tensor>& tensors, const IndexValues& values, Source where) {
  const WrittenAt at(where);
  const Impl::Use use(*impl_);
  Routine routine = compile(observe(tensors));
  routine.run(values);
  std::vector<Array> out;
  for (const Tensor& t : tensors) out.push_back(routine.read(t));
  return out;
}

std::shared_ptr<const plan::Plan> Context::plan(const Program& program, const Target& target, const Mesh& mesh) const {
  ir::Program divided = mesh::shard(to_ir(program, impl_->infer(program)), mesh, {});
  ir::verify(divided);
  return backend::plan_for(target, divided, impl_->plan_options());
}
std::map<std::string, Shape> Context::shapes() const { return impl_->known(); }
Shape Context::shape(const Tensor& tensor, Source where) {
  const WrittenAt at(where);
  return impl_->infer(observe(tensor)).shape(tensor);
}

void Context::collect_states() {
  const Impl::Use use(*impl_);
  impl_->device->collect_states();
}
Exchanged Context::take_exchanged() {
  const Impl::Use use(*impl_);
  return impl_->device->take_exchanged();
}

bool Context::has(const std::string& name) const { return impl_->device->has(name); }
bool Context::is_input(const std::string& name) const { return impl_->is_input(name); }
DType Context::dtype(const std::string& name, Source where) const {
  return has(name) ? impl_->info.at(name).dtype : read(name, where).dtype();
}
std::vector<std::string> Context::names() const { return impl_->device->names(); }

void Context::check_has(const std::string& name) const {
  if (has(name)) return;
  const std::string meant = nearest(name, names()), known = joined(names());
  throw StateError("the Context has no state `" + name + "`; " +
                   (meant.empty() ? "it exists after a program that uses it was compiled, or after a write."
                                  : "did you mean `" + meant + "`?") +
                   (known.empty() ? "" : " It has: " + known + "."));
}
const std::string& Context::name_of(const Tensor& state) {
  if (const StateNode* s = state.node().state()) return s->name;
  throw StateError("`" + describe(state) + "` (" + to_string(state.node().where) +
                       ") is computed, not state: observe it in a program, or use eval.",
                   state.node().where);
}
Array Context::read(const std::string& name, Source where) const {
  const WrittenAt at(where);
  impl_->check_unused();
  check_has(name);
  return impl_->device->read(name);
}
Array Context::read(const Tensor& state, Source where) const {
  const WrittenAt at(where);
  return read(name_of(state));
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
  if (!same_sizes(shape, value.shape()) && !has_shape(at->second.shapes, value.shape()))
    throw ShapeError("`" + name + "` has the shape " + to_string(shape) + "; an array of shape " +
                     to_string(value.shape()) + " cannot be written to it.");
  if (dtype == value.dtype() || holds_all(dtype, value.dtype())) return;
  const bool rounds = is_float(dtype) && !is_float(value.dtype());  // an integer is not to become its neighbour
  for (double v : value.values())
    if (!can_hold(dtype, v) || (rounds && convert(dtype, v) != v))
      throw DTypeError(
          "`" + name + "` is " + std::string(caravan::name(dtype)) + "; the value " + ir::number_text(v) +
          (can_hold(dtype, v) ? " would be rounded to " + ir::number_text(convert(dtype, v)) + "." : " does not fit."));
}
void Context::write(const std::string& name, const Array& value, const WriteOptions& options, Source where) {
  const WrittenAt at(where);
  const Impl::Use use(*impl_);
  check_write(name, value, options);
  Impl::Info info{value.shape(), value.dtype(), false};
  info.created = options.create;
  info.any_axes = options.any_axes && !impl_->info.count(name);
  impl_->loaded = impl_->loaded || info.any_axes;
  impl_->info.emplace(name, info);
  impl_->write(name, value);
  Impl::Info& now = impl_->info.at(name);
  if (!same_sizes(now.shape, value.shape()))  // an input, which programs have with several sizes
    now.shape = *std::find_if(now.shapes.begin(), now.shapes.end(),
                              [&](const Shape& s) { return same_sizes(s, value.shape()); });
}
void Context::write(const std::map<std::string, Array>& values, const WriteOptions& options, Source where) {
  const WrittenAt at(where);
  const Impl::Use use(*impl_);
  for (const auto& [name, value] : values) check_write(name, value, options);
  for (const auto& [name, value] : values) write(name, value, options);
}
std::vector<std::string> Context::unused() const {
  std::vector<std::string> out;
  for (const auto& [name, info] : impl_->info)
    if (!info.declared) out.push_back(name);
  return out;
}
void Context::write(const Tensor& state, const Array& value, Source where) {
  const WrittenAt at(where);
  const Impl::Use use(*impl_);
  const StateNode* s = state.node().state();
  if (!s)
    throw StateError("`" + describe(state) + "` (" + to_string(state.node().where) +
                         ") is computed, not state: it cannot be written.",
                     state.node().where);
  if (!impl_->info.count(s->name)) {
    check_given(*s, value.shape(), state.node().where);
    Impl::Info info{value.shape(), state.dtype()};
    info.input = s->init.kind == Init::Kind::none;
    info.shapes = {value.shape()};
    impl_->info.emplace(s->name, info);
    try {
      write(s->name, value);
    } catch (...) {
      impl_->info.erase(s->name);
      throw;
    }
    return;
  }
  Impl::Info& info = impl_->info.at(s->name);  // an input may be declared with other sizes elsewhere
  const bool other_sizes = info.input && fits_given(*s, value.shape()) && !fits_given(*s, info.shape);
  if (other_sizes && !has_shape(info.shapes, value.shape())) info.shapes.push_back(value.shape());
  write(s->name, value);
}

void Context::reset(const std::string& optimizer, Source where) {
  const WrittenAt at(where);
  const Impl::Use use(*impl_);
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

void copy_state(const Context& from, Context& to, const std::string& name, Source where) {
  const WrittenAt at(where);
  to.write(name, from.read(name), {.create = true});
}
void copy_states(const Context& from, Context& to, Source where) {
  const WrittenAt at(where);
  std::map<std::string, Array> values;
  for (const std::string& name : from.names()) values.emplace(name, from.read(name));
  to.write(values, {.create = true});  // also what only a program that comes later has
}

}  // namespace caravan
