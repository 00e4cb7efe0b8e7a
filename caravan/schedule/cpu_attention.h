// Attention on a processor, without storing the scores: the kernels of a chain (attention_chain.h) become one that
// computes the result, and one that computes the gradients.
//
//     score, shown, most, power, sum, weight, out         become    out, most, sum = attention(query, key, value)
//     d_value, d_weight, dot, d_score, d_query, d_key     become    d_query, d_key, d_value = gradient of attention(..)
//
// Each computes one head after the other, the scores of a few rows at a time, which stay in a near cache. A row has two
// numbers in memory, its largest score and the sum of its exponentials, from which the gradient computes the weights
// again. Columns that a row does not see are left out (codegen/prelude/attention.h says when). What a head needs on the
// way is an array of the thread, or if that would be too large (Tuning::stack_elements), a part of a buffer.
//
// Runs on kernels as they were lowered. Promises the same bits as they have: every sum keeps its order, with its blocks
// and slices, and what is left out changes none. Refuses a processor without vectors or without fused multiply-add,
// other precisions than f32, rows that are not neighbours in memory, a depth that does not fill vectors or is more than
// 256, fewer than 32 columns, whose sums have no lanes, more than 16,384, whose sums have blocks of blocks, and sums
// over several heads.
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module cpu_attention(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
