// The largest entries of a row on the CPU, and greedy verification, which reads only rows on the path.
#pragma once
#include "tasc/verify.h"

namespace tasc {

// The largest of entries begin..end - 1; -infinity if none is above it. NaN is never the largest.
template <class T>
float largest(const T* row, int64_t begin, int64_t end) {
  constexpr int kWide = 16;  // independent running maxima, so that the compiler uses vectors
  float most[kWide];
  for (float& m : most) m = -INFINITY;
  int64_t i = begin;
  for (; i + kWide <= end; i += kWide)
    for (int j = 0; j < kWide; ++j) {
      const float x = to_float(row[i + j]);
      most[j] = x > most[j] ? x : most[j];
    }
  for (; i < end; ++i) most[0] = to_float(row[i]) > most[0] ? to_float(row[i]) : most[0];
  float best = -INFINITY;
  for (float m : most) best = m > best ? m : best;
  return best;
}

constexpr int64_t kBlock = 1024;  // entries to scan again for the position of their maximum

// The id of the largest entry, the smallest id on ties; -1 if no entry is above -infinity. NaN is never
// the largest.
template <class T>
int64_t argmax(const T* row, int64_t size) {
  float best = -INFINITY;
  int64_t where = -1;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const float most = largest(row, begin, begin + kBlock < size ? begin + kBlock : size);
    if (most > best) best = most, where = begin;
  }
  if (where < 0) return -1;
  while (to_float(row[where]) != best) ++where;
  return where;
}

constexpr int kMaxTop = 64;

// The ids of the k <= kMaxTop largest entries, largest first, smaller ids first on ties; padded with -1
// if fewer entries are above -infinity.
template <class T>
void top(const T* row, int64_t size, int k, int32_t* ids) {
  float values[kMaxTop];
  for (int i = 0; i < k; ++i) values[i] = -INFINITY, ids[i] = -1;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t end = begin + kBlock < size ? begin + kBlock : size;
    if (!(largest(row, begin, end) > values[k - 1])) continue;
    for (int64_t i = begin; i < end; ++i) {
      const float x = to_float(row[i]);
      if (!(x > values[k - 1])) continue;
      int at = k - 1;
      for (; at > 0 && x > values[at - 1]; --at) values[at] = values[at - 1], ids[at] = ids[at - 1];
      values[at] = x, ids[at] = static_cast<int32_t>(i);
    }
  }
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
