#include "apps/serve/digits.h"

#include <memory>

namespace caravan::serve {

DigitModel compiled_model(std::string title, Context ctx, const Tensor& pixels,
                          const std::vector<NamedTensor>& layers) {
  std::vector<Tensor> observed;
  for (const NamedTensor& layer : layers) observed.push_back(layer.value);
  const Shape shape = ctx.shape(pixels);
  auto run = [=, routine = ctx.compile(observe(observed))](const std::vector<float>& values) mutable {
    ctx.write(pixels, Array::view(shape, values));
    routine.run();
    std::vector<LayerValues> out;
    for (const NamedTensor& layer : layers) {
      const Array array = routine.read(layer.value);
      const std::vector<double> numbers = array.values();
      LayerValues& one = out.emplace_back(LayerValues{layer.name, {}, {numbers.begin(), numbers.end()}});
      for (const Axis& axis : array.shape().output) one.sizes.push_back(axis.size);
    }
    return out;
  };
  run(std::vector<float>(size_t(shape.elements())));
  return {std::move(title), std::move(run)};
}

void Digits::use(DigitModel model) {
  const std::scoped_lock lock(running_, mutex_);
  model_ = std::move(model);
}

void Digits::say(std::string status) {
  const std::scoped_lock lock(mutex_);
  status_ = std::move(status);
}

void Digits::show(std::vector<DigitExample> examples) {
  const std::scoped_lock lock(mutex_);
  examples_ = std::move(examples);
}

Digits::Status Digits::status() const {
  const std::scoped_lock lock(mutex_);
  return {model_.run != nullptr, model_.run ? model_.title : status_};
}

std::vector<DigitExample> Digits::examples() const {
  const std::scoped_lock lock(mutex_);
  return examples_;
}

std::vector<LayerValues> Digits::predict(const std::vector<float>& pixels) {
  const std::scoped_lock lock(running_);
  if (const Status now = status(); !now.ready) throw NotReady(now.text);
  return model_.run(pixels);
}

}  // namespace caravan::serve
