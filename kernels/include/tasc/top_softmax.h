// The likeliest tokens of rows of logits, and their probabilities.
#pragma once
#include <cstdint>

namespace tasc {

// The ids of the k <= kMaxTop largest entries as in top, and their softmax(scale * row), within 1 %.
// Each block is summed right after the search for its largest entry, while it is in the cache.
// Instantiated in top_softmax.cpp, which is compiled for speed.
template <class T>
void top_softmax(const T* row, int64_t size, int k, float scale, int32_t* ids, float* probabilities);

}  // namespace tasc
