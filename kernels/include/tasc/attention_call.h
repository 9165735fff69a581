// What attention over a cache of keys and values reads and writes.
#pragma once
#include <stdint.h>

namespace tasc {

constexpr int64_t kMaxHeadDim = 256;
constexpr int64_t kMostHeads = 4;  // of a query, attending at a time

// Strides are in elements; elements of a head lie side by side.
struct AttentionCall {
  const void *query, *key, *value;  // (sequences, heads, queries, d), (sequences, key_heads, keys, d) twice
  void* out;                        // (sequences, queries, heads, d), contiguous
  const uint8_t* mask;              // (sequences, queries, keys): 1 where a query may attend; null: causal
  const float* sinks;               // (heads,) scores that take weight and add nothing; or null
  int64_t sequences, heads, key_heads, queries, keys, d;
  int64_t query_strides[3], key_strides[3], value_strides[3], mask_strides[2];
  float scale, softcap;             // softcap 0: none

  // The slots of one query and the scores of its heads, each rounded up to whole lanes.
  int64_t scratch_floats() const { return (1 + kMostHeads) * (keys + 16); }
};

}  // namespace tasc
