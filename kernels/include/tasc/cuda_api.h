// C ABI of libtasc_cuda: raw device pointers, sizes and a stream. Each call returns a CUDA error
// code (0 is success), starts its work on the stream and does not wait for it. Calls allocate
// nothing, so they can be captured in a CUDA graph.
#pragma once
#include <stdint.h>
#define TASC_API __attribute__((visibility("default")))  // the library hides everything else
#ifdef __cplusplus
extern "C" {
#endif

// bits (n, ceil(n / 64)) and depths (n,) of a tree of n nodes, see tasc/tree.h.
TASC_API int tasc_ancestor_bits(const int32_t* parents, int32_t n, uint64_t* bits, int32_t* depths,
                                void* stream);

// Verification of a tree of n nodes (0 is plain decoding). logits (n + 1, vocabulary) row-major, of
// dtype 0 = float32, 1 = float16, 2 = bfloat16: row 0 after the last token, row i + 1 after node i.
// result (n + 2,) receives the number of accepted nodes, the bonus token, the path, then -1; or,
// for a tree or row that is refused, one of the negative codes of tasc/verify.h and its position.

// Greedy: along the arg-max, the smaller id on ties. best (n + 1,) is scratch.
TASC_API int tasc_verify_greedy(const void* logits, int32_t dtype, int64_t vocabulary,
                                const int32_t* tokens, const int32_t* parents, int32_t n,
                                uint64_t* best, int32_t* result, void* stream);

// Sampled at a temperature with uniforms (n + 1,) in [0, 1), see tasc/verify.h.
TASC_API int tasc_verify_sampled(const void* logits, int32_t dtype, int64_t vocabulary,
                                 const int32_t* tokens, const int32_t* parents, int32_t n,
                                 float temperature, const double* uniforms, int32_t* result,
                                 void* stream);

// Rejection sampling against distributions (distribution_count, vocabulary), distribution_of (n + 1,) and uniforms (n + 1,) in
// [0, 1), see tasc/rejection.h. scratch (vocabulary,).
TASC_API int tasc_verify_rejection(const void* logits, int32_t dtype, int64_t vocabulary,
                                   const int32_t* tokens, const int32_t* parents, int32_t n,
                                   const float* distributions, int32_t distribution_count, const int32_t* distribution_of,
                                   int32_t replacement, float temperature, const double* uniforms,
                                   float* scratch, int32_t* result, void* stream);

// Moves positions of a cache (blocks / rows / heads, rows, heads, positions, position_size bytes):
// moves (count, 3) are row, from and to, as first_bad_move of tasc/compact.h allows (the caller has
// checked it).
TASC_API int tasc_compact(void* data, int64_t blocks, int32_t rows, int32_t heads,
                          int64_t positions, int64_t position_size, const int32_t* moves,
                          int32_t count, void* stream);

// Appends tokens (count,) to the window of a vocabulary, with `unique` only the first of those that
// are alike; arrays as in tasc/window_vocab.h.
TASC_API int tasc_window_push(const int32_t* tokens, int32_t count, int32_t unique,
                              int32_t vocabulary, int32_t size, int32_t* ring, int32_t* counts,
                              int32_t* slots, int32_t* marks, int32_t* ids, int32_t* free,
                              int32_t* state, void* stream);

// Brings the packed buffer (size, row_bytes) up to ids (size,) of the window: copies the rows of
// weight (vocabulary, row_bytes) that it does not hold yet. held (size,) is kept between calls.
TASC_API int tasc_window_gather(const void* weight, int64_t row_bytes, const int32_t* ids,
                                int32_t* held, int32_t size, void* buffer, void* stream);

// out (rows, n) = x (rows, k) times the transposed weight (n, k), plus bias (n,) or null; float32, or bfloat16.
// Sums are float32, in an order that depends on k alone.
TASC_API int tasc_linear(const void* x, const void* weight, const void* bias, int32_t bfloat16, int64_t rows,
                         int64_t n, int64_t k, void* out, void* stream);

// Attention as in tasc/attention_call.h; float32, or bfloat16. `sizes`, in the host's memory, are sequences, heads,
// key_heads, queries, keys and d, then the strides. A query takes the keys that it attends to in ascending order.
TASC_API int tasc_attend(const void* query, const void* key, const void* value, void* out, const uint8_t* mask,
                         const float* sinks, const int64_t* sizes, int32_t bfloat16, float scale, float softcap,
                         void* stream);

TASC_API const char* tasc_cuda_error_string(int code);
#ifdef __cplusplus
}
#endif
