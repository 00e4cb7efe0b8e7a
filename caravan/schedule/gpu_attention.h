// Attention on a GPU, without storing the scores: the kernels of a chain (attention_chain.h) become one that computes
// the result, and two that compute the gradients, of the queries and of keys and values.
//
//     score, shown, most, power, sum, weight, out      becomes    out, totals = attention(query, key, value)
//     d_value, d_weight, dot, d_score,                 becomes    d_query, dots = attention(.., out, d_out, totals)
//     d_query, d_key                                              d_key, d_value = attention(.., d_out, totals, dots)
//
// A row has two numbers instead of a score for each column: `totals`, the logarithm of the sum of its exponentials,
// from which the weights are computed again, and `dots`, the product of the result and its gradient. Scores and sums
// are f32; factors have their own precision, or with tf32 10 bits of fraction. A gradient that is only copied is
// written to its destination. Columns that a row does not see are left out: their weights are 0. If a value is infinite
// or NaN, the product with 0 would be NaN on the CPU.
//
// May run on kernels as they were lowered, for a GPU. Refuses chains whose rows are not neighbours in memory or not
// aligned to 16 bytes, whose depth is more than 128, those with fewer than 16 rows or columns, and sums over several
// heads, as of keys that several queries share. If tensor cores cannot be used, products in tiles take less time: then
// only scores that would take much memory are not stored (Gpu::stored_scores).
#pragma once

#include "caravan/loop/loop.h"
#include "caravan/target/target.h"

namespace caravan::schedule {

loop::Module gpu_attention(const loop::Module& module, const Target& target);

}  // namespace caravan::schedule
