// Products of a few rows with a packed matrix, whose cost is that of reading the matrix once, and attention.
//
// Each output is a sum over k in ascending order, in one lane and from 0, whatever the number of rows:
// a row's outputs are the same bits alone, in a tree and in a batch. bfloat16 takes two elements per step.
//
// Weights in 8 bits have a scale for each 32 inputs of an output, as llama.cpp's Q8_0 has. The inputs are rounded
// likewise, each row by itself. A block's products are added as whole numbers, and the blocks in ascending order as
// floats: sum = fma(whole, input scale * weight scale, sum). These have the same bits on every CPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tasc/attention_call.h"
#include "tasc/quantised.h"
#include "tasc/thread_pool.h"

namespace tasc {

enum class Element { kFloat32, kBFloat16 };

// Memory for `bytes` of a matrix, at a whole line of 64 bytes, beside other matrices.
std::shared_ptr<char> matrix_memory(size_t bytes);

// Rows of inputs as a matrix multiplies them: as they are, which their owner keeps alive, or rounded to 8 bits.
class PackedRows {
 public:
  const void* x() const { return x_; }
  const QuantisedRows& quantised() const { return quantised_; }
  int64_t count() const { return quantised_.count; }

 private:
  friend class PackedMatrix;
  PackedRows(const void* x, int64_t count) : x_(x), quantised_{nullptr, nullptr, nullptr, count} {}
  void round(Element element, int64_t k);

  const void* x_;
  QuantisedRows quantised_;
  std::vector<char> memory_;
};

// A matrix (n, k) of float32, of bfloat16 bits or of 8-bit whole numbers, packed in panels of 16 rows. Immutable.
class PackedMatrix {
 public:
  // Copies `weights` (n, k), and `bias` (n,) of float32 if there is one. With `scales`, bfloat16 bits (n, blocks of 32
  // inputs), the weights are int8, none of them -128, and inputs and outputs are of `element`.
  PackedMatrix(const void* weights, Element element, int64_t n, int64_t k, const float* bias,
               const uint16_t* scales = nullptr);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  Element element() const { return element_; }
  bool has_bias() const { return bias_ != nullptr; }
  bool has_scales() const { return scales_ != nullptr; }

  // Returns `x` (count, k) of `element` for `multiply`, also of other matrices of the same element, k and bits.
  PackedRows rows(const void* x, int64_t count) const;

  // out (rows, n) = the rows times the transposed matrix, plus the bias; out of `element`.
  void multiply(const PackedRows& rows, void* out, ThreadPool* pool) const;
  void multiply(const void* x, int64_t count, void* out, ThreadPool* pool) const {
    multiply(rows(x, count), out, pool);
  }

  // Writes to `out` (count, 16) the products of one row x (k) with panels of 16 rows, with the bits of `multiply`,
  // without scales. Beyond the last row of the matrix they are undefined.
  void pick(const void* x, const int64_t* panels, int64_t count, float* out) const;

  // Writes rows [begin, end) of the matrix as they were given.
  void unpack(void* weights, int64_t begin, int64_t end) const;
  void unpack(void* weights) const { unpack(weights, 0, n_); }

 private:
  template <class Visit>
  void each_piece(int64_t begin, int64_t end, const Visit& visit) const;
  void place_scales(const uint16_t* scales, int64_t panels);

  int64_t n_, k_;
  Element element_;
  int64_t size_;   // bytes of a weight
  int64_t steps_;  // lines of a panel
  std::shared_ptr<char> panels_;   // see cpu/dense.h
  std::unique_ptr<float[]> bias_;  // padded to whole panels; or null
  std::shared_ptr<char> scales_;   // of bfloat16, see cpu/dense.h; or null
};

// Attends from the last `queries` of `keys` positions. A query takes the keys that it may attend to in ascending
// order and adds by their rank among them: keys that it does not see change no bit of its output.
void attend(const AttentionCall& call, Element element, ThreadPool* pool);

// The instruction set of the kernels: the best that this machine has of "avx512bf16", "avx512", "avx2", "neonbf16",
// "neondot", "neon" and "portable", or the one in the environment variable TASC_CPU_CAPABILITY. On aarch64 all of them
// have the same bits. Throws std::invalid_argument if the machine does not have that one.
std::string_view dense_instructions();

// Tests use several in one process. Returns false if the machine does not have it.
bool use_dense_instructions(std::string_view name);

}  // namespace tasc
