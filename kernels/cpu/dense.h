// What dense.cpp hands to the kernels, which are compiled once per instruction set.
#pragma once
#include "tasc/attention_call.h"

#include <stdint.h>

namespace tasc {

constexpr int64_t kPanel = 16;  // outputs of a panel, a lane each
constexpr int64_t kGroup = 4;   // panels that lie side by side; the last group may have fewer
constexpr int64_t kLine = 64;   // bytes of a panel for one step over k

struct DenseCall {
  const void* x;       // (rows, k)
  const char* panels;  // groups, each (steps, panels of the group, kLine bytes)
  const float* bias;   // (n), padded to whole panels; or null
  void* out;           // (rows, n)
  int64_t rows, k, n;
};

// Computes the outputs of groups [begin, end).
using DenseKernel = void (*)(const DenseCall&, int64_t begin, int64_t end);

// Computes items [begin, end), each of a sequence, a head of keys and a query.
using AttentionKernel = void (*)(const AttentionCall&, int64_t begin, int64_t end, float* scratch);

// What a layer computes between its products, for one element type; `out` may be an input.
struct RowKernels {
  // Divides each of `rows` rows of k elements by its root mean square, and multiplies by `weight` (k).
  void (*norm)(const void* x, const void* weight, float eps, int64_t rows, int64_t k, void* out);
  // Rotates the pairs (i, i + d / 2) of each head of one row, in place, by `cos` and `sin` (d).
  void (*rotate)(void* x, const void* cos, const void* sin, int64_t heads, int64_t d);
  void (*gate)(const void* gate, const void* up, int64_t size, void* out);  // SiLU(gate) times up
  void (*add)(const void* x, const void* y, int64_t size, void* out);
};

// Of the chosen instruction set.
const RowKernels& row_kernels(bool half);

#define TASC_DENSE_KERNELS(name)                                       \
  namespace name {                                                     \
  void dense_float32(const DenseCall& call, int64_t begin, int64_t end);  \
  void dense_bfloat16(const DenseCall& call, int64_t begin, int64_t end); \
  void attend_float32(const AttentionCall& call, int64_t begin, int64_t end, float* scratch);  \
  void attend_bfloat16(const AttentionCall& call, int64_t begin, int64_t end, float* scratch); \
  extern const RowKernels rows_float32;                                    \
  extern const RowKernels rows_bfloat16;                                   \
  }
TASC_DENSE_KERNELS(portable)
#ifdef TASC_X86
TASC_DENSE_KERNELS(avx2)
TASC_DENSE_KERNELS(avx512)
TASC_DENSE_KERNELS(avx512bf16)
#endif

}  // namespace tasc
