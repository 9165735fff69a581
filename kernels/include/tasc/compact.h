// Compaction of a key/value cache: accepted positions move down to where their row goes on.
#pragma once
#include "tasc/tree.h"

namespace tasc {

// One position of one sequence that moves; three int32 in a row, as Python passes them.
struct Move {
  int32_t row, from, to;
};

// Index of the first of moves that leaves the cache, goes up, or does not rise (in both positions)
// behind the one before it in its row; rows come one after another. -1 when all is well: such moves
// are safe in place, in their order.
TASC_HD inline int first_bad_move(const Move* moves, int count, int64_t rows, int64_t positions) {
  for (int i = 0; i < count; ++i) {
    const Move m = moves[i];
    if (m.row < 0 || m.row >= rows || m.to < 0 || m.to > m.from || m.from >= positions) return i;
    if (i == 0 || m.row > moves[i - 1].row) continue;
    if (m.row < moves[i - 1].row || m.from <= moves[i - 1].from || m.to <= moves[i - 1].to)
      return i;
  }
  return -1;
}

// Makes the moves of `row` in one of its equal blocks. A position is `words` words of type Word.
// Each lane moves the same words of all positions, so no lane waits for another.
template <class Word, class Lanes>
TASC_HD void compact(const Lanes& lanes, Word* block, int64_t words, int64_t row, const Move* moves,
                     int count) {
  for (int j = 0; j < count; ++j) {
    if (moves[j].row != row || moves[j].from == moves[j].to) continue;
    const Word* from = block + moves[j].from * words;
    Word* to = block + moves[j].to * words;
    for (int64_t w = lanes.index(); w < words; w += lanes.count()) to[w] = from[w];
  }
}

}  // namespace tasc
