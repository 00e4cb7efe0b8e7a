#include "caravan/runtime/trace.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <sstream>

#include "caravan/loop/walk.h"
#include "caravan/plan/plan.h"
#include "caravan/runtime/context_impl.h"

namespace caravan {

namespace {

using Json = nlohmann::ordered_json;  // keys in the order in which they are added

std::string line_of(Source where) { return where.known() ? to_string(where) : ""; }

Json constraints_of(const Inference& inference) {
  const shape::System& system = inference.system();
  Json asked = Json::array(), axes = Json::array(), tensors = Json::array();
  std::istringstream lines(shape::to_string(system));
  for (std::string line; std::getline(lines, line);) asked.push_back(line);

  for (size_t a = 0; a < system.axes.size(); ++a) {
    const auto& [name, origin] = system.axes[a];
    if (name.empty()) continue;
    const shape::Origin& from = system.origins[size_t(origin)];
    axes.push_back({{"name", name},
                    {"size", inference.solution().size(shape::AxisId(a))},
                    {"from", from.text},
                    {"line", line_of(from.where)}});
  }

  for (const Tensor& t : inference.order()) {
    const Node& node = t.node();
    const Shape shape = inference.shape(t);
    Json tensor{{"label", node.label},
                {"what", describe(t)},
                {"line", line_of(node.where)},
                {"dtype", name(node.dtype)},
                {"shape", to_string(shape)}};
    for (RowKind kind : kRowKinds) {
      Json& sizes = tensor[std::string(name(kind))] = Json::array();
      for (const Axis& axis : shape[kind]) sizes.push_back(axis.size);
    }
    if (const AccumulateNode* n = node.accumulate()) {
      const shape::Projection projection = inference.projection(*n);
      Json& iterators = tensor["iterators"] = Json::array();
      for (size_t k = 0; k < projection.iterators.size(); ++k)
        iterators.push_back({{"name", projection.iterators[k]},
                             {"size", projection.extents[k]},
                             {"reduced", bool(projection.reduced[k])}});
    }
    tensors.push_back(std::move(tensor));
  }
  return {{"asked", std::move(asked)}, {"axes", std::move(axes)}, {"tensors", std::move(tensors)}};
}

Json passes_of(const plan::Plan& plan) {
  Json out = Json::array();
  for (const plan::LogEntry& entry : plan.log)
    out.push_back({{"name", entry.pass},
                   {"milliseconds", entry.milliseconds},
                   {"changed", entry.changed},
                   {entry.over_loops ? "kernels" : "accumulations", entry.count}});
  return out;
}

Json compilation_of(const RoutineReport& report) {
  Json out{{"from_cache", report.from_cache}};
  if (const QuickCode& quick = report.quick_code; quick.used)
    out["quick_code"] = {{"steps", quick.steps}, {"changed", quick.changed}, {"seconds", quick.seconds}};
  return out;
}

Json kernels_of(const loop::Module& module) {
  Json out = Json::array();
  for (const loop::Kernel& kernel : module.kernels) {
    std::set<ir::BufferId> read, written;
    loop::for_each_access(kernel,
                          [&](const loop::Access& access) { (access.write ? written : read).insert(access.buffer); });
    auto names = [&](const std::set<ir::BufferId>& buffers) {
      Json list = Json::array();
      for (ir::BufferId id : buffers) list.push_back(module.buffers[size_t(id)].name);
      return list;
    };
    out.push_back(
        {{"name", kernel.name}, {"from", kernel.comments}, {"reads", names(read)}, {"writes", names(written)}});
  }
  return out;
}

Json values_of(const Program& program, Context& ctx, const IndexValues& indices) {
  std::vector<Tensor> roots = program.observed(), seen;
  std::set<const Node*> wanted;
  for (const Tensor& t : roots) wanted.insert(&t.node());
  for (const auto& a : program.assignments()) roots.push_back(a.value), roots.push_back(a.state);
  for (const Tensor& t : topological(roots, true))
    if (t.node().state() || t.node().named || wanted.count(&t.node())) seen.push_back(t);
  const std::vector<Array> values = ctx.eval(seen, indices);

  Json out = Json::array();
  for (size_t k = 0; k < seen.size(); ++k) {
    const Node& node = seen[k].node();
    double low = INFINITY, high = -INFINITY, sum = 0;
    int64_t nans = 0, infinities = 0, finite = 0;
    for (double v : values[k].values()) {
      nans += std::isnan(v), infinities += std::isinf(v);
      if (!std::isfinite(v)) continue;
      low = std::min(low, v), high = std::max(high, v), sum += v, ++finite;
    }
    Json first = Json::array();
    for (int64_t i = 0; i < std::min<int64_t>(values[k].size(), 8); ++i) first.push_back(values[k].at(i));
    out.push_back({{"label", node.label},
                   {"what", describe(seen[k])},
                   {"line", line_of(node.where)},
                   {"kind", node.state()          ? "state"
                            : wanted.count(&node) ? "observed"
                                                  : "named"},
                   {"dtype", name(node.dtype)},
                   {"shape", to_string(values[k].shape())},
                   {"min", low},  // and below, of the finite ones
                   {"max", high},
                   {"mean", sum / double(finite)},
                   {"nan", nans},
                   {"infinite", infinities},
                   {"first", std::move(first)}});
  }
  return out;
}

}  // namespace

void write_trace(std::ostream& out, const Program& program, Context& ctx, const TraceOptions& options) {
  const Routine routine = options.routine ? *options.routine : ctx.compile(program);
  const plan::Plan& plan = routine.plan();
  const Json trace{{"program", plan.program.name},
                   {"device", ctx.device()},
                   {"constraints", constraints_of(inference_of(routine))},
                   {"passes", passes_of(plan)},
                   {"compiled", compilation_of(routine.report())},
                   {"kernels", kernels_of(plan.scheduled)},
                   {"values", values_of(program, ctx, options.indices)}};
  out << trace.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';  // names may be any bytes
}

}  // namespace caravan
