// What a layer needs to decode one token at a time, for attention and positions of your own. In phases that are not
// decoding, a call sees whole sequences, and all of this does nothing:
//
//     Tensor MyAttention::operator()(Operand x, const Phase& phase) const {          // x is `..., t | c`
//       Tensor q = wq(x), k = remembered(wk(x), name + ".keys", phase), v = remembered(wv(x), name + ".values", phase);
//       return wo(attend(q, k, v, {.causal = !decodes_token(phase), .mask = visible(q, k, phase)}));
//     }
#pragma once

#include "caravan/nn/phase.h"

namespace caravan::nn {

// Whether a call is given one token of each sequence, and not a prompt or whole sequences.
bool decodes_token(const Phase& phase);

// The positions of x, `..., t | ...`, in their sequences, as `..., t |` or `t |`: 0, 1, 2, ... for whole sequences.
Tensor positions(Operand x, const Phase& phase);

// x is `..., t | h, d`, of the tokens that the call is given. Decoding one token: the x of all positions, from the
// state `name`, which the phase's updates change in place. Otherwise x as it is; a prompt fills the state.
Tensor remembered(Operand x, const std::string& name, const Phase& phase);
// The same in another layout: the positions of one channel are neighbours in memory. So products over the channels, as
// of queries and keys, are computed for many positions at once.
Tensor remembered_by_channel(Operand x, const std::string& name, const Phase& phase);

// Which of the positions of the keys hold tokens that a query may see, `..., s | t ->`: a mask for `attend`. None where
// all do, or where `.causal` says it. Queries are `..., s | h, d`, keys `..., t | h, d`.
OptionalOperand visible(Operand q, Operand k, const Phase& phase);

}  // namespace caravan::nn
