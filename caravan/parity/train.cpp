#include <fmt/format.h>

#include "caravan/base/error.h"
#include "caravan/data/json_text.h"
#include "caravan/nn/loss.h"
#include "caravan/parity/model.h"
#include "caravan/parity/parity.h"

namespace caravan::parity {

namespace {

std::string text_of(const Sizes& sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

// Every one that the model has, and no other, in PyTorch's shape.
void check(const std::vector<Counterpart>& expected, const Arrays& given, const std::string& prefix) {
  for (const Counterpart& c : expected) {
    const auto at = given.find(c.name);
    if (at == given.end())
      throw ConfigError(fmt::format("it has no tensor `{}{}`, which the model needs.", prefix, c.name));
    if (at->second.shape().sizes() != c.sizes)
      throw ConfigError(fmt::format("`{}{}` has the shape {}, but the model needs {}.", prefix, c.name,
                                    text_of(at->second.shape().sizes()), text_of(c.sizes)));
  }
  for (const auto& [name, unused] : given)
    if (std::none_of(expected.begin(), expected.end(), [&name = name](const Counterpart& c) { return c.name == name; }))
      throw ConfigError(fmt::format("the model has no {}.", data::shown(prefix + name)));
}

void check_ids(const char* name, const Array& ids, int64_t below) {
  if (!is_integer(ids.dtype()))
    throw ConfigError(
        fmt::format("`{}` holds {}, but the model and the loss need ids.", name, caravan::name(ids.dtype())));
  for (int64_t i = 0; i < ids.size(); ++i)
    if (const double id = ids.at(i); !(id >= 0 && id < double(below)))
      throw ConfigError(fmt::format("`{}` has the id {}; ids are from 0 to {}.", name, id, below - 1));
}

// One tensor of a fixture, batch by batch: an input of the program and its value at each step.
class Batches {
 public:
  // All axes are batch axes, but the last of numbers.
  Batches(const char* name, const Array& all, bool ids) : all_(ids ? all : all.cast(DType::f32)) {
    const Sizes sizes = all.shape().sizes();
    Extents batch, output;
    for (size_t i = 1; i < sizes.size(); ++i) {
      const bool last = i + 1 == sizes.size() && i > 1 && !ids;
      (last ? output : batch).push_back(sizes[i]);
      (last ? shape_.output : shape_.batch).push_back({sizes[i]});
    }
    tensor_ = input(name, {.batch = batch, .input = Extents{}, .output = output, .dtype = all_.dtype()});
  }
  const Tensor& tensor() const { return tensor_; }
  void write(Context& ctx, int64_t step) const { ctx.write(tensor_, all_.take({step}).reshaped(shape_)); }

 private:
  Array all_;
  Shape shape_;
  Tensor tensor_;
};

Tensor loss_of(Loss kind, const Tensor& output, const Tensor& y, int64_t batch) {
  switch (kind) {
    case Loss::mse: return nn::mse(output, y);
    case Loss::hinge: return nn::hinge(output, y, {.reduction = nn::Reduction::sum}) / batch;
    case Loss::cross_entropy: break;
  }
  return nn::cross_entropy(output, y);
}

void check_targets(const Fixture& fixture, const Model& model) {
  Sizes needed = model.output;
  if (fixture.loss == Loss::cross_entropy) {
    check_ids("y", fixture.y, needed.back());
    needed.pop_back();
  }
  const Sizes sizes = fixture.y.shape().sizes(), given(sizes.begin() + 2, sizes.end());
  if (given != needed)
    throw ConfigError(fmt::format("`y` has {} for each example, but the loss of a model that gives {} needs {}.",
                                  text_of(given), text_of(model.output), text_of(needed)));
}

}  // namespace

Arrays train(const Fixture& fixture, const ContextOptions& options) {
  const Sizes sizes = fixture.x.shape().sizes(), example(sizes.begin() + 2, sizes.end());
  const int64_t batch = sizes[1];
  const Model model = build(fixture.model, example);
  check(model.parameters, fixture.parameters, "param.");
  check(model.buffers, fixture.buffers, "buffer.");
  if (model.vocabulary) check_ids("x", fixture.x, model.vocabulary);
  check_targets(fixture, model);

  const Batches x("x", fixture.x, model.vocabulary != 0), y("y", fixture.y, fixture.loss == Loss::cross_entropy);
  const nn::Phase phase = nn::training();
  const Tensor loss = loss_of(fixture.loss, model.call(x.tensor(), phase), y.tensor(), batch);
  const Tensor output = model.call(x.tensor(), nn::evaluation());
  const Gradients list = gradients(loss);
  // What is observed is computed from the state before the step, so one more step evaluates what the last one left.
  Program program = fixture.optimizer(list) & phase.updates() & observe({loss, output});
  for (const Gradient& g : list) program &= observe(g.value);

  Context ctx(options);
  Routine step = ctx.compile(program);
  auto write = [&](const std::vector<Counterpart>& all, const Arrays& values) {
    for (const Counterpart& c : all) ctx.write(c.name, c.to_ours(values.at(c.name), ctx.read(c.name).shape()));
  };
  write(model.parameters, fixture.parameters);
  write(model.buffers, fixture.buffers);

  auto run = [&](int64_t batch_of_step) {
    x.write(ctx, batch_of_step), y.write(ctx, batch_of_step);
    step.run();
  };

  Arrays out;
  Array losses(output_axes({fixture.steps}), DType::f64);
  for (int64_t s = 0; s < fixture.steps; ++s) {
    run(s);
    losses.set(s, step.read(loss).item());
    if (s == 0)
      for (const Counterpart& c : model.parameters)
        for (const Gradient& g : list)
          if (g.parameter.name() == c.name) out["grad." + c.name] = c.to_theirs(step.read(g.value));
  }
  out["losses"] = losses;
  for (const Counterpart& c : model.parameters) out["final." + c.name] = c.to_theirs(ctx.read(c.name));
  for (const Counterpart& c : model.buffers) out["final_buffer." + c.name] = c.to_theirs(ctx.read(c.name));
  run(0);
  Sizes all = model.output;
  all.insert(all.begin(), batch);
  out["eval_output"] = step.read(output).reshaped(output_axes(all));
  return out;
}

}  // namespace caravan::parity
