// States in memory: into and out of the caller's, and shared with readers.
#include "caravan/array/convert.h"
#include "caravan/runtime/context_impl.h"
#include "caravan/runtime/devices.h"

namespace caravan {

void Context::read_to(const std::string& name, DType dtype, void* out, int64_t count) const {
  impl_->check_unused();
  check_has(name);
  const Impl::Info& info = impl_->info.at(name);
  if (info.shape.elements() != count)
    throw ShapeError("`" + name + "` has the shape " + to_string(info.shape) + ", " +
                     std::to_string(info.shape.elements()) + " elements; it cannot be read into memory of " +
                     std::to_string(count) + ".");
  if (const void* memory = impl_->device->memory(name)) {
    convert_elements(info.dtype, memory, dtype, out, count);
  } else {
    const Array value = impl_->device->read(name);
    convert_elements(value.dtype(), value.data(), dtype, out, count);
  }
}

void Routine::read_to(const Tensor& observed, DType dtype, void* out, int64_t count) const {
  impl_->context->check_unused();
  const size_t which = observed_at(observed);
  const ir::Program& program = impl_->plan->program;
  const ir::Buffer& buffer = program.buffers[size_t(program.observed[which])];
  if (buffer.shape.elements() != count)
    throw ShapeError("`" + observed.node().label + "` has the shape " + caravan::to_string(buffer.shape) + ", " +
                     std::to_string(buffer.shape.elements()) + " elements; it cannot be read into memory of " +
                     std::to_string(count) + ".");
  if (const void* memory = impl_->executable->observed_memory(which)) {
    convert_elements(buffer.dtype, memory, dtype, out, count);
  } else {
    const Array value = impl_->executable->observed(which);
    convert_elements(value.dtype(), value.data(), dtype, out, count);
  }
}

Array Context::view(const std::string& name, Source where) const {
  const WrittenAt at(where);
  impl_->check_unused();
  check_has(name);
  const void* memory = impl_->device->memory(name);
  if (!memory) return impl_->device->read(name);
  const Impl::Info& info = impl_->info.at(name);
  auto as = [&](auto type) {
    return Array::view(info.shape,
                       std::span(static_cast<const decltype(type)*>(memory), size_t(info.shape.elements())));
  };
  switch (info.dtype) {
    case DType::boolean: return as(bool());
    case DType::u8: return as(uint8_t());
    case DType::i32: return as(int32_t());
    case DType::i64: return as(int64_t());
    case DType::f32: return as(float());
    case DType::f64: return as(double());
    default: return impl_->device->read(name);  // C++ has no type for 16-bit floats
  }
}

Shape Context::shape_to_write(const std::string& name, int64_t count) const {
  const auto at = impl_->info.find(name);
  if (at == impl_->info.end())
    throw StateError("the sizes of `" + name +
                     "` are not known yet: compile a program that has it first, or write an Array, which has a shape.");
  for (const Shape& shape : at->second.shapes)  // of an input, which programs may have with several sizes
    if (shape.elements() == count) return shape;
  if (at->second.shape.elements() != count)
    throw ShapeError("`" + name + "` has the shape " + to_string(at->second.shape) + ", " +
                     std::to_string(at->second.shape.elements()) + " elements; " + std::to_string(count) +
                     " numbers cannot be written to it.");
  return at->second.shape;
}

Shape Context::shape_to_write(const Tensor& state, int64_t count) const {
  const std::string& name = name_of(state);
  const StateNode& node = *state.node().state();
  Shape given;  // as it was declared, if that says all
  const GivenRow* rows[] = {&node.batch, &node.input, &node.output};
  for (RowKind kind : kRowKinds) {
    if (!rows[size_t(kind)]->given) return shape_to_write(name, count);
    for (const Extent& e : rows[size_t(kind)]->extents) {
      if (e.captured) return shape_to_write(name, count);
      given[kind].push_back(Axis(e.size, e.basis));
    }
  }
  if (given.elements() == count) return given;
  throw ShapeError("`" + name + "` has the shape " + to_string(given) + ", " + std::to_string(given.elements()) +
                   " elements; " + std::to_string(count) + " numbers cannot be written to it.");
}

Context::Context(std::shared_ptr<Impl> impl) : impl_("a Context", std::move(impl)) {}

Context Context::reader(int threads) const {
  auto out = std::make_shared<Impl>();
  out->options = impl_->options;
  out->options.threads = threads;
  out->options.mesh = {};  // a reader is one device
  out->open_device();
  for (const auto& [name, info] : impl_->info) {
    if (info.input || !impl_->device->has(name)) continue;
    out->info.emplace(name, info);
    out->lent.insert(name);
    const void* memory = impl_->device->memory(name);
    if (!memory || !out->device->borrow(name, info.shape, info.dtype, const_cast<void*>(memory)))
      out->device->write(name, impl_->device->read(name), info.dtype);
  }
  out->has_programs = impl_->has_programs;
  if (impl_->options.mesh.axes.empty()) out->plans = impl_->plans;
  ++impl_->readers;
  out->lender = impl_.shared();
  return Context(std::move(out));
}

}  // namespace caravan
