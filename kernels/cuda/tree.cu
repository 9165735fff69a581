#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "tasc/cuda_api.h"
#include "tasc/tree.h"

namespace {

constexpr int kThreads = 512;

__global__ void ancestors(const int32_t* parents, int n, int words, uint64_t* bits,
                          int32_t* depths) {
  tasc::ancestor_bits(parents, n, words, bits, depths);
}

__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

struct Best {
  float value;
  int32_t id;
};

__device__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

// One block a row: each thread keeps its own best, then the block reduces.
template <class T>
__global__ void argmax_rows(const T* __restrict__ logits, int64_t vocabulary,
                            int32_t* __restrict__ best) {
  __shared__ Best shared[kThreads];
  const T* row = logits + static_cast<int64_t>(blockIdx.x) * vocabulary;
  Best mine{-INFINITY, INT32_MAX};
  for (int64_t j = threadIdx.x; j < vocabulary; j += kThreads)
    mine = better(mine, {to_float(row[j]), static_cast<int32_t>(j)});
  shared[threadIdx.x] = mine;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      shared[threadIdx.x] = better(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) best[blockIdx.x] = shared[0].id;
}

__global__ void walk(const int32_t* tokens, const int32_t* parents, const int32_t* best, int n,
                     int32_t* result) {
  const int accepted = tasc::greedy_walk(tokens, parents, best, n, result + 2);
  result[0] = accepted;
  result[1] = accepted ? best[result[1 + accepted] + 1] : best[0];
}

}  // namespace

extern "C" int tasc_ancestor_bits(const int32_t* parents, int32_t n, uint64_t* bits,
                                  int32_t* depths, void* stream) {
  if (n <= 0) return cudaSuccess;
  ancestors<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(parents, n, tasc::words_for(n), bits,
                                                            depths);
  return cudaGetLastError();
}

extern "C" int tasc_verify_greedy(const void* logits, int32_t dtype, int64_t vocabulary,
                                  const int32_t* tokens, const int32_t* parents, int32_t n,
                                  int32_t* best, int32_t* result, void* stream) {
  if (n < 0 || vocabulary <= 0 || vocabulary > INT32_MAX || dtype < 0 || dtype > 2)
    return cudaErrorInvalidValue;
  const auto s = static_cast<cudaStream_t>(stream);
  const unsigned rows = static_cast<unsigned>(n) + 1;
  if (dtype == 0)
    argmax_rows<<<rows, kThreads, 0, s>>>(static_cast<const float*>(logits), vocabulary, best);
  else if (dtype == 1)
    argmax_rows<<<rows, kThreads, 0, s>>>(static_cast<const __half*>(logits), vocabulary, best);
  else
    argmax_rows<<<rows, kThreads, 0, s>>>(static_cast<const __nv_bfloat16*>(logits), vocabulary,
                                          best);
  walk<<<1, 1, 0, s>>>(tokens, parents, best, n, result);
  return cudaGetLastError();
}

extern "C" const char* tasc_cuda_error_string(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}
