#include "caravan/runtime/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
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

// How the elements are drawn; nothing if they are not.
std::optional<Drawing> drawing_of(const InitialState& state, const Init& init, uint64_t seed) {
  double fan_in = 1, fan_out = 1;  // products over all axes of a row
  for (const Axis& axis : state.shape.input) fan_in *= double(axis.size);
  for (const Axis& axis : state.shape.output) fan_out *= double(axis.size);
  const double both = fan_in + fan_out;
  auto drawn = [&](bool normal, double begin, double width, double first = 1, double second = 1) {
    return Drawing{normal, begin, width, first, second, seed, hash_name(state.name)};
  };
  constexpr double kNothing = -0.0;  // added to a number, it leaves the sign of 0, too
  switch (init.kind) {
    case Init::Kind::uniform: return drawn(false, init.a, init.b - init.a);
    case Init::Kind::normal: return drawn(true, init.a, init.b);
    case Init::Kind::kaiming_normal: return drawn(true, kNothing, init.a / std::sqrt(fan_in));
    case Init::Kind::kaiming_uniform: return drawn(false, -1, 2, init.a, std::sqrt(3 / fan_in));
    case Init::Kind::xavier_normal: return drawn(true, kNothing, init.a * std::sqrt(2 / both));
    case Init::Kind::xavier_uniform: return drawn(false, -1, 2, init.a, std::sqrt(6 / both));
    case Init::Kind::constant:
    case Init::Kind::values:
    case Init::Kind::automatic:
    case Init::Kind::none: break;
  }
  return std::nullopt;
}

// The elements first .. last-1, of which `memory` is that of the first one.
void draw_into(void* memory, DType dtype, const Drawing& drawing, int64_t first, int64_t last) {
  std::array<double, 256> drawn{};
  for (int64_t from = first; from < last; from += int64_t(drawn.size())) {
    const std::span block = std::span(drawn).first(size_t(std::min(last - from, int64_t(drawn.size()))));
    draw(drawing, uint64_t(from), block);
    const int64_t at = from - first;
    if (dtype == DType::f32)
      for (size_t e = 0; e < block.size(); ++e) static_cast<float*>(memory)[at + int64_t(e)] = float(block[e]);
    else
      for (size_t e = 0; e < block.size(); ++e) store(dtype, memory, at + int64_t(e), block[e]);
  }
}

}  // namespace

void check_initial(const InitialState& state) {
  if (state.init.kind == Init::Kind::values && !same_sizes(state.init.array->shape(), state.shape))
    throw ShapeError("`" + state.name + "` has the shape " + to_string(state.shape) +
                     ", but its initial values have the shape " + to_string(state.init.array->shape()) + ".");
}

void fill_initial(backend::Device& device, const InitialState& state, uint64_t seed, int threads) {
  Init init = state.init;
  if (init.kind == Init::Kind::automatic) init = state.shape.input.empty() ? zeros() : kaiming_normal();
  const auto& [name, shape, dtype, _] = state;

  // Fills parts of the state on threads; `part` is given the memory of the first element of a part.
  auto in_parts = [&](const backend::Device::Fill& part) {
    device.fill(name, shape, dtype, [&](void* memory, int64_t begin, int64_t end) {
      in_parts_of(end - begin, threads, [&](int64_t first, int64_t last) {
        part(static_cast<char*>(memory) + first * bytes(dtype), begin + first, begin + last);
      });
    });
  };
  if (const std::optional<Drawing> drawing = drawing_of(state, init, seed)) {
    if (!device.draw(name, shape, dtype, *drawing))
      in_parts([&](void* memory, int64_t first, int64_t last) { draw_into(memory, dtype, *drawing, first, last); });
  } else if (init.kind == Init::Kind::values) {
    device.write(name, init.array->cast(dtype).reshaped(shape), dtype);
  } else {
    CARAVAN_CHECK(init.kind == Init::Kind::constant, "a state without initial values was to be filled");
    if (init.a == 0 && !std::signbit(init.a)) return device.clear(name, shape, dtype);
    in_parts([&](void* memory, int64_t first, int64_t last) {
      for (int64_t e = 0; e < last - first; ++e) store(dtype, memory, e, init.a);
    });
  }
}

}  // namespace caravan
