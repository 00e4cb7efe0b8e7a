#pragma once

#include <stdint.h>

/* A stopwatch that is read after each kernel. */
typedef struct caravan_laps {
  int64_t (*now)(void); /* nanoseconds */
  int64_t last;         /* when it was read last */
  int64_t* nanoseconds; /* of each kernel, summed over steps */
} caravan_laps;
static inline void caravan_lap(caravan_laps* laps, int64_t kernel) {
  const int64_t now = laps->now();
  laps->nanoseconds[kernel] += now - laps->last;
  laps->last = now;
}
