#include "caravan/backend/interp/buffers.h"

#include "caravan/base/error.h"
#include "caravan/base/random.h"

namespace caravan::interp {

using ir::Buffer;
using ir::BufferId;

namespace {

Elements whole(const Array& values) { return {values.data(), values.dtype(), values.size()}; }

}  // namespace

Elements Buffers::elements(BufferId id) {
  const Buffer& buffer = program_.buffers[size_t(id)];
  if (std::holds_alternative<ir::StateLeaf>(buffer.kind)) return whole(state_values(buffer));
  if (const auto* data = std::get_if<ir::DataLeaf>(&buffer.kind))
    return data->number ? Elements{&*data->number, DType::f64, 1} : whole(data->array);
  return whole(made(id));
}

Array Buffers::copy(BufferId id, DType dtype) {
  const Buffer& buffer = program_.buffers[size_t(id)];
  const auto* data = std::get_if<ir::DataLeaf>(&buffer.kind);
  if (data && data->number) return Array(buffer.shape, {*data->number}, dtype);
  const Array& from = std::holds_alternative<ir::StateLeaf>(buffer.kind) ? state_values(buffer)
                      : data                                             ? data->array
                                                                         : made(id);
  return from.cast(dtype).reshaped(buffer.shape);
}

const Array& Buffers::made(BufferId id) {
  auto& values = values_[size_t(id)];
  if (!values) values = leaf_values(program_.buffers[size_t(id)]);
  return *values;
}

const Array& Buffers::state_values(const Buffer& buffer) const {
  const auto found = state_.find(buffer.name);
  if (found == state_.end())
    throw StateError("state `" + buffer.name +
                     "` was never initialised; set it, or run a program that assigns it, before `" + program_.name +
                     "`.");
  if (found->second.size() != buffer.shape.elements())
    throw StateError("state `" + buffer.name + "` holds " + std::to_string(found->second.size()) + " values, but `" +
                     program_.name + "` reads it with shape `" + to_string(buffer.shape) + "`, " +
                     std::to_string(buffer.shape.elements()) + " values.");
  return found->second;
}

Array Buffers::leaf_values(const Buffer& buffer) {
  Array out(buffer.shape, kept_type(buffer.dtype));
  auto fill = [&](auto&& value) {
    for (int64_t i = 0; i < out.size(); ++i)
      put_number(out, i, converted(of_integer(value(i)), DType::i64, out.dtype()));
    return out;
  };
  if (const auto* leaf = std::get_if<ir::NumberLeaf>(&buffer.kind)) {
    for (int64_t i = 0; i < out.size(); ++i) store(out.dtype(), out.mutable_data(), i, leaf->value);
    return out;
  }
  if (const auto* leaf = std::get_if<ir::SymbolLeaf>(&buffer.kind))
    return fill([&](int64_t) { return symbols_[size_t(leaf->symbol)]; });
  if (std::holds_alternative<ir::IotaLeaf>(buffer.kind)) return fill([](int64_t i) { return i; });
  const auto* random = std::get_if<ir::RandomLeaf>(&buffer.kind);
  CARAVAN_CHECK(random, "`" + buffer.name + "` is read before it is computed");
  const uint64_t step = uint64_t(elements(random->step).integer(0)), name = hash_name(random->stream);
  return fill([&](int64_t i) {
    return int64_t(random_words(seed_, name, step, uint64_t(i))[size_t(random->lane)] >> (32 - random->width));
  });
}

}  // namespace caravan::interp
