// The loop of byte-pair encoding: two neighbours become one piece, the most urgent pair first, until no pair is known.
#pragma once

#include <queue>
#include <tuple>
#include <vector>

#include "caravan/data/tokenizer.h"

namespace caravan::data {

// What a pair of neighbours becomes.
struct PairMerge {
  double rank = 0;  // the lowest is merged first; of equal ones, the leftmost
  int32_t id = 0;   // of the piece that they become
};

// `merge_of(left, right)` gives a PairMerge or nothing. n ids take O(n log n) calls and steps.
template <class MergeOf>
Ids merge_pairs(Ids ids, const MergeOf& merge_of) {
  struct Candidate {
    PairMerge merge;
    size_t at;            // of the left one
    int32_t left, right;  // what was there when it was found
    bool operator>(const Candidate& c) const { return std::tie(merge.rank, at) > std::tie(c.merge.rank, c.at); }
  };
  constexpr int32_t kGone = -1;  // the id of what its left neighbour has taken in
  const size_t n = ids.size();
  std::vector<size_t> next(n), before(n);
  for (size_t i = 0; i < n; ++i) next[i] = i + 1, before[i] = i - 1;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](size_t at) {
    if (next[at] >= n) return;
    const int32_t left = ids[at], right = ids[next[at]];
    if (const auto merge = merge_of(left, right)) queue.push({*merge, at, left, right});
  };
  for (size_t i = 0; i < n; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    if (ids[c.at] != c.left || next[c.at] >= n || ids[next[c.at]] != c.right) continue;  // one of them has changed
    const size_t gone = next[c.at];
    ids[c.at] = c.merge.id;
    ids[gone] = kGone;
    next[c.at] = next[gone];
    if (next[gone] < n) before[next[gone]] = c.at;
    consider(c.at);
    if (c.at > 0) consider(before[c.at]);
  }
  std::erase(ids, kGone);
  return ids;
}

}  // namespace caravan::data
