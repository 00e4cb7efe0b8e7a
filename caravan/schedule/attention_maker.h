// Makes kernels of a chain (attention_chain.h), for gpu_attention and cpu_attention.
#pragma once

#include <functional>
#include <optional>

#include "caravan/schedule/attention_chain.h"

namespace caravan::schedule {

class AttentionMaker {
 public:
  AttentionMaker(loop::Module& module, const AttentionChain& chain);

 protected:
  using Rows = loop::Attention::Rows;
  std::vector<const AttentionPlace*> places() const;  // of all that is read and written
  // Examples and heads become two loops at most. Two axes are one if the outer one goes on where the inner one ends.
  bool join_batch();
  Rows rows(const AttentionPlace& p) const;
  std::vector<Rows> given() const;                    // query, key, value
  ir::BufferId add_numbers(const std::string& what);  // a buffer with a number for each row
  ir::BufferId add_buffer(const std::string& what, const std::vector<int64_t>& sizes);
  // A kernel in the place of those of the chain that are before `end`, and from `begin` on.
  loop::Kernel kernel(loop::Attention a, const AttentionPlace& result, size_t begin, size_t end) const;

  loop::Module& module_;
  const AttentionChain& chain_;
  loop::Attention base_;

 private:
  struct Batch {
    size_t axis = 0;
    int64_t extent = 0;
  };
  std::vector<Batch> batch_;
};

// What stands for a chain.
struct AttentionKernels {
  loop::Kernel forward;
  std::vector<loop::Kernel> backward{};
};
// The module with the kernels that `make` makes of each chain; none: the chain stays. `make` may add buffers.
loop::Module with_attention(
    const loop::Module& module,
    const std::function<std::optional<AttentionKernels>(loop::Module&, const AttentionChain&)>& make);

}  // namespace caravan::schedule
