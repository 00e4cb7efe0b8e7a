#pragma once

#include <stdint.h>

/* Threefry-4x32, 20 rounds: word `lane` of element `element` of the stream (seed, name, step). */
static inline uint32_t caravan_random(uint64_t seed, uint64_t name, uint64_t step, uint64_t element, int lane) {
  static const int rotation[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  uint32_t k[5] = {(uint32_t)seed, (uint32_t)(seed >> 32), (uint32_t)name, (uint32_t)(name >> 32), 0};
  uint32_t x[4] = {(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)step, (uint32_t)(step >> 32)};
  k[4] = 0x1BD11BDA ^ k[0] ^ k[1] ^ k[2] ^ k[3];
  for (int i = 0; i < 4; ++i) x[i] += k[i];
  for (int round = 0; round < 20; ++round) {
    int first = round % 2 ? 3 : 1, second = round % 2 ? 1 : 3, a = rotation[round % 8][0], b = rotation[round % 8][1];
    x[0] += x[first], x[first] = (x[first] << a | x[first] >> (32 - a)) ^ x[0];
    x[2] += x[second], x[second] = (x[second] << b | x[second] >> (32 - b)) ^ x[2];
    if (round % 4 == 3) {
      int turn = round / 4 + 1;
      for (int i = 0; i < 4; ++i) x[i] += k[(turn + i) % 5];
      x[3] += (uint32_t)turn;
    }
  }
  return x[lane];
}
