// A decoder layer of Llama's kind, around its attention: two calls instead of forty operations.
#pragma once
#include "tasc/dense.h"

namespace tasc {

// All weights are of one element type. The layer's owner keeps them alive.
struct LayerParts {
  const PackedMatrix *query, *key, *value, *out, *gate, *up, *down;
  const void *norm, *mlp_norm;          // (hidden,)
  const void *query_norm, *key_norm;    // (d,) of each head; or both null
  float epsilon;
  int64_t d;  // elements of a head, even
};

class Layer {
 public:
  // Throws std::invalid_argument if the shapes or the element types of the parts do not fit.
  explicit Layer(const LayerParts& parts);

  // Writes the rotated queries (rows, heads, d) and keys, and the values, of `x` (rows, hidden). Row i is
  // rotated by row i % turns of `cos` and `sin` (turns, d).
  void before_attention(const void* x, int64_t rows, const void* cos, const void* sin, int64_t turns,
                        void* query, void* key, void* value, ThreadPool* pool) const;

  // Writes the layer's output (rows, hidden) for its input `x` and what its heads attended to.
  void after_attention(const void* x, const void* attended, int64_t rows, void* out, ThreadPool* pool) const;

 private:
  LayerParts parts_;
  int64_t hidden_, inner_, size_;
};

}  // namespace tasc
