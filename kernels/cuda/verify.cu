// Verification kernels. Greedy reads every row once, spread over the device, then walks; sampling
// walks with one block and reads only the rows on the accepted path.
#include "launch.h"
#include "tasc/cuda_api.h"
#include "tasc/rejection.h"
#include "tasc/verify.h"

namespace {

using tasc::to_float;

constexpr int kThreads = 256;
constexpr int kEach = 16;  // logits a thread reads: loads in flight hide the latency

struct BlockLanes {
  __device__ int index() const { return static_cast<int>(threadIdx.x); }
  __device__ int count() const { return static_cast<int>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }
};

// Orders (value, smaller id first) as integers do, so that one atomicMax combines blocks. 0 is less
// than every number's key and stands for "not a number" and "nothing seen".
__device__ uint64_t key_of(float value, int64_t id) {
  if (!(value >= -INFINITY)) return 0;
  const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 and 0 are equal
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}

__device__ uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

template <class T>
struct alignas(16) Pack {  // one 16-byte load
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

// The best key among the kEach logits of a row that fall to this thread. Rows that allow it are read
// in packs; either way each warp reads neighbouring addresses.
template <class T>
__device__ uint64_t best_of_mine(const T* __restrict__ row, int64_t vocabulary) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kEach;
  uint64_t mine = 0;
  if (reinterpret_cast<uintptr_t>(row) % sizeof(Pack<T>) != 0) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int64_t id = first + k * kThreads + threadIdx.x;
      if (id < vocabulary) mine = larger(mine, key_of(to_float(row[id]), id));
    }
    return mine;
  }
#pragma unroll
  for (int k = 0; k < kEach / kSize; ++k) {
    const int64_t id = first + (k * kThreads + static_cast<int64_t>(threadIdx.x)) * kSize;
    if (id + kSize <= vocabulary) {
      const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(row + id);
#pragma unroll
      for (int j = 0; j < kSize; ++j)
        mine = larger(mine, key_of(to_float(pack.values[j]), id + j));
    } else {
      for (int64_t i = id; i < vocabulary; ++i) mine = larger(mine, key_of(to_float(row[i]), i));
    }
  }
  return mine;
}

template <class T>
__global__ void best_of_rows(const T* __restrict__ logits, int64_t vocabulary,
                             unsigned long long* __restrict__ best) {
  __shared__ uint64_t warps[kThreads / 32];
  const T* row = logits + static_cast<int64_t>(blockIdx.y) * vocabulary;
  uint64_t mine = best_of_mine(row, vocabulary);
  for (int step = 16; step > 0; step /= 2)
    mine = larger(mine, __shfl_down_sync(0xffffffffu, mine, step));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (uint64_t other : warps) mine = larger(mine, other);
  atomicMax(best + blockIdx.y, static_cast<unsigned long long>(mine));
}

__global__ void walk_greedy(tasc::Tree tree, const uint64_t* best, int32_t* result) {
  const tasc::OneLane lanes;
  if (tasc::refuse_bad_tree(lanes, tree, result)) return;
  const uint64_t lowest = static_cast<uint64_t>(0x007fffffu) << 32 | 0xffffffffu;  // of -infinity
  int at = -1, accepted = 0;
  while (true) {
    const uint64_t key = best[at + 1];
    if (key <= lowest) return tasc::finish(lanes, tasc::kBadRow, at + 1, tree.n, result);
    const auto token = static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(key));
    const int next = tree.child(at, token);
    if (next < 0) return tasc::finish(lanes, accepted, token, tree.n, result);
    result[2 + accepted++] = next;
    at = next;
  }
}

template <class T>
__global__ void __launch_bounds__(tasc::kSlices)
    walk_sampled(const T* logits, int64_t vocabulary, tasc::Tree tree,
                             float inverse_temperature, const double* uniforms, int32_t* result) {
  __shared__ tasc::Workspace shared;
  tasc::verify_sampled(BlockLanes{}, logits, vocabulary, tree, inverse_temperature, uniforms,
                       shared, result);
}

template <class T>
__global__ void __launch_bounds__(tasc::kSlices)
    walk_rejection(const T* logits, int64_t vocabulary, tasc::Tree tree,
                               tasc::Proposals proposals, float inverse_temperature,
                               const double* uniforms, float* scratch, int32_t* result) {
  __shared__ tasc::Workspace shared;
  tasc::verify_rejection(BlockLanes{}, logits, vocabulary, tree, proposals, inverse_temperature,
                         uniforms, scratch, shared, result);
}

bool valid(int64_t vocabulary, int32_t n) {
  return n >= 0 && n <= tasc::kMaxNodes && vocabulary > 0 && vocabulary <= INT32_MAX;
}

// Calls run(pointer) with the logits as what they are.
template <class Run>
int with_dtype(const void* logits, int32_t dtype, const Run& run) {
  if (dtype == 0)
    run(static_cast<const float*>(logits));
  else if (dtype == 1)
    run(static_cast<const tasc::Float16*>(logits));
  else if (dtype == 2)
    run(static_cast<const tasc::BFloat16*>(logits));
  else
    return cudaErrorInvalidValue;
  return cudaGetLastError();
}

}  // namespace

extern "C" int tasc_verify_greedy(const void* logits, int32_t dtype, int64_t vocabulary,
                                  const int32_t* tokens, const int32_t* parents, int32_t n,
                                  uint64_t* best, int32_t* result, void* stream) {
  if (!valid(vocabulary, n) || dtype < 0 || dtype > 2) return cudaErrorInvalidValue;
  const auto s = static_cast<cudaStream_t>(stream);
  const auto rows = static_cast<unsigned>(n) + 1;
  const cudaError_t cleared = cudaMemsetAsync(best, 0, rows * sizeof(uint64_t), s);
  if (cleared != cudaSuccess) return cleared;
  const dim3 grid(static_cast<unsigned>((vocabulary - 1) / (kThreads * kEach) + 1), rows);
  const int code = with_dtype(logits, dtype, [&](auto* pointer) {
    TASC_LAUNCH(best_of_rows, grid, kThreads, s, pointer, vocabulary,
                reinterpret_cast<unsigned long long*>(best));
  });
  if (code != cudaSuccess) return code;
  TASC_LAUNCH(walk_greedy, 1, 1, s, tasc::Tree{tokens, parents, n}, best, result);
  return cudaGetLastError();
}

extern "C" int tasc_verify_sampled(const void* logits, int32_t dtype, int64_t vocabulary,
                                   const int32_t* tokens, const int32_t* parents, int32_t n,
                                   float temperature, const double* uniforms, int32_t* result,
                                   void* stream) {
  if (!valid(vocabulary, n) || !tasc::divides(temperature)) return cudaErrorInvalidValue;
  return with_dtype(logits, dtype, [&](auto* pointer) {
    TASC_LAUNCH(walk_sampled, 1, tasc::kSlices, stream, pointer, vocabulary,
                tasc::Tree{tokens, parents, n}, 1 / temperature, uniforms, result);
  });
}

extern "C" int tasc_verify_rejection(const void* logits, int32_t dtype, int64_t vocabulary,
                                     const int32_t* tokens, const int32_t* parents, int32_t n,
                                     const float* distributions, int32_t distribution_count, const int32_t* distribution_of,
                                     int32_t replacement, float temperature,
                                     const double* uniforms, float* scratch, int32_t* result,
                                     void* stream) {
  if (!valid(vocabulary, n) || !tasc::divides(temperature) || distribution_count < 0) return cudaErrorInvalidValue;
  const tasc::Proposals proposals{distributions, distribution_count, distribution_of, replacement != 0};
  return with_dtype(logits, dtype, [&](auto* pointer) {
    TASC_LAUNCH(walk_rejection, 1, tasc::kSlices, stream, pointer, vocabulary,
                tasc::Tree{tokens, parents, n}, proposals, 1 / temperature, uniforms, scratch,
                result);
  });
}
