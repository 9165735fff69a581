// Products and attention whose sums have an order of their own: a row has the same bits alone, in a tree and in a
// batch. cuBLAS and torch's attention choose an order for each number of rows.
#include <math.h>
#include <string.h>

#include "launch.h"
#include "tasc/attention_call.h"
#include "tasc/cuda_api.h"
#include "tasc/float16.h"

namespace {

constexpr int kWarp = 32, kWarps = 4;  // of a block, one for each output
constexpr int kRows = 8;               // that a warp multiplies with one reading of a weight

__device__ void store(float* to, float value) { *to = value; }
__device__ void store(tasc::BFloat16* to, float value) { *to = tasc::to_bfloat16(value); }

// The sum over a warp's lanes, in each of them.
__device__ float sum_of_warp(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  return __shfl_sync(0xffffffffu, value, 0);
}

// Lane l adds the products l, l + 32, ... of a row in ascending order; then the lanes are added.
template <class T, int R>
__global__ void __launch_bounds__(kWarp* kWarps)
    linear(const T* __restrict__ x, const T* __restrict__ weight, const T* bias, int64_t rows, int64_t n, int64_t k,
           T* __restrict__ out) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * R;
  if (column >= n) return;
  float sums[R] = {};
  for (int64_t i = threadIdx.x % kWarp; i < k; i += kWarp) {
    const float w = tasc::to_float(weight[column * k + i]);
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (first + r < rows) sums[r] = fmaf(tasc::to_float(x[(first + r) * k + i]), w, sums[r]);
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float sum = sum_of_warp(sums[r]) + (bias ? tasc::to_float(bias[column]) : 0.0f);
    if (threadIdx.x % kWarp == 0 && first + r < rows) store(out + (first + r) * n + column, sum);
  }
}

// One head of one query. It takes the keys that it attends to in ascending order, with the softmax of those before
// (Milakov and Gimelshein, arXiv:1805.02867), so that hidden keys change no bit.
template <class T>
__global__ void __launch_bounds__(kWarp) attend(tasc::AttentionCall call) {
  constexpr int kParts = tasc::kMaxHeadDim / kWarp;
  const int64_t query = blockIdx.x, sequence = blockIdx.y / call.heads, head = blockIdx.y % call.heads;
  const int64_t key_head = head / (call.heads / call.key_heads), lane = threadIdx.x;
  const auto at = [&](const void* data, const int64_t* strides, int64_t own) {
    return static_cast<const T*>(data) + sequence * strides[0] + own * strides[1];
  };
  const T* asked = at(call.query, call.query_strides, head) + query * call.query_strides[2];
  const T* keys = at(call.key, call.key_strides, key_head);
  const T* values = at(call.value, call.value_strides, key_head);
  const uint8_t* seen = call.mask ? call.mask + sequence * call.mask_strides[0] + query * call.mask_strides[1] : nullptr;
  float wide[kParts] = {}, sums[kParts] = {};
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (lane + i * kWarp < call.d) wide[i] = tasc::to_float(asked[lane + i * kWarp]);
  float most = call.sinks ? call.sinks[head] : -INFINITY, total = call.sinks ? 1.0f : 0.0f;
  const int64_t end = call.mask ? call.keys : call.keys - call.queries + query + 1;
  for (int64_t key = 0; key < end; ++key) {
    if (seen && !seen[key]) continue;
    float score = 0;
#pragma unroll
    for (int i = 0; i < kParts; ++i)
      if (lane + i * kWarp < call.d)
        score = fmaf(wide[i], tasc::to_float(keys[key * call.key_strides[2] + lane + i * kWarp]), score);
    score = sum_of_warp(score) * call.scale;
    if (call.softcap > 0) score = tanhf(score / call.softcap) * call.softcap;
    const float next = score > most ? score : most;
    const float kept = expf(most - next), weight = expf(score - next);
    total = fmaf(total, kept, weight), most = next;
#pragma unroll
    for (int i = 0; i < kParts; ++i)
      if (lane + i * kWarp < call.d)
        sums[i] = fmaf(weight, tasc::to_float(values[key * call.value_strides[2] + lane + i * kWarp]), sums[i] * kept);
  }
  if (total == 0) total = 1;  // padding that sees nothing
  T* out = static_cast<T*>(call.out) + ((sequence * call.queries + query) * call.heads + head) * call.d;
#pragma unroll
  for (int i = 0; i < kParts; ++i)
    if (lane + i * kWarp < call.d) store(out + lane + i * kWarp, sums[i] / total);
}

// Starts a kernel for one dtype.
template <class T>
void start_linear(const void* x, const void* weight, const void* bias, int64_t rows, int64_t n, int64_t k, void* out,
                  void* stream) {
  const auto *a = static_cast<const T*>(x), *w = static_cast<const T*>(weight), *b = static_cast<const T*>(bias);
  const dim3 blocks(static_cast<unsigned>((n - 1) / kWarps + 1), static_cast<unsigned>((rows - 1) / kRows + 1));
  const auto kernel = rows == 1 ? linear<T, 1> : linear<T, kRows>;
  TASC_LAUNCH(kernel, blocks, kWarp * kWarps, stream, a, w, b, rows, n, k, static_cast<T*>(out));
}

template <class T>
void start_attend(const tasc::AttentionCall& call, void* stream) {
  const dim3 blocks(static_cast<unsigned>(call.queries), static_cast<unsigned>(call.sequences * call.heads));
  TASC_LAUNCH(attend<T>, blocks, kWarp, stream, call);
}

constexpr int64_t kMostBlocks = 65535;  // in the second dimension of a launch

}  // namespace

extern "C" int tasc_linear(const void* x, const void* weight, const void* bias, int32_t bfloat16, int64_t rows,
                           int64_t n, int64_t k, void* out, void* stream) {
  if (rows < 0 || rows > kMostBlocks * kRows || n < 1 || n > INT32_MAX || k < 1) return cudaErrorInvalidValue;
  if (rows == 0) return cudaSuccess;
  (bfloat16 ? start_linear<tasc::BFloat16> : start_linear<float>)(x, weight, bias, rows, n, k, out, stream);
  return cudaGetLastError();
}

extern "C" int tasc_attend(const void* query, const void* key, const void* value, void* out, const uint8_t* mask,
                           const float* sinks, const int64_t* sizes, int32_t bfloat16, float scale, float softcap,
                           void* stream) {
  tasc::AttentionCall call{query, key, value, out, mask, sinks};
  call.sequences = sizes[0], call.heads = sizes[1], call.key_heads = sizes[2];
  call.queries = sizes[3], call.keys = sizes[4], call.d = sizes[5];
  memcpy(call.query_strides, sizes + 6, 3 * sizeof(int64_t));
  memcpy(call.key_strides, sizes + 9, 3 * sizeof(int64_t));
  memcpy(call.value_strides, sizes + 12, 3 * sizeof(int64_t));
  memcpy(call.mask_strides, sizes + 15, 2 * sizeof(int64_t));
  call.scale = scale, call.softcap = softcap;
  if (call.d < 1 || call.d > tasc::kMaxHeadDim || call.key_heads < 1 || call.heads % call.key_heads ||
      call.queries < 1 || call.queries > call.keys || call.sequences < 1 ||
      call.sequences * call.heads > kMostBlocks)
    return cudaErrorInvalidValue;
  (bfloat16 ? start_attend<tasc::BFloat16> : start_attend<float>)(call, stream);
  return cudaGetLastError();
}
