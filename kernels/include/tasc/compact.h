// Compaction of a key/value cache: the accepted path moves to the front of what a step wrote.
#pragma once
#include "tasc/tree.h"

namespace tasc {

// Index of the first entry of path that does not lie in 0..limit - 1 behind the one before it; -1
// when the path is well formed. Rising entries are what makes moving in place safe.
TASC_HD inline int first_bad_step(const int32_t* path, int count, int64_t limit) {
  for (int i = 0; i < count; ++i)
    if (path[i] < 0 || path[i] >= limit || (i > 0 && path[i] <= path[i - 1])) return i;
  return -1;
}

// Moves position start + path[j] to start + j, for every j in turn, in one of many equal blocks. A
// position is `words` words of type Word, `stride` words after the one before it. Each lane moves
// the same words of all positions, so no lane waits for another.
template <class Word, class Lanes>
TASC_HD void compact(const Lanes& lanes, Word* block, int64_t stride, int64_t words, int64_t start,
                     const int32_t* path, int count) {
  for (int j = 0; j < count; ++j) {
    if (path[j] == j) continue;
    const Word* from = block + (start + path[j]) * stride;
    Word* to = block + (start + j) * stride;
    for (int64_t w = lanes.index(); w < words; w += lanes.count()) to[w] = from[w];
  }
}

}  // namespace tasc
