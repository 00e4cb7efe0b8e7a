#include "caravan/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "caravan/base/error.h"
#include "caravan/base/names.h"
#include "caravan/base/printable.h"

namespace caravan {

namespace {

std::string described(std::string_view type, const std::vector<int64_t>& sizes) {
  return fmt::format("{} [{}]", type, fmt::join(sizes, ", "));
}

// Some names may be a file's.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 100;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > kMost ? fmt::format("{} and {} more", out, names.size() - kMost) : out;
}

void save(const std::string& path, data::Tensors tensors, const About& about) {
  tensors.metadata = about;
  data::write_safetensors(path, tensors);
}

}  // namespace

data::Tensors checkpoint(const Context& ctx) {
  data::Tensors out;
  for (const std::string& name : ctx.names())
    if (!ctx.is_input(name)) out.list.emplace(name, data::stored(ctx.read(name)));
  return out;
}
data::Tensors checkpoint(const Context& ctx, const std::vector<Tensor>& states) {
  data::Tensors out;
  for (const Tensor& state : states) out.list.emplace(state.name(), data::stored(ctx.read(state)));
  return out;
}

void save_checkpoint(const std::string& path, const Context& ctx, const About& about, Source where) {
  const WrittenAt at(where);
  save(path, checkpoint(ctx), about);
}
void save_checkpoint(const std::string& path, const Context& ctx, const About& about, const std::vector<Tensor>& states,
                     Source where) {
  const WrittenAt at(where);
  save(path, checkpoint(ctx, states), about);
}

LoadReport compare(const data::Tensors& file, const Context& ctx) {
  LoadReport out;
  for (const std::string& name : ctx.names()) {
    const data::StoredTensor* found = file.find(name);
    if (!found) {
      if (!ctx.is_input(name)) out.missing.push_back(name);
      continue;
    }
    const std::optional<DType> stored = dtype(found->type);
    const DType declared = ctx.dtype(name);
    const Shape shape = ctx.read(name).shape();
    const std::vector<int64_t> sizes = shape.sizes();
    if (found->sizes != sizes || (stored != declared && stored != DType::f64))
      out.misshapen.push_back({name, described(stored ? caravan::name(*stored) : data::name(found->type), found->sizes),
                               described(caravan::name(declared), sizes),
                               shape.batch.size() == 1 && shape.output.size() == 1 && shape.input.empty() &&
                                   found->sizes == std::vector<int64_t>(sizes.rbegin(), sizes.rend())});
  }
  for (const auto& [name, tensor] : file.list)
    if (!ctx.has(name)) out.unexpected.push_back(name);
  return out;
}

std::string LoadReport::to_string() const {
  std::string out;
  if (!missing.empty()) out += fmt::format("\n  missing ({}): {}", missing.size(), listed(missing));
  if (!unexpected.empty()) out += fmt::format("\n  unexpected ({}): {}", unexpected.size(), listed(unexpected));
  for (const std::string& name : unexpected)
    if (const std::string meant = nearest(name, missing); !meant.empty())
      out += fmt::format("\n  {} may be what the program calls {}", printable(name), meant);
  for (const std::string& count : unexpected)  // `adam.step`, where the program has `w.adam.step`
    for (const std::string& name : missing)
      if (name.ends_with("." + count)) {
        out += fmt::format(
            "\n  {} counts the steps of all parameters, as files of an earlier version do; now each has a count of its "
            "own. Write its value to {} and the others to go on from this file.",
            count, name);
        break;
      }
  for (const Misfit& m : misshapen)
    out += fmt::format("\n  misshapen: {} is {}, the program has {}{}", printable(m.name), m.in_file, m.in_context,
                       m.transposed ? " (an earlier version stored the tables of embeddings transposed; "
                                      "data::transposed turns them)"
                                    : "");
  return out.empty() ? "everything fits" : out.substr(1);
}

void load_checkpoint(const data::Tensors& tensors, const std::string& file, Context& ctx, const LoadOptions& options,
                     Source where) {
  const WrittenAt at(where);
  if (ctx.names().empty()) {
    std::map<std::string, Array> all;
    for (const auto& [name, stored] : tensors.list) all.emplace(name, tensors.array(name));
    return ctx.write(all, {.create = true, .any_axes = true});
  }
  LoadReport report = compare(tensors, ctx);
  if (options.allow_missing) report.missing.clear();
  if (options.allow_unexpected) report.unexpected.clear();
  if (!report.fits())
    throw ConfigError(fmt::format("{} does not fit the program; nothing was loaded:\n{}", file, report.to_string()));
  std::map<std::string, Array> values;
  for (const std::string& name : ctx.names())
    if (tensors.find(name)) values.emplace(name, tensors.array(name).reshaped(ctx.read(name).shape()));
  ctx.write(values);
}
void load_checkpoint(const std::string& path, Context& ctx, const LoadOptions& options, Source where) {
  const WrittenAt at(where);
  load_checkpoint(data::read_safetensors(path), path, ctx, options, where);
}

}  // namespace caravan
