// How processes cut what they send into messages.
#include "caravan/backend/mpi/pieces.h"

#include <gtest/gtest.h>

#include <vector>

namespace caravan::mpi {
namespace {

std::vector<int> pieces_of(size_t bytes) {
  std::vector<int> out;
  size_t next = 0;
  in_pieces(bytes, [&](size_t first, int size) {
    EXPECT_EQ(first, next);
    out.push_back(size);
    next = first + size_t(size);
  });
  EXPECT_EQ(next, bytes);
  return out;
}

TEST(Pieces, NothingIsNoMessage) { EXPECT_EQ(pieces_of(0), std::vector<int>{}); }
TEST(Pieces, ShortMessagesAreSentAtOnce) {
  const int at_once = int(kSentAtOnce);
  EXPECT_EQ(pieces_of(1), std::vector<int>{1});
  EXPECT_EQ(pieces_of(kSentAtOnce), std::vector<int>{at_once});
  EXPECT_EQ(pieces_of(kSentAtOnce + 1), (std::vector<int>{at_once, 1}));
  EXPECT_EQ(pieces_of(kSentInPieces), (std::vector<int>{at_once, at_once, int(kSentInPieces) - 2 * at_once}));
}
TEST(Pieces, LongOnesAreOneMessage) {
  EXPECT_EQ(pieces_of(kSentInPieces + 1), std::vector<int>{int(kSentInPieces) + 1});
  EXPECT_EQ(pieces_of(kMostSentAtOnce), std::vector<int>{int(kMostSentAtOnce)});
}
TEST(Pieces, LongerOnesThanMpiCanCountAreSeveral) {
  const int most = int(kMostSentAtOnce);
  EXPECT_EQ(pieces_of(kMostSentAtOnce + 1), (std::vector<int>{most, 1}));
  EXPECT_EQ(pieces_of(size_t(5) << 29), (std::vector<int>{most, most, most / 2}));
  EXPECT_EQ(pieces_of((size_t(3) << 30) + 5), (std::vector<int>{most, most, most, 5}));
}

}  // namespace
}  // namespace caravan::mpi
