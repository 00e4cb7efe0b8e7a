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

namespace {

std::array<const GivenRow*, 3> given_rows(const StateNode& state) {  // in the order of RowKind
  return {&state.batch, &state.input, &state.output};
}

bool fits(const GivenRow& given, const std::vector<Axis>& axes) {
  return !given.given ||
         std::equal(given.extents.begin(), given.extents.end(), axes.begin(), axes.end(),
                    [](const Extent& e, const Axis& axis) { return e.captured || e.size == axis.size; });
}

// The first value of a state must have the sizes that the state was declared with.
void check_given(const StateNode& state, const Shape& shape, Source where) {
  for (RowKind kind : kRowKinds) {
    const GivenRow& given = *given_rows(state)[size_t(kind)];
    if (fits(given, shape[kind])) continue;
    std::string sizes;
    for (const Extent& e : given.extents)
      sizes += (sizes.empty() ? "" : ",") + (e.captured ? std::string("?") : std::to_string(e.size));
    throw ShapeError("`" + state.name + "` (" + to_string(where) + ") was declared with the " +
                         std::string(name(kind)) + " axes [" + sizes + "]; an array of shape " + to_string(shape) +
                         " cannot be written to it.",
                     where);
  }
}

}  // namespace

bool fits_given(const StateNode& state, const Shape& shape) {
  const auto rows = given_rows(state);
  return std::all_of(kRowKinds.begin(), kRowKinds.end(),
                     [&](RowKind kind) { return fits(*rows[size_t(kind)], shape[kind]); });
}

bool has_sizes(const std::vector<Shape>& shapes, const Shape& shape) {
  return std::any_of(shapes.begin(), shapes.end(), [&](const Shape& s) { return same_sizes(s, shape); });
}

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
  if (!same_sizes(shape, value.shape()) && !has_sizes(at->second.shapes, value.shape()))
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
  if (other_sizes && !has_sizes(info.shapes, value.shape())) info.shapes.push_back(value.shape());
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
