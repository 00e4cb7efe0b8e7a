#include "caravan/runtime/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "caravan/backend/backend.h"
#include "caravan/base/error.h"
#include "caravan/base/parallel.h"
#include "caravan/base/processors.h"
#include "caravan/base/random.h"
#include "caravan/target/initial_values.h"

namespace caravan {

namespace {

// Calls work(first, last) for parts that together are 0 .. count-1, one for each thread.
void in_parts_of(int64_t count, int threads, const std::function<void(int64_t, int64_t)>& work) {
  int64_t parts = count / kDrawnPerThread;
  if (parts > 1) parts = std::min<int64_t>(parts, threads > 0 ? threads : processors().usable());
  if (parts <= 1) return work(0, count);
  auto begin = [&](int64_t part) { return count / parts * part + std::min(part, count % parts); };
  in_parallel(parts, int(parts), [&](int64_t part) { work(begin(part), begin(part + 1)); });
}

// Calls value(e) for the elements first .. last-1, and stores what it returns. `memory` is that of the first one.
template <class Value>
void store_each(DType dtype, void* memory, int64_t first, int64_t last, Value value) {
  if (dtype == DType::f32)
    for (int64_t e = first; e < last; ++e) static_cast<float*>(memory)[e - first] = float(value(e));
  else
    for (int64_t e = first; e < last; ++e) store(dtype, memory, e - first, value(e));
}

}  // namespace

void check_initial(const InitialState& state) {
  if (state.init.kind == Init::Kind::values && !same_sizes(state.init.array->shape(), state.shape))
    throw ShapeError("`" + state.name + "` has the shape " + to_string(state.shape) +
                     ", but its initial values have the shape " + to_string(state.init.array->shape()) + ".");
}

void fill_initial(backend::Device& device, const InitialState& state, uint64_t seed, int threads) {
  double fan_in = 1, fan_out = 1;
  for (const Axis& axis : state.shape.input) fan_in *= double(axis.size);
  for (const Axis& axis : state.shape.output) fan_out *= double(axis.size);
  Init init = state.init;
  if (init.kind == Init::Kind::automatic) init = state.shape.input.empty() ? zeros() : kaiming_normal();

  const uint64_t stream = hash_name(state.name);
  auto uniform = [&](int64_t e, double low, double high) {
    return low + (high - low) * unit_uniform(random_words(seed, stream, 0, uint64_t(e))[0]);
  };
  auto element = [&](void* memory, int64_t e) -> void* { return static_cast<char*>(memory) + e * bytes(state.dtype); };
  auto in_parts = [&](const backend::Device::Fill& fill) {
    device.fill(state.name, state.shape, state.dtype, [&](void* memory, int64_t begin, int64_t end) {
      in_parts_of(end - begin, threads,
                  [&](int64_t first, int64_t last) { fill(element(memory, first), begin + first, begin + last); });
    });
  };
  auto each = [&](auto value) {  // value(e) is element e
    in_parts([&](void* memory, int64_t first, int64_t last) { store_each(state.dtype, memory, first, last, value); });
  };
  auto each_normal = [&](auto value) {  // value(n) is an element, n a normal number
    in_parts([&](void* memory, int64_t first, int64_t last) {
      std::array<double, 256> drawn{};
      for (int64_t from = first; from < last; from += int64_t(drawn.size())) {
        const std::span block = std::span(drawn).first(size_t(std::min(last - from, int64_t(drawn.size()))));
        unit_normals(seed, stream, 0, uint64_t(from), block);
        store_each(state.dtype, element(memory, from - first), from, from + int64_t(block.size()),
                   [&](int64_t e) { return value(block[size_t(e - from)]); });
      }
    });
  };
  // Fan-in and fan-out are products over all axes of a row.
  const double in = std::sqrt(3 / fan_in), both = std::sqrt(6 / (fan_in + fan_out));
  switch (init.kind) {
    case Init::Kind::constant:
      if (init.a == 0 && !std::signbit(init.a)) return device.clear(state.name, state.shape, state.dtype);
      return each([&](int64_t) { return init.a; });
    case Init::Kind::uniform: return each([&](int64_t e) { return uniform(e, init.a, init.b); });
    case Init::Kind::normal: return each_normal([&](double n) { return init.a + init.b * n; });
    case Init::Kind::kaiming_normal:
      return each_normal([deviation = init.a / std::sqrt(fan_in)](double n) { return deviation * n; });
    case Init::Kind::kaiming_uniform: return each([&](int64_t e) { return uniform(e, -1, 1) * init.a * in; });
    case Init::Kind::xavier_normal:
      return each_normal([deviation = init.a * std::sqrt(2 / (fan_in + fan_out))](double n) { return deviation * n; });
    case Init::Kind::xavier_uniform: return each([&](int64_t e) { return uniform(e, -1, 1) * init.a * both; });
    case Init::Kind::values:
      return device.write(state.name, init.array->cast(state.dtype).reshaped(state.shape), state.dtype);
    case Init::Kind::automatic:
    case Init::Kind::none: break;
  }
  CARAVAN_CHECK(false, "a state without initial values was to be filled");
}

}  // namespace caravan
