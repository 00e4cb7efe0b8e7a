// The values of a program's buffers during one run.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "caravan/backend/interp/interp.h"
#include "caravan/backend/interp/number.h"

namespace caravan::interp {

// Leaves are made when they are first read; accumulations add the computed ones.
class Buffers {
 public:
  // Keeps references to the program, the states and the symbols.
  Buffers(const ir::Program& program, const State& state, const std::vector<int64_t>& symbols, uint64_t seed)
      : program_(program), state_(state), symbols_(symbols), seed_(seed), values_(program.buffers.size()) {}

  Elements elements(ir::BufferId id);

  void put(ir::BufferId id, Array values) { values_[size_t(id)] = std::move(values); }
  void drop(ir::BufferId id) { values_[size_t(id)].reset(); }
  std::optional<Array> take(ir::BufferId id) { return std::exchange(values_[size_t(id)], std::nullopt); }

  // A copy of the buffer's values as an array of its shape in this precision.
  Array copy(ir::BufferId id, DType dtype);

 private:
  const Array& made(ir::BufferId id);
  const Array& state_values(const ir::Buffer& buffer) const;
  Array leaf_values(const ir::Buffer& buffer);

  const ir::Program& program_;
  const State& state_;
  const std::vector<int64_t>& symbols_;
  const uint64_t seed_;
  std::vector<std::optional<Array>> values_;
};

}  // namespace caravan::interp
