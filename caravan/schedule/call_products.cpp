#include "caravan/schedule/call_products.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "caravan/loop/dependence.h"
#include "caravan/loop/walk.h"
#include "caravan/schedule/contraction_nest.h"
#include "caravan/schedule/outer_loops.h"
#include "caravan/schedule/product_nest.h"

namespace caravan::schedule {

using namespace loop;
using ir::BufferId;
using Product = LibraryCall::Product;

namespace {

// The independent loops around everything else.
std::vector<const For*> independent_loops(const Kernel& kernel) {
  std::vector<const For*> out;
  for (const Block* block = &statements(kernel); !overwrites_loads(*block);) {
    const For* loop = after_definitions<For>(*block);
    if (!loop || loop->kind != LoopKind::serial || !independent(loop->variable, loop->extent, loop->body)) break;
    out.push_back(loop);
    block = &loop->body;
  }
  return out;
}

// Is the offset a linear function of loop variables?
bool is_plain(const Term& offset) {
  return std::all_of(offset.parts.begin(), offset.parts.end(),
                     [](const Term::Part& part) { return part.kind == Term::Part::Kind::iterator; });
}

// Elements of a buffer: where the library finds a factor or stores the sums.
struct Elements {
  BufferId buffer = -1;
  Term offset;
  DType dtype{};
};

// One loop, or several that walk through memory like one.
struct Axis {
  int64_t extent = 1;
  int64_t left = 0, right = 0, result = 0;  // strides
  bool continues(const Axis& inner) const {
    return left == inner.extent * inner.left && right == inner.extent * inner.right &&
           result == inner.extent * inner.result;
  }
  int64_t longest() const { return std::max({left, right, result}); }
};
std::vector<Axis> axes_of(const std::vector<For>& loops, const Term& left, const Term& right, const Term& result) {
  std::vector<Axis> all, out;
  for (const For& f : loops)
    if (f.extent > 1)
      all.push_back(
          {f.extent, coefficient(left, f.variable), coefficient(right, f.variable), coefficient(result, f.variable)});
  std::stable_sort(all.begin(), all.end(), [](const Axis& a, const Axis& b) { return a.longest() > b.longest(); });
  for (const Axis& axis : all) {
    if (out.empty() || !out.back().continues(axis))
      out.push_back(axis);
    else
      out.back() = {out.back().extent * axis.extent, axis.left, axis.right, axis.result};
  }
  return out;
}
// Do the elements form a matrix, with stride 1 along one side?
bool is_matrix(int64_t down, int64_t rows, int64_t across, int64_t columns) {
  return (across == 1 && down >= columns) || (down == 1 && across >= rows);
}

// The product as the library takes it, if it does.
std::optional<Product> product_of(const ProductNest& nest, const Term& left, const Term& right, const Term& result) {
  std::vector<Axis> batch = axes_of(nest.batch, left, right, result), rows = axes_of(nest.rows, left, right, result),
                    columns = axes_of(nest.columns, left, right, result),
                    terms = axes_of(nest.terms, left, right, result);
  // Of rows in two axes, the outer one can count as a batch, all of whose products have the same right factor.
  for (std::vector<Axis>* side : {&rows, &columns})
    if (side->size() == 2 && batch.empty()) batch.push_back(side->front()), side->erase(side->begin());
  if (batch.size() > 1 || rows.size() != 1 || columns.size() != 1 || terms.size() != 1) return std::nullopt;
  const Axis b = batch.empty() ? Axis{} : batch[0], m = rows[0], n = columns[0], k = terms[0];
  if (!is_matrix(m.left, m.extent, k.left, k.extent) || !is_matrix(k.right, k.extent, n.right, n.extent) ||
      !is_matrix(m.result, m.extent, n.result, n.extent) || b.left < 0 || b.right < 0 || b.result < 0)
    return std::nullopt;
  Product out{b.extent, m.extent, n.extent, k.extent, {}, {}, {}, false};
  auto offset = [](int64_t constant, std::initializer_list<std::pair<Variable, int64_t>> strides) {
    Term term = Term::number(constant);
    for (const auto& [variable, stride] : strides)
      if (stride != 0) term.add(Term::Part::Kind::iterator, variable, stride);
    return term;
  };
  out.left = offset(left.constant, {{Product::kBatch, b.left}, {Product::kRow, m.left}, {Product::kTerm, k.left}});
  out.right =
      offset(right.constant, {{Product::kBatch, b.right}, {Product::kTerm, k.right}, {Product::kColumn, n.right}});
  out.result =
      offset(result.constant, {{Product::kBatch, b.result}, {Product::kRow, m.result}, {Product::kColumn, n.result}});
  return out;
}

class Caller {
 public:
  Caller(const Module& module, const Target& target) : out_(module), gpu_(target.gpu) { out_.kernels.clear(); }
  Module run(const Module& module) {
    for (const Kernel& kernel : module.kernels) {
      if (!has_statements(kernel)) {
        add(kernel);
        continue;
      }
      auto all = [](const For&) { return true; };
      for (Kernel& part : outer_loops(kernel, all))
        if (!call(part)) add(std::move(part));
    }
    return std::move(out_);
  }

 private:
  // --- the factors ---

  // A factor as it is in memory, or as a kernel that stores it in a new buffer.
  struct Factor {
    Elements elements;
    std::optional<Kernel> computed;
    std::string key;  // the kernel's text
    int64_t count = 0;
  };
  std::optional<Factor> factor_of(const Kernel& kernel, const ProductNest& nest, Register which) const {
    Block definitions = nest.before;
    definitions.insert(definitions.end(), nest.point.begin(), nest.point.end());
    definitions = needed_for(definitions, which);
    if (definitions.empty()) return std::nullopt;
    const Define& last = std::get<Define>(definitions.back());
    if (auto* load = std::get_if<Load>(&last.value); load && !load->buffer.is_local() && is_plain(load->offset))
      return Factor{{load->buffer, load->offset, out_.buffers[size_t(load->buffer)].dtype}, {}, {}, 0};
    auto* cast = std::get_if<Cast>(&last.value);
    const DType dtype = cast ? cast->to : kernel.registers[size_t(which)].dtype;
    return stored(kernel, nest, definitions, which, dtype);
  }
  // The elements are stored in the order of those that they are computed from.
  std::optional<Factor> stored(const Kernel& kernel, const ProductNest& nest, Block definitions, Register which,
                               DType dtype) const {
    std::map<Variable, int64_t> strides;  // of the load that has the most of them
    std::map<Variable, std::pair<int64_t, std::string>> loops;
    bool local = false;
    for (const Statement& s : definitions) {
      auto* load = std::get_if<Load>(&std::get<Define>(s).value);
      if (!load) continue;
      local = local || load->buffer.is_local();
      std::map<Variable, int64_t> found;
      for (const Term::Part& part : load->offset.parts)
        if (part.kind == Term::Part::Kind::iterator) found[part.which] = part.coefficient;
      if (found.size() > strides.size()) strides = std::move(found);
    }
    for (const std::vector<For>* group : {&nest.batch, &nest.rows, &nest.columns, &nest.terms})
      for (const For& f : *group)
        if (strides.count(f.variable)) loops[f.variable] = {f.extent, kernel.variables[size_t(f.variable)]};
    if (local || strides.empty() || loops.size() != strides.size()) return std::nullopt;

    std::vector<Variable> order;
    for (const auto& [variable, stride] : strides) order.push_back(variable);
    std::stable_sort(order.begin(), order.end(), [&](Variable a, Variable b) { return strides[a] > strides[b]; });
    Factor out;
    out.computed.emplace();
    Kernel& made = *out.computed;
    std::map<Variable, Variable> variables;
    std::map<Register, Register> registers;
    for (const Variable v : order) variables[v] = add_variable(made, "i" + std::to_string(variables.size()));
    for (const Statement& s : definitions) {
      const Register r = std::get<Define>(s).to;
      registers[r] = add_register(made, kernel.registers[size_t(r)]);
    }
    out.count = 1;
    Term offset;
    for (size_t k = order.size(); k-- > 0; out.count *= loops[order[k]].first)
      offset.add(Term::Part::Kind::iterator, order[k], out.count);
    bool known = true;  // are all variables among those of the buffer?
    definitions.push_back(Store{BufferId(0), offset, which});
    rename(definitions, {[&](Register r) { return registers.at(r); },
                         [&](Variable v) {
                           const auto at = variables.find(v);
                           known = known && at != variables.end();
                           return known ? at->second : v;
                         },
                         nullptr});
    if (!known) return std::nullopt;
    for (size_t k = order.size(); k-- > 0;) {
      Block inner = std::exchange(definitions, {});
      definitions.push_back(For{variables[order[k]], loops[order[k]].first, LoopKind::serial, std::move(inner)});
    }
    made.body = std::move(definitions);
    out.elements = {-1, offset, dtype};
    out.key = to_string(out_, made) + std::string(name(dtype));
    if (const auto at = stored_.find(out.key); at != stored_.end()) {
      out.elements.buffer = at->second.buffer;
      out.computed.reset();
    }
    return out;
  }
  // Adds the kernel that computes a factor, if there is none yet.
  void store(Factor& factor, const Kernel& user) {
    if (!factor.computed) return;
    Kernel& kernel = *factor.computed;
    std::set<BufferId> sources;
    BufferId first = -1;
    for_each_of<Define>(statements(kernel), [&](const Define& d) {
      if (auto* load = std::get_if<Load>(&d.value)) {
        sources.insert(load->buffer);
        if (first < 0) first = load->buffer;
      }
    });
    factor.elements.buffer = add_buffer(out_, out_.buffers[size_t(first)].name + " as a factor", factor.elements.dtype,
                                        factor.count, out_.buffers[size_t(first)].where);
    for_each_of<Store>(statements(kernel), [&](Store& s) { s.buffer = factor.elements.buffer; });
    kernel.name = out_.buffers[size_t(factor.elements.buffer)].name;
    kernel.origins = user.origins, kernel.after = user.after;
    add(std::move(kernel));
    stored_[factor.key] = {factor.elements.buffer, std::move(sources)};
  }

  // --- the sums ---

  // Where the library stores the sums, and what is left to do with them.
  struct Sums {
    Elements elements;
    Block after;
    bool loaded = false;  // does `after` use the sum itself?
  };
  static bool uses(const Block& block, Register r) {
    bool out = false;
    for (const Statement& s : block) for_each_use(s, [&](Register used) { out = out || used == r; });
    return out;
  }
  // Is the sum used only after it was rounded to this precision? Then the library may round it.
  bool is_rounded(const Block& block, Register sum, DType to) const {
    bool out = true;
    for_each_statement(block, [&](const Statement& s) {
      auto* define = std::get_if<Define>(&s);
      auto* cast = define ? std::get_if<Cast>(&define->value) : nullptr;
      auto* store = std::get_if<Store>(&s);
      const bool rounds = (cast && cast->to == to) ||
                          (store && !store->buffer.is_local() && out_.buffers[size_t(store->buffer)].dtype == to);
      if (!rounds && !inside(s)) for_each_use(s, [&](Register used) { out = out && used != sum; });
    });
    return out;
  }
  // What uses the sum after the library has rounded it does not round it again.
  static void drop_casts(Block& block, Register sum, DType to) {
    std::set<Register> same;
    rewrite(block, [&](Statement& s, Block& out) {
      auto* define = std::get_if<Define>(&s);
      auto* cast = define ? std::get_if<Cast>(&define->value) : nullptr;
      if (cast && cast->arg == sum && cast->to == to) return void(same.insert(define->to));
      if (Block* within = inside(s)) drop_casts(*within, sum, to);
      out.push_back(std::move(s));
    });
    rename(block, {[&](Register r) { return same.count(r) ? sum : r; }, nullptr, nullptr});
  }
  // The first store of the sum, if it has the precision that the others who use the sum need.
  std::optional<Sums> sums_in_place(const ProductNest& nest, DType factors) const {
    std::map<BufferId, int> accesses;
    auto count = [&](const Access& a) { ++accesses[a.buffer]; };
    for_each_access(nest.before, count), for_each_access(nest.point, count);
    for (size_t k = 0; k < nest.after.size(); ++k) {
      auto* store = std::get_if<Store>(&nest.after[k]);
      if (!store || store->value != nest.sum) {
        for_each_access(nest.after[k], count);
        continue;
      }
      Sums out;
      for (size_t other = 0; other < nest.after.size(); ++other)
        if (other != k) out.after.push_back(nest.after[other]);
      out.loaded = uses(out.after, nest.sum);
      bool again = false;  // is another value stored there later?
      for_each_access(out.after, [&](const Access& a) { again = again || (a.write && a.buffer == store->buffer); });
      if (store->buffer.is_local() || accesses.count(store->buffer) || again || !is_plain(store->offset))
        return std::nullopt;
      const ir::Buffer& buffer = out_.buffers[size_t(store->buffer)];
      const bool narrow = buffer.dtype == factors && is_rounded(out.after, nest.sum, factors);
      if ((buffer.dtype != DType::f32 && !narrow) || !std::holds_alternative<ir::Computed>(buffer.kind))
        return std::nullopt;
      if (buffer.dtype != DType::f32) drop_casts(out.after, nest.sum, factors);
      out.elements = {store->buffer, store->offset, buffer.dtype};
      return out;
    }
    return std::nullopt;
  }
  // A new buffer of f32, or of the precision of the factors if the sum is only used rounded to it. It is added when the
  // call is made.
  Sums sums_apart(const ProductNest& nest, DType factors) const {
    Sums out{{-1, {}, DType::f32}, nest.after, true};
    if (factors != DType::f32 && is_rounded(nest.after, nest.sum, factors)) {
      out.elements.dtype = factors;
      drop_casts(out.after, nest.sum, factors);
    }
    int64_t stride = 1;
    for (const std::vector<For>* loops : {&nest.columns, &nest.rows, &nest.batch})
      for (size_t k = loops->size(); k-- > 0; stride *= (*loops)[k].extent)
        out.elements.offset.add(Term::Part::Kind::iterator, (*loops)[k].variable, stride);
    return out;
  }

  // What follows the sums, as a kernel of its own.
  Kernel epilogue(const Kernel& kernel, const std::vector<const For*>& outer, const ProductNest& nest,
                  const Sums& sums) const {
    Kernel out = kernel;
    Block body;
    std::set<Register> needed;
    for (const Statement& s : sums.after) for_each_use(s, [&](Register r) { needed.insert(r); });
    for (size_t k = nest.before.size(); k-- > 0;) {
      if (!needed.count(std::get<Define>(nest.before[k]).to)) continue;
      for_each_use(nest.before[k], [&](Register r) { needed.insert(r); });
      body.insert(body.begin(), nest.before[k]);
    }
    if (sums.loaded) body.push_back(Define{nest.sum, Load{sums.elements.buffer, sums.elements.offset}});
    body.insert(body.end(), sums.after.begin(), sums.after.end());
    for (size_t k = outer.size(); k-- > 0;) {
      Block inner = std::exchange(body, {});
      body.push_back(For{outer[k]->variable, outer[k]->extent, LoopKind::serial, std::move(inner)});
    }
    out.body = std::move(body);
    for_each_of<Store>(statements(out), [&](const Store& s) { out.name = out_.buffers[size_t(s.buffer)].name; });
    return out;
  }

  // --- the call ---

  bool call(const Kernel& kernel) {
    const std::vector<const For*> outer = independent_loops(kernel);
    const std::optional<ProductNest> nest = product_nest(kernel, outer);
    if (!nest || !nest->guards.empty() || kernel.registers[size_t(nest->sum)] != DType::f32) return false;
    const Contraction sizes = nest->sizes();
    const int64_t multiplications = sizes.batch * sizes.rows * sizes.columns * sizes.terms,
                  results = sizes.batch * sizes.rows * sizes.columns;
    if (multiplications < std::min({gpu_.called_f32.least, gpu_.called_tf32.least, gpu_.called_narrow.least}))
      return false;
    std::optional<Factor> left = factor_of(kernel, *nest, nest->left), right = factor_of(kernel, *nest, nest->right);
    if (!left || !right) return false;
    const DType factors = left->elements.dtype;
    if (wide(factors) != DType::f32 || right->elements.dtype != factors) return false;

    std::optional<Product> product;
    std::optional<Sums> sums = sums_in_place(*nest, factors);
    if (sums) product = product_of(*nest, left->elements.offset, right->elements.offset, sums->elements.offset);
    if (!product) {
      sums = sums_apart(*nest, factors);
      product = product_of(*nest, left->elements.offset, right->elements.offset, sums->elements.offset);
    }
    if (!product) return false;
    product->tf32 = gpu_.tf32 && factors == DType::f32;

    // Every new buffer is written and read; sums that are stored anyway are read again.
    int64_t moved = 0;
    for (const Factor* factor : {&*left, &*right})
      if (factor->computed) moved += 2 * factor->count * bytes(factors);
    if (sums->elements.buffer < 0) moved += results * bytes(sums->elements.dtype);
    if (!sums->after.empty()) moved += results * bytes(sums->elements.dtype);
    const Gpu::Called& at_least = factors != DType::f32 ? gpu_.called_narrow
                                  : product->tf32       ? gpu_.called_tf32
                                                        : gpu_.called_f32;
    if (multiplications < at_least.least || multiplications < at_least.per_byte * moved) return false;

    store(*left, kernel), store(*right, kernel);
    if (sums->elements.buffer < 0)
      sums->elements.buffer = add_buffer(out_, kernel.name + " sums", sums->elements.dtype, results);
    Kernel called;
    called.name = kernel.name, called.comments = kernel.comments, called.origins = kernel.origins;
    called.after = kernel.after;
    called.body = LibraryCall{*product, {sums->elements.buffer}, {left->elements.buffer, right->elements.buffer}};
    add(std::move(called));
    if (!sums->after.empty()) add(epilogue(kernel, outer, *nest, *sums));
    return true;
  }

  // --- the new module ---

  // A stored factor can be used again until one of the buffers that it was computed from is written.
  void add(Kernel kernel) {
    for_each_access(kernel, [&](const Access& a) {
      if (a.write) std::erase_if(stored_, [&](const auto& entry) { return entry.second.sources.count(a.buffer) > 0; });
    });
    out_.kernels.push_back(std::move(kernel));
  }

  Module out_;
  const Gpu& gpu_;
  struct Stored {
    BufferId buffer = -1;
    std::set<BufferId> sources;
  };
  std::map<std::string, Stored> stored_;  // by the text of the kernel that stores it
};

}  // namespace

Module call_products(const Module& module, const Target& target) {
  return target.gpu.library_products ? Caller(module, target).run(module) : module;
}

}  // namespace caravan::schedule
