#pragma once

#include <string.h>

#include "caravan/codegen/prelude/cpu.h"

/* A function that computes a chunk of additions and multiplications, and two that move a chunk of memory. The text
   before this one defines CARAVAN_VECTOR_BYTES, the size of a vector register, and CARAVAN_SUMS, a number of
   independent sums. The copy goes from one half of a chunk's memory to the other. The update changes all of it in
   place, as an optimiser does with weights; it is often faster, because the processor need not fetch other memory
   before it writes.
   */
typedef float caravan_widest __attribute__((vector_size(CARAVAN_VECTOR_BYTES)));
void caravan_compute(const caravan_step* step, int64_t chunk) {
  caravan_widest* out = (caravan_widest*)step->buffers[chunk];
  caravan_widest sums[CARAVAN_SUMS], factor = out[0];
  for (int k = 0; k < CARAVAN_SUMS; ++k) sums[k] = out[k];
  for (int64_t i = 0; i < step->symbols[0]; ++i)
    for (int k = 0; k < CARAVAN_SUMS; ++k) sums[k] = sums[k] * factor + factor;
  for (int k = 0; k < CARAVAN_SUMS; ++k) out[k] = sums[k];
}
void caravan_copy(const caravan_step* step, int64_t chunk) {
  char* memory = step->buffers[chunk];
  const int64_t half = step->symbols[1];
  for (int64_t i = 0; i < step->symbols[0]; ++i) {
    memcpy(memory + half, memory, half);
    __asm__ volatile("" : : "r"(memory) : "memory");
  }
}
void caravan_update(const caravan_step* step, int64_t chunk) {
  caravan_widest* memory = (caravan_widest*)step->buffers[chunk];
  const int64_t vectors = 2 * step->symbols[1] / CARAVAN_VECTOR_BYTES;
  for (int64_t i = 0; i < step->symbols[0]; ++i) {
    for (int64_t k = 0; k < vectors; ++k) memory[k] = memory[k] + 1.0f;
    __asm__ volatile("" : : "r"(memory) : "memory");
  }
}
