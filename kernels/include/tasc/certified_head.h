// The largest logits of a head, exact, at the cost of reading its rows in 8 bits.
//
// A row w is also kept as scale times whole numbers q of 8 bits, and a state h becomes a scale times whole numbers.
// Products of whole numbers are exact, and by Cauchy and Schwarz the exact logit lies within
//   |w - q| |h| + |q| |h - its whole numbers|
// of the product, plus bounds for each rounding. Panels of 16 rows are multiplied exactly, by descending bounds,
// until no other panel can have one of the k largest logits. Their bits are those of PackedMatrix::multiply.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tasc/dense.h"

namespace tasc {

class CertifiedHead {
 public:
  // Keeps a reference to `matrix`. Throws std::invalid_argument for one with a bias or scales, or whose rows have more than
  // kMostElements or are not finite.
  explicit CertifiedHead(const PackedMatrix& matrix);

  static constexpr int64_t kMostElements = 1 << 16;
  static constexpr int kMostLogits = 64;

  int64_t n() const { return matrix_.n(); }

  // Writes the ids (rows, k) and logits (rows, k) of the k largest logits of the states x (rows, k of the matrix):
  // largest first, smaller ids first on ties. With `totals` (rows), also the logarithm of the sum of e^logit, from
  // logits in 8 bits. An id of -1 marks a state that has no certificate: it is not finite, its logits could
  // overflow, or some of the k are not finite. Returns the number of panels that were multiplied exactly.
  int64_t top(const void* x, int64_t rows, int k, int32_t* ids, float* logits, float* totals, ThreadPool* pool) const;

 private:
  void quantise(int64_t row, const float* weights);
  int64_t some(const char* x, int64_t rows, int k, int32_t* ids, float* logits, float* totals, ThreadPool* pool) const;
  int64_t decide(const char* x, const float* upper, double slack, int k, int32_t* ids, float* logits) const;

  const PackedMatrix& matrix_;
  int64_t steps_, panels_, groups_;
  double largest_norm_ = 0;       // of the rows
  std::shared_ptr<char> lines_;   // see BoundCall in cpu/dense.h
  std::vector<float> scales_, errors_, norms_;
};

}  // namespace tasc
