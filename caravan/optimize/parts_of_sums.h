// Divides a sum into parts, each of which is an element of a buffer of its own, and a sum of the parts.
#pragma once

#include "caravan/ir/program.h"
#include "caravan/ir/write_form.h"

namespace caravan::optimize {

// How many sums an accumulation computes, and how many terms each of them has.
struct SumSizes {
  int64_t sums = 1, terms = 1;
};
SumSizes sizes_of(const ir::Accumulation& accumulation, const ir::WriteForm& form);

// Can parts of the sum be stored, and added up later? Not if it is narrow, because the parts would round, or if some
// elements get no term or several sums.
bool has_parts(const ir::Program& program, const ir::Accumulation& accumulation, const ir::WriteForm& form);

// Divides iterator k into blocks of `size`, which divides its extent: i becomes size * block + i. The number of the
// block is a new iterator, last, which is returned.
int divide(ir::Accumulation& accumulation, size_t k, int64_t size);

// Appends to `program` an accumulation that computes `first`, which is `whole` with divided iterators, for each value
// of the reduced iterator `kept`, and one that adds up these parts: part[kept, ..] and y[..] += part[kept, ..]. `form`
// is that of `whole`. The second one has no stated order; its iterator over the parts is number 0.
void append_parts(ir::Program& program, const ir::Accumulation& whole, const ir::WriteForm& form,
                  ir::Accumulation first, int kept);

}  // namespace caravan::optimize
