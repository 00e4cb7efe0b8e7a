// Context::compile: from a program to a routine that is ready to run.
#include "caravan/backend/refused_text.h"
#include "caravan/base/error.h"
#include "caravan/base/names.h"
#include "caravan/runtime/context_impl.h"

namespace caravan {

// What a program declares of the states of a Context, and what has to happen to them before it runs.
struct Context::Impl::Declared {
  std::map<std::string, Info> info;
  std::map<std::string, Array> adopted;  // values that exist, in the axes and the precision of the program
  std::vector<std::string> fresh;        // those that get their initial values
};

// Merges what the program says of a state with what is known of it. `before` is null if the Context does not know it.
Context::Impl::Info Context::Impl::merged(const Tensor& t, const Shape& shape, const Info* before) const {
  const StateNode& state = *t.node().state();
  const bool adopts = before && !before->declared && is_float(before->dtype) && is_float(t.dtype());
  if (before && before->dtype != t.dtype() && !adopts)
    throw DTypeError("`" + state.name + "` is " + std::string(name(before->dtype)) +
                         " in the Context, but the program (" + to_string(t.node().where) + ") has it as " +
                         std::string(name(t.dtype())) + ".",
                     t.node().where);
  Info out{shape, t.dtype(), true};
  out.input = state.init.kind == Init::Kind::none;
  out.init = state.init.kind == Init::Kind::automatic ? options.init : state.init;
  out.owner = state.owner;
  if (before) {
    check_owner(state.name, before->owner, state.owner);
    if (!out.owner) out.owner = before->owner;
    if (out.input) out.init = before->init;
    out.writes = before->writes, out.from_host = before->from_host;
    out.shapes = before->shapes;
    if (before->declared) out.input = out.input && before->input;
  }
  if (out.input && !has_sizes(out.shapes, shape)) out.shapes.push_back(shape);
  return out;
}

// Whether the value of a state has to be stored again for this program. A reader's state that lies in memory of its
// lender has only its axes to learn.
bool Context::Impl::must_adopt(const Tensor& t, const Shape& shape, const Info* before) const {
  if (!before) return false;
  const std::string& name = t.node().state()->name;
  if (before->any_axes && before->shape.sizes() != shape.sizes())
    throw ShapeError("`" + name + "` was loaded with the sizes " + to_string(before->shape) + ", but the program (" +
                         to_string(t.node().where) + ") has it as " + to_string(shape) + ".",
                     t.node().where);
  const bool shared = lent.count(name) && device->memory(name);
  return before->dtype != t.dtype() || (before->any_axes && !shared);
}

Context::Impl::Declared Context::Impl::declared_by(const std::vector<Tensor>& tensors,
                                                   const Inference& inference) const {
  Declared out;
  for (const Tensor& t : tensors) {
    const StateNode* state = t.node().state();
    if (!state) continue;
    const auto at = info.find(state->name);
    const Info* before = at == info.end() ? nullptr : &at->second;
    const Shape shape = inference.shape(t);
    const Info& now = out.info[state->name] = merged(t, shape, before);
    if (device->has(state->name)) {
      if (must_adopt(t, shape, before)) out.adopted[state->name] = device->read(state->name).reshaped(shape);
      continue;
    }
    if (loaded && !state->owner && state->init.kind != Init::Kind::none)
      throw StateError("`" + state->name + "` (" + to_string(t.node().where) +
                           ") is not among the states that were loaded into the Context; compile the program before "
                           "loading, and load with {.allow_missing = true}, to begin with its initial value.",
                       t.node().where);
    if (now.init.kind == Init::Kind::none) continue;
    check_initial({state->name, shape, t.dtype(), now.init});
    out.fresh.push_back(state->name);
  }
  return out;
}

// A slip in the name of a state that was written leaves the state it was meant for as it is.
void Context::Impl::check_written_names(const Declared& declared) const {
  for (const auto& [written, known] : info) {
    if (known.declared || known.created || declared.info.count(written)) continue;
    for (const auto& [name, now] : declared.info)
      if (!device->has(name) && looks_like(written, name))
        throw StateError("`" + written + "` was written, but no program has a state of that name; did you mean `" +
                         name + "`, which nothing was written to? If both exist, write `" + written +
                         "` by its tensor or with {.create = true}.");
  }
}

// Plans the program, or takes the plan of an equal one, and has the device compile it. A device that is `auto` may
// change: to a GPU, if the program gains from it, and to the interpreter, if the C compiler is to blame for a failure.
void Context::Impl::make_ready(Routine::Impl& routine, const Program& program, const ir::Program& solved,
                               const KnownShapes& shapes) {
  auto prepare_once = [&] {
    if ((routine.plan = plans->find(program, shapes))) {
      routine.executable = device->prepare(routine.plan);
      return;
    }
    backend::Prepared prepared = backend::prepare(*device, for_one_device(solved), plan_options());
    routine.plan = std::move(prepared.plan), routine.executable = std::move(prepared.executable);
    if (routine.plan->made || !device->target()) plans->keep(program, shapes, routine.plan);
  };
  auto prepare = [&] {
    try {
      prepare_once();
    } catch (const BackendError&) {
      if (!take_interpreter()) throw;
      prepare_once();
    }
  };
  std::unique_ptr<backend::Device> before = take_gpu(solved);
  if (!before) return prepare();
  try {
    prepare();
  } catch (const Error& error) {  // most often it is full
    device = std::move(before);
    options.device = "auto";
    device_reason = backend::brief(error);
    prepare();
  }
}

Routine Context::compile(const Program& program, Source where) {
  const WrittenAt written(where);
  const Impl::Use used(*impl_);
  Impl& context = *impl_;
  auto routine = std::make_shared<Routine::Impl>(context.infer(program));
  std::vector<Tensor> tensors;
  const ir::Program solved = to_ir(program, routine->inference, &tensors);
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
  routine->symbols.resize(routine->indices.size());

  const Impl::Declared declared = context.declared_by(tensors, routine->inference);
  context.check_written_names(declared);
  for (const auto& a : solved.assignments) {
    const std::string& name = solved.buffers[size_t(a.state)].name;
    routine->assigned_names.push_back(name);
    if (context.lent.count(name)) context.check_may_change(name);
  }
  for (const auto& [name, value] : declared.adopted)
    if (!context.lent.count(name)) context.check_may_change(name);
  KnownShapes shapes;
  for (const auto& [name, now] : declared.info) shapes.emplace(name, now.shape);
  context.make_ready(*routine, program, solved, shapes);

  // Nothing fails from here on.
  for (const auto& [name, now] : declared.info) context.info[name] = now;
  for (auto& [name, places] : mesh::state_places(routine->plan->program, context.options.mesh))
    context.places[name] = std::move(places);
  for (const auto& [name, value] : declared.adopted) context.adopt(name, value);
  for (const std::string& name : declared.fresh) context.initialise(name);
  for (const std::string& name : routine->assigned_names) routine->assigned.push_back(&context.info.at(name));
  for (Impl::Info* assigned : routine->assigned) assigned->input = false;
  for (const auto& [name, now] : declared.info)
    if (const Impl::Info& kept = context.info.at(name); kept.input) routine->inputs.push_back({name, now.shape, &kept});
  for (const Tensor& t : tensors)
    if (const StateNode* state = t.node().state(); state && state->owner)
      routine->owned.push_back({state->name, &context.info.at(state->name), state->owner});
  routine->seen_resets = context.resets;
  context.has_programs = true;
  return Routine(std::move(routine));
}

}  // namespace caravan
