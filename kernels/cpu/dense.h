// What dense.cpp hands to the kernels, which are compiled once per instruction set.
#pragma once
#include "tasc/attention_call.h"
#include "tasc/quantised.h"

#include <stdint.h>

namespace tasc {

constexpr int64_t kPanel = 16;  // outputs of a panel, a lane each
constexpr int64_t kGroup = 4;   // panels that lie side by side; the last group may have fewer
constexpr int64_t kLine = 64;   // bytes of a panel for one step over k
constexpr int64_t kQuad = 4;    // elements of a row per step of 8 bits

struct DenseCall {
  const void* x;       // (rows, k)
  const char* panels;  // groups, each (steps, panels of the group, kLine bytes)
  const float* bias;   // (n), padded to whole panels; or null
  void* out;           // (rows, n)
  int64_t rows, k, n;
};

struct QuantisedCall {
  QuantisedRows rows;
  const char* panels;      // groups of 8-bit weights, each (steps, panels of the group, kLine bytes)
  const uint16_t* scales;  // of bfloat16; groups, each (blocks, panels of the group, kPanel)
  const float* bias;       // (n), padded to whole panels; or null
  void* out;               // (rows, n)
  int64_t blocks, n;
};

// For one element type of inputs and outputs.
struct QuantisedKernels {
  void (*round)(const void* x, int64_t k, const QuantisedRows& rows);  // fills `rows` from x (rows, k)
  void (*multiply)(const QuantisedCall&, int64_t begin, int64_t end);  // for groups [begin, end)
};

// Computes the outputs of groups [begin, end).
using DenseKernel = void (*)(const DenseCall&, int64_t begin, int64_t end);

// Computes items [begin, end), each of a sequence, a head of keys and a query.
using AttentionKernel = void (*)(const AttentionCall&, int64_t begin, int64_t end, float* scratch);

// What a layer computes between its products, for one element type; `out` may be an input.
struct RowKernels {
  // Divides each of `rows` rows of k elements by its root mean square, and multiplies by `weight` (k), or by 1 + weight.
  void (*norm)(const void* x, const void* weight, float eps, int64_t rows, int64_t k, void* out);
  void (*norm_plus_one)(const void* x, const void* weight, float eps, int64_t rows, int64_t k, void* out);
  // Rotates the pairs (i, i + d / 2) of each head of one row, in place, by `cos` and `sin` (d).
  void (*rotate)(void* x, const void* cos, const void* sin, int64_t heads, int64_t d);
  // SiLU(gate) times up, and GELU, in its approximation by tanh.
  void (*silu_gate)(const void* gate, const void* up, int64_t size, void* out);
  void (*gelu_gate)(const void* gate, const void* up, int64_t size, void* out);
  void (*add)(const void* x, const void* y, int64_t size, void* out);
};

// A state of a CertifiedHead as whole numbers: low[i] + 256 high[i], both of 8 bits. `high` is nearly always 0.
struct WholeState {
  const int8_t *low, *high;  // (steps * kQuad)
  const int32_t* high_steps; // the steps in which some `high` is not 0
  int64_t highs;             // how many steps those are
  uint32_t base_low, base_high;  // minus 128 times their sums, as the rows have an offset of 128
  float scale, rows_error, rows_norm;  // factors of a row's scale, error and norm
};

// Upper bounds of the logits of `rows` states.
struct BoundCall {
  const char* panels;  // groups of 8-bit rows, each (steps, panels of the group, kLine bytes)
  const float *scales, *errors, *norms;  // of each row, padded to whole panels
  const WholeState* states;
  float* upper;         // (rows, panels): the largest bound in each panel
  float *most, *sums;   // (rows, groups): the largest logit in 8 bits, and the sum of e^(logit - most); or null
  int64_t rows, steps, n;
};

constexpr int64_t kPicked = 4;  // panels that `pick` multiplies side by side

struct HeadKernels {
  void (*bound)(const BoundCall&, int64_t begin, int64_t end);  // for groups [begin, end)
  // Writes to `out` (count, kPanel) the outputs of one row in some panels, with the bits of DenseKernel.
  void (*pick)(const DenseCall&, const int64_t* panels, int64_t count, float* out);
};

// Of the chosen instruction set.
const RowKernels& row_kernels(bool half);
const HeadKernels& head_kernels(bool half);

#define TASC_DENSE_KERNELS(name)                                       \
  namespace name {                                                     \
  void dense_float32(const DenseCall& call, int64_t begin, int64_t end);  \
  void dense_bfloat16(const DenseCall& call, int64_t begin, int64_t end); \
  void attend_float32(const AttentionCall& call, int64_t begin, int64_t end, float* scratch);  \
  void attend_bfloat16(const AttentionCall& call, int64_t begin, int64_t end, float* scratch); \
  extern const RowKernels rows_float32;                                    \
  extern const RowKernels rows_bfloat16;                                   \
  extern const HeadKernels head_float32;                                   \
  extern const HeadKernels head_bfloat16;                                  \
  }
TASC_DENSE_KERNELS(portable)
#ifdef TASC_X86
TASC_DENSE_KERNELS(avx2)
TASC_DENSE_KERNELS(avx512)
TASC_DENSE_KERNELS(avx512bf16)
#endif
#ifdef TASC_ARM
TASC_DENSE_KERNELS(neon)
TASC_DENSE_KERNELS(neondot)
TASC_DENSE_KERNELS(neonbf16)
#endif

#define TASC_QUANTISED_KERNELS(name)                               \
  namespace name {                                                 \
  extern const QuantisedKernels quantised_float32, quantised_bfloat16; \
  }
TASC_QUANTISED_KERNELS(portable)
#ifdef TASC_X86
TASC_QUANTISED_KERNELS(avx2)
TASC_QUANTISED_KERNELS(avxvnni)
TASC_QUANTISED_KERNELS(avx512)
TASC_QUANTISED_KERNELS(avx512vnni)
#endif
#ifdef TASC_ARM
TASC_QUANTISED_KERNELS(neon)
TASC_QUANTISED_KERNELS(neondot)
#endif

}  // namespace tasc
