// Decoder layers of Llama's and of Gemma 3's kind: one call instead of forty operations a layer.
#pragma once
#include <vector>

#include "tasc/dense.h"

namespace tasc {

enum class Activation { kSilu, kGelu };  // GELU in its approximation by tanh

// All weights are of one element type. The layer's owner keeps them alive.
struct LayerParts {
  const PackedMatrix *query, *key, *value, *out, *gate, *up, *down;
  const void *norm, *mlp_norm;          // (hidden,)
  const void *query_norm, *key_norm;    // (d,) of each head; or both null
  float epsilon;
  int64_t d;  // elements of a head, even
  const void *attention_out_norm = nullptr, *mlp_out_norm = nullptr;  // (hidden,) of what both add; or null
  bool plus_one = false;                // norms multiply by 1 + weight
  Activation activation = Activation::kSilu;  // of the gate
};

// Tables (turns, d) that queries and keys are rotated by.
struct Rotation {
  const void *cos, *sin;
};

class Layer {
 public:
  // Throws std::invalid_argument if the shapes or the element types of the parts do not fit.
  explicit Layer(const LayerParts& parts);

  // Writes the rotated queries (rows, heads, d) and keys, and the values, of `x` (rows, hidden). Row i is
  // rotated by row i % turns of the tables.
  void before_attention(const void* x, int64_t rows, const Rotation& rotation, int64_t turns, void* query, void* key,
                        void* value, ThreadPool* pool) const;

  // Writes the layer's output (rows, hidden) for its input `x` and what its heads attended to.
  void after_attention(const void* x, const void* attended, int64_t rows, void* out, ThreadPool* pool) const;

  const LayerParts& parts() const { return parts_; }

 private:
  void norm(const void* x, const void* weight, int64_t rows, int64_t k, void* out) const;
  void norm_in_place(void* x, const void* weight, int64_t rows) const;

  LayerParts parts_;
  int64_t hidden_, inner_, size_;
};

// Keys and values of all layers, (layers, 2, sequences, key heads, capacity, d), and where a step writes.
struct CacheBlock {
  void* data;
  int64_t sequences, capacity, first, start;  // first: sequence, start: position
};

// Layers, one after the other, whose keys are of one shape.
class Decoder {
 public:
  // Throws std::invalid_argument as Layer does, or if the layers differ.
  Decoder(const std::vector<LayerParts>& layers, float scale);

  // Replaces the input `x` (rows, hidden) of the first layer by the output of the last one. The rows are sizes[i]
  // tokens of each sequence i, which see what masks[layer] (sequences, longest, start + longest) says, or if that is
  // null, all before them. Rows are rotated as in `Layer::before_attention`, by rotations[layer].
  void run(void* x, const std::vector<int64_t>& sizes, const std::vector<Rotation>& rotations, int64_t turns,
           const CacheBlock& cache, const std::vector<const uint8_t*>& masks, ThreadPool* pool) const;

 private:
  void attend(const Layer& layer, const std::vector<int64_t>& sizes, const char* query, const char* keys,
              const CacheBlock& cache, const uint8_t* mask, char* out, ThreadPool* pool) const;

  std::vector<Layer> layers_;
  float scale_;
  int64_t d_, key_heads_, size_, heads_ = 0;  // heads: the most of a layer
};

}  // namespace tasc
