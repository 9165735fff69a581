// C ABI of libtasc_cuda: raw device pointers, sizes and a stream. Each call returns a CUDA error
// code (0 is success), starts its work on the stream and does not wait for it.
#pragma once
#include <stdint.h>
#define TASC_API __attribute__((visibility("default")))  // the library hides everything else
#ifdef __cplusplus
extern "C" {
#endif

// bits (n, ceil(n / 64)) and depths (n,) of a tree of n nodes, see tasc/tree.h.
TASC_API int tasc_ancestor_bits(const int32_t* parents, int32_t n, uint64_t* bits, int32_t* depths,
                                void* stream);

// Greedy verification of a tree of n nodes. logits (n + 1, vocabulary) row-major, of dtype 0 =
// float32, 1 = float16, 2 = bfloat16; best (n + 1,) receives the arg-max of each row (the smaller
// id on ties); result (n + 2,) receives the number of accepted nodes, the bonus token, and the path.
TASC_API int tasc_verify_greedy(const void* logits, int32_t dtype, int64_t vocabulary,
                                const int32_t* tokens, const int32_t* parents, int32_t n,
                                int32_t* best, int32_t* result, void* stream);

TASC_API const char* tasc_cuda_error_string(int code);
#ifdef __cplusplus
}
#endif
