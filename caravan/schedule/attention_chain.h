// Finds attention among kernels as they were lowered, one for each accumulation: the product of queries and keys, its
// softmax and the product with the values; and the products that lead from the gradient of the result to those of
// queries, keys and values.
//
//     score[b, m, n] += q[b, m, k] * k[b, n, k]                         d_v[b, n, k] += d[b, m, k] * weight[b, m, n]
//     shown[b, m, n] = where(m >= n, score[b, m, n] / c, -1e30)         d_weight[b, m, n] += d[b, m, k] * v[b, n, k]
//     most[b, m] max= shown[b, m, n]                                    dot[b, m] += -d_weight * (power / sum) / sum
//     power[b, m, n] = exp(shown[b, m, n] - most[b, m])                 d_score = where(m >= n, (d_weight / sum + dot)
//     sum[b, m] += power[b, m, n]                                                               * power, 0) / c
//     weight[b, m, n] = power[b, m, n] / sum[b, m]                      d_q[b, m, k] += d_score[b, m, n] * k[b, n, k]
//     out[b, m, k] += weight[b, m, n] * v[b, n, k]                      d_k[b, n, k] += d_score[b, m, n] * q[b, m, k]
//
// Kernels are followed from what they load to the kernel that stores it. Which of their loops is b, m, n or k is seen
// from the strides in memory, not from names. It does not matter which of the elementwise steps have buffers of their
// own, nor that values are rounded to a narrower precision in between. Without a mask the attention sees everything.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "caravan/loop/loop.h"

namespace caravan::schedule {

// The axes of attention; those of examples and heads are numbered from `kFirstBatch` on.
enum AttentionAxis : int { kQuery, kKey, kDepth, kFirstBatch };

// Elements of a buffer by the axes of attention.
struct AttentionPlace {
  ir::BufferId buffer = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides;  // by axis
  bool adds_zero = false;        // what is stored there is the value plus 0, which turns -0 into 0
  bool operator==(const AttentionPlace&) const = default;
};

struct AttentionChain {
  std::vector<int64_t> extents;   // by axis
  double scale = 1, divisor = 0;  // the factor of scores; where they are divided, what by
  bool causal = false;
  double hidden = 0;  // the score of a position that is not seen
  AttentionPlace query, key, value, out;
  size_t forward = 0;                // the kernel that computes the result
  std::vector<size_t> sums{};        // the kernels that add along rows of scores
  std::map<size_t, int> products{};  // the kernels that add products, and over which axis
  std::set<size_t> kernels{};  // all whose results nothing else reads, and those that compute results and gradients

  bool has_gradient = false;
  AttentionPlace d_out, d_query, d_key, d_value;
  size_t backward = 0;  // the first kernel of the gradient
};

// The chains of a module whose kernels are as they were lowered. A chain whose intermediate values something else reads
// is not one. Of a chain with some gradients and not all three there is none either.
std::vector<AttentionChain> attention_chains(const loop::Module& module);

}  // namespace caravan::schedule
