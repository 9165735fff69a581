// The likeliest tokens of rows of logits, and their probabilities.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "tasc/argmax.h"

namespace tasc {

// e^x for x <= 0, within 0.4 %: 2^n by the exponent of a float, 2^f by a parabola; no branch, so that
// compilers use vectors.
inline float quick_exp(float x) {
  const float y = (x > -80.f ? x : -80.f) * 1.44269504f + 127.f;
  const auto whole = static_cast<int32_t>(y);
  const float part = y - static_cast<float>(whole);
  return std::bit_cast<float>(whole << 23) * (1.f + part * (0.65617f + 0.34383f * part));
}

// Sum of e^(scale * (x - most)) over entries begin..end - 1; those that are not numbers count nothing.
template <class T>
float exp_sum(const T* row, int64_t begin, int64_t end, float most, float scale) {
  constexpr int kWide = 16;
  float sums[kWide] = {};
  int64_t i = begin;
  for (; i + kWide <= end; i += kWide)
    for (int j = 0; j < kWide; ++j) sums[j] += quick_exp(scale * (to_float(row[i + j]) - most));
  for (; i < end; ++i) sums[0] += quick_exp(scale * (to_float(row[i]) - most));
  float sum = 0;
  for (float s : sums) sum += s;
  return sum;
}

// The ids of the k <= kMaxTop largest entries as in top, and their softmax(scale * row), within 1 %.
// Each block is read for its largest entry and summed up while it lies in the cache.
template <class T>
void top_softmax(const T* row, int64_t size, int k, float scale, int32_t* ids, float* probabilities) {
  top(row, size, k, ids);
  if (ids[0] < 0) {
    for (int i = 0; i < k; ++i) probabilities[i] = 0;
    return;
  }
  const float most = to_float(row[ids[0]]);
  float sum = 0;
  for (int64_t begin = 0; begin < size; begin += kBlock)
    sum += exp_sum(row, begin, begin + kBlock < size ? begin + kBlock : size, most, scale);
  for (int i = 0; i < k; ++i)
    probabilities[i] = ids[i] < 0 ? 0 : std::exp(scale * (to_float(row[ids[i]]) - most)) / sum;
}

}  // namespace tasc
