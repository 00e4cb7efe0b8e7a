// How many bytes are cut into messages.
#pragma once

#include <algorithm>

#include "caravan/target/exchange.h"

namespace caravan::mpi {

// Calls it with where each message of so many bytes begins, and its size; sender and receiver do so alike.
template <class What>
void in_pieces(size_t bytes, What&& what) {
  const size_t most = bytes <= kSentInPieces ? kSentAtOnce : kMostSentAtOnce;
  for (size_t first = 0; first < bytes; first += most) what(first, int(std::min(most, bytes - first)));
}

}  // namespace caravan::mpi
