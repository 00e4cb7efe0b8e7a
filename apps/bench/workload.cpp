#include "apps/bench/workload.h"

#include <fmt/format.h>

#include "apps/unknown_name.h"
#include "caravan/base/error.h"

namespace caravan::bench {

std::vector<Entry> entries() {
  std::vector<Entry> out = training_steps();
  for (Entry& product : products()) out.push_back(std::move(product));
  return out;
}

std::vector<Entry> find(const std::string& name) {
  std::vector<Entry> out;
  std::vector<std::string> known;
  for (Entry& entry : entries()) {
    if (entry.name == name) return {entry};
    known.push_back(entry.name);
    if (entry.name.starts_with(name + "-")) out.push_back(std::move(entry));
  }
  if (!out.empty()) return out;
  if (std::optional<Entry> product = product_of_sizes(name)) return {*product};
  throw ConfigError(app::unknown_name("benchmark", name, known));
}

std::vector<Entry> find_all(const std::vector<std::string>& names, bool for_gpu_too) {
  std::vector<Entry> out;
  for (const std::string& name : names) {
    const std::vector<Entry> found = find(name);
    for (const Entry& entry : found)
      if (for_gpu_too || !entry.for_gpu || found.size() == 1) out.push_back(entry);
  }
  return out;
}

IndexValues Workload::at(int64_t step) const {
  if (!batch) return {};
  return {{*batch, step % batch->range()}};
}

std::vector<double> losses(Routine& routine, const Workload& workload, int64_t steps) {
  std::vector<double> out;
  for (int64_t s = 0; s < steps; ++s) {
    routine.run(workload.at(s));
    out.push_back(routine.read(workload.result).item());
  }
  return out;
}

data::Tensors record(const std::string& name, const Workload& workload, const ContextOptions& options, int64_t steps) {
  Context ctx(options);
  Routine routine = ctx.compile(workload.program);
  data::Tensors out;
  out.metadata = {{"name", name},
                  {"flops", fmt::format("{}", workload.flops)},
                  {"optimizer", workload.optimizer},
                  {"precision", std::string(caravan::name(workload.precision))}};
  for (const Tensor& parameter : parameters(workload.result))
    out.list["param." + parameter.name()] = data::stored(ctx.read(parameter));
  for (const auto& [which, values] : workload.data) out.list["data." + which] = data::stored(values);
  if (workload.batch) {
    out.list["losses"] = data::stored(Array::vector(losses(routine, workload, steps)));
  } else {
    routine.run();
    out.list["result"] = data::stored(routine.read(workload.result));
  }
  return out;
}

}  // namespace caravan::bench
