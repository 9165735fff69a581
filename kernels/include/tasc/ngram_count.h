// Counts n-grams of a fixed length that never cross samples.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tasc {

struct NgramCounts {
  std::vector<int32_t> ids;     // (K * n): row k holds the k-th n-gram
  std::vector<int64_t> counts;  // (K): overlapping occurrences, descending; ties by ascending ids
};

// tokens (T), ids >= 0; offsets (S + 1): sample s is tokens[offsets[s], offsets[s + 1]).
// O(T log n) expected. Throws std::invalid_argument when the arrays do not fit together or n < 1.
NgramCounts count_ngrams(std::span<const int32_t> tokens, std::span<const int64_t> offsets, int n);

// Throws std::invalid_argument unless offsets begin at 0, never fall, and end at size < 2^31.
void check_offsets(std::span<const int64_t> offsets, size_t size);

}  // namespace tasc
