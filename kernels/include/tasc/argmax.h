// Greedy verification on the CPU: only rows on the accepted path are read.
#pragma once
#include "tasc/verify.h"

namespace tasc {

// The id of the largest entry, the smallest on ties; -1 where no entry is above -infinity. An entry
// that is not a number is never the largest.
template <class T>
int64_t argmax(const T* row, int64_t size) {
  constexpr int kWide = 16;  // independent running maxima, so that the compiler uses vectors
  constexpr int64_t kBlock = 1024;
  float best = -INFINITY;
  int64_t where = -1;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t end = begin + kBlock < size ? begin + kBlock : size;
    float most[kWide];
    for (float& m : most) m = -INFINITY;
    int64_t i = begin;
    for (; i + kWide <= end; i += kWide)
      for (int j = 0; j < kWide; ++j) {
        const float x = to_float(row[i + j]);
        most[j] = x > most[j] ? x : most[j];
      }
    for (; i < end; ++i) most[0] = to_float(row[i]) > most[0] ? to_float(row[i]) : most[0];
    for (float m : most)
      if (m > best) best = m, where = begin;
  }
  if (where < 0) return -1;
  while (to_float(row[where]) != best) ++where;
  return where;
}

// logits (n + 1, size): row 0 after the last token, row i + 1 after node i. See verify.h for result.
template <class T>
void verify_greedy(const T* logits, int64_t size, const Tree& tree, int32_t* result) {
  const OneLane lanes;
  if (refuse_bad_tree(lanes, tree, result)) return;
  int at = -1, accepted = 0;
  while (true) {
    const int64_t best = argmax(logits + static_cast<int64_t>(at + 1) * size, size);
    if (best < 0) return finish(lanes, kBadRow, at + 1, tree.n, result);
    const int next = tree.child(at, static_cast<int32_t>(best));
    if (next < 0) return finish(lanes, accepted, static_cast<int32_t>(best), tree.n, result);
    result[2 + accepted++] = next;
    at = next;
  }
}

}  // namespace tasc
