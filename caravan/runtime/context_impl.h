// What a Context and a Routine are made of: for the sources of this folder alone.
#pragma once

#include <atomic>
#include <map>
#include <set>

#include "caravan/backend/backend.h"
#include "caravan/base/error.h"
#include "caravan/mesh/shard.h"
#include "caravan/runtime/context.h"
#include "caravan/runtime/ids.h"
#include "caravan/runtime/initial_values.h"
#include "caravan/runtime/plan_cache.h"
#include "caravan/tensor/infer.h"

namespace caravan {

// Does a value of this shape fit the sizes that the state was declared with?
bool fits_given(const StateNode& state, const Shape& shape);
bool has_sizes(const std::vector<Shape>& shapes, const Shape& shape);  // has one of them the same sizes?

struct Context::Impl {
  struct Info {
    Shape shape;
    DType dtype = DType::f32;
    bool declared = true;         // by a program; otherwise written by name alone, and any float precision may adopt it
    uint64_t writes = 0;          // by the host, its initial value among them
    bool from_host = false;       // its value; otherwise a program assigned it
    bool input = false;           // declared without an initialiser, and no program assigns it
    bool created = false;         // by a write that said so
    bool any_axes = false;        // undeclared, and only its sizes in memory order count
    std::vector<Shape> shapes{};  // of an input: all that programs declared it with; `shape` is that of its value
    Init init{Init::Kind::none, 0, 0, nullptr};  // what it was filled from, or would have been
    StateOwnerRef owner{};                       // the optimiser whose program was compiled last, if any
  };
  ContextOptions options;
  std::unique_ptr<backend::Device> device;
  std::string device_reason;
  std::map<std::string, Info> info;  // of states that programs use or the user wrote
  uint64_t writes = 0;               // to all states
  mesh::StatePlaces places;          // of the states that programs use, if there is a mesh
  bool has_programs = false;
  bool loaded = false;  // states were written before there was a program, and all that programs need must be there
  uint64_t resets = 0;  // after each, the states of an optimiser may have gone to another

  // A reader (Context::reader) has states of its lender, which stay as they are while it lives.
  std::shared_ptr<Impl> lender{};
  std::set<std::string> lent{};                                      // their names
  std::atomic<int> readers = 0;                                      // that have states of this one
  std::shared_ptr<PlanCache> plans = std::make_shared<PlanCache>();  // shared with readers

  std::atomic<const void*> user = nullptr;  // the thread that uses the Context now, by an address of its own

  Impl() = default;
  Impl(const Impl&) = delete;
  ~Impl() {
    if (lender) --lender->readers;
  }
  static const void* this_thread() {
    static thread_local const char kMark = 0;
    return &kMark;
  }
  [[noreturn]] static void refuse_second_user() {
    throw StateError(
        "this Context is in use by another thread at this moment; a Context is for one thread at a time, with its "
        "Routines and Functions. Give each thread one of its own: Context mine = ctx.reader(), and function.in(mine).");
  }
  void check_unused() const {  // by another thread; for what only reads
    const void* now = user.load(std::memory_order_relaxed);
    if (now && now != this_thread()) refuse_second_user();
  }
  // While one lives, this thread uses the Context. It may make more of them meanwhile.
  class Use {
   public:
    explicit Use(Impl& context) : context_(context) {
      const void* none = nullptr;
      if (context.user.load(std::memory_order_relaxed) == this_thread())
        first_ = false;
      else if (!context.user.compare_exchange_strong(none, this_thread(), std::memory_order_acquire,
                                                     std::memory_order_relaxed))
        refuse_second_user();
    }
    ~Use() {
      if (first_) context_.user.store(nullptr, std::memory_order_release);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Impl& context_;
    bool first_ = true;
  };
  void check_may_change(const std::string& name) const {
    if (lent.count(name))
      throw StateError("`" + name + "` belongs to the Context that this one is a reader of; it can only be read here.");
    if (readers > 0 && !is_input(name))
      throw StateError("`" + name + "` cannot change while other Contexts read it (there " +
                       (readers == 1 ? "is 1 reader" : "are " + std::to_string(readers) + " readers") +
                       " of this Context); let go of them first.");
  }
  bool is_input(const std::string& name) const {
    const auto at = info.find(name);
    return at != info.end() && at->second.input;
  }

  void write(const std::string& name, const Array& value) {
    check_may_change(name);
    device->write(name, value, info.at(name).dtype);
    note_written(name);
  }
  // Takes a value that the state has already in the axes and the precision that a program declares. A reader gets a
  // copy of its own then.
  void adopt(const std::string& name, const Array& value) {
    device->write(name, value, info.at(name).dtype);
    note_written(name);
  }
  void initialise(const std::string& name) {
    check_may_change(name);
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
      if (device->has(name) && !i.any_axes) out[name] = i.shape;
    return out;
  }
  // The program that each device of the mesh runs.
  ir::Program for_one_device(const ir::Program& program) const {
    if (options.mesh.axes.empty()) return program;
    ir::Program out = mesh::shard(program, options.mesh, places);
    ir::verify(out);
    return out;
  }
  Inference infer(const Program& program) const;  // with the states that exist
  void open_device();                             // the one that the options name
  // Is the device `auto`, and nothing made yet that another device could not take over?
  bool may_move() const {
    return options.device == "auto" && !options.make_device && !options.mesh.exchanges() && !has_programs &&
           readers == 0;
  }
  // Goes on with another device, to which it copies the states, and returns the device before.
  std::unique_ptr<backend::Device> move_to(std::unique_ptr<backend::Device> other);
  // If the device is `auto` and this first program gains from a GPU, moves to it and returns the device before.
  std::unique_ptr<backend::Device> take_gpu(const ir::Program& program);
  // After the first program could not be compiled: if the device is `auto` and the compiler is to blame, moves to the
  // interpreter. Returns false if it is not. Throws BackendError if the compiler has a passing problem.
  bool take_interpreter();

  // The steps of compile (compile.cpp).
  struct Declared;
  Declared declared_by(const std::vector<Tensor>& tensors, const Inference& inference) const;
  Info merged(const Tensor& t, const Shape& shape, const Info* before) const;
  bool must_adopt(const Tensor& t, const Shape& shape, const Info* before) const;
  void check_written_names(const Declared& declared) const;
  void make_ready(Routine::Impl& routine, const Program& program, const ir::Program& solved, const KnownShapes& shapes);

  plan::Options plan_options() const { return {options.passes_off, options.memory_limit}; }
};

struct Routine::Impl {
  explicit Impl(Inference inferred) : inference(std::move(inferred)) {}

  const Inference inference;  // with the states that the Context had then
  std::shared_ptr<Context::Impl> context;
  std::shared_ptr<const plan::Plan> plan;   // what the device needed of it
  std::shared_ptr<const plan::Plan> shown;  // all of it, where the device did not need it and somebody asked
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
  std::vector<std::string> assigned_names;
  void check_may_assign() const {
    if (context->readers > 0)
      for (const std::string& name : assigned_names) context->check_may_change(name);
  }
  // An input may have a value of other sizes now, for another routine.
  struct Input {
    std::string name;
    Shape shape;
    const Context::Impl::Info* info;
  };
  std::vector<Input> inputs;
  void check_input_sizes() const {
    for (const Input& i : inputs)
      if (i.info->shapes.size() > 1 && !same_sizes(i.info->shape, i.shape))
        throw StateError("`" + i.name + "` has the shape " + caravan::to_string(i.info->shape) +
                         " now; this routine was compiled for " + caravan::to_string(i.shape) +
                         ": write an array of that shape first.");
  }
  void check_ready() {  // all that may refuse a run before it begins
    check_may_assign();
    check_owners();
    check_input_sizes();
    check_written_ids();
  }
  void note_run() {
    for (Context::Impl::Info* info : assigned) info->from_host = false;
    ran = true;
  }
};

// What was inferred when the routine was compiled.
const Inference& inference_of(const Routine& routine);

}  // namespace caravan
