// Draft trees in arrays: node i continues node parents[i] < i; -1 is the last accepted token.
// The C++ and the CUDA build share the routines.
#pragma once
#include <stdint.h>

#ifdef __CUDACC__
#define TASC_HD __host__ __device__
#define TASC_UNROLL(count) _Pragma(TASC_TEXT(unroll count))
#define TASC_TEXT(words) #words
#else
#define TASC_HD
#define TASC_UNROLL(count)
#endif

namespace tasc {

// A step scores all nodes in one forward with an n × n mask, so a larger tree must be a mistake.
constexpr int kMaxNodes = 4096;

// The first node whose parent does not precede it, or -1 for a valid tree.
TASC_HD inline int first_bad_parent(const int32_t* parents, int n) {
  for (int i = 0; i < n; ++i)
    if (parents[i] < -1 || parents[i] >= i) return i;
  return -1;
}

inline int words_for(int n) { return (n + 63) / 64; }

// bits[i * words + w]: bit j of word w is set if node 64 w + j is node i or one of its ancestors.
// depths[i]: 0 for a child of the last accepted token.
TASC_HD inline void ancestor_bits(const int32_t* parents, int n, int words, uint64_t* bits,
                                  int32_t* depths) {
  for (int i = 0; i < n; ++i) {
    const int p = parents[i];
    for (int w = 0; w < words; ++w) bits[i * words + w] = p < 0 ? 0 : bits[p * words + w];
    bits[i * words + i / 64] |= uint64_t{1} << (i % 64);
    depths[i] = p < 0 ? 0 : depths[p] + 1;
  }
}

// Follows the target's arg-max through the tree. best[0] is the arg-max after the context and
// best[i + 1] the one after node i. Writes the accepted nodes to path and returns their number. The bonus
// token is best[0] for an empty path, else best[path[last] + 1].
TASC_HD inline int greedy_path(const int32_t* tokens, const int32_t* parents, const int32_t* best,
                               int n, int32_t* path) {
  int accepted = 0;
  int at = -1;
  for (int i = 0; i < n; ++i) {  // children come after their parent, so one pass is enough
    if (parents[i] == at && tokens[i] == best[at + 1]) {
      path[accepted++] = i;
      at = i;
    }
  }
  return accepted;
}

}  // namespace tasc
