// The window is one block's work, so a push needs no second launch; the gather is the device's.
#include "launch.h"
#include "tasc/cuda_api.h"
#include "tasc/window_vocab.h"

namespace {

constexpr int kPushThreads = 512;
// A block copies a row: of 8 KiB each thread has four loads in flight at once, and few rows still
// spread over many multiprocessors.
constexpr int kRowThreads = 128;

struct BlockLanes {
  __device__ int index() const { return static_cast<int>(threadIdx.x); }
  __device__ int count() const { return static_cast<int>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }
};

__global__ void __launch_bounds__(kPushThreads)
    push(tasc::WindowVocab window, const int32_t* tokens, int32_t count, bool unique) {
  __shared__ tasc::Ranks shared;
  tasc::push(BlockLanes{}, window, tokens, count, unique, shared);
}

template <class Word>
__global__ void __launch_bounds__(kRowThreads)
    gather(const Word* __restrict__ weight, int64_t words, const int32_t* ids, int32_t* held,
           int32_t size, Word* __restrict__ buffer) {
  tasc::gather(BlockLanes{}, static_cast<int32_t>(blockIdx.x), static_cast<int32_t>(gridDim.x),
               weight, words, ids, held, size, buffer);
}

}  // namespace

extern "C" int tasc_window_push(const int32_t* tokens, int32_t count, int32_t unique,
                                int32_t vocabulary, int32_t size, int32_t* ring, int32_t* counts,
                                int32_t* slots, int32_t* marks, int32_t* ids, int32_t* free,
                                int32_t* state, void* stream) {
  if (count < 0 || vocabulary <= 0 || size <= 0) return cudaErrorInvalidValue;
  const tasc::WindowVocab window{vocabulary, size, ring, counts, slots, marks, ids, free, state};
  TASC_LAUNCH(push, 1, kPushThreads, stream, window, tokens, count, unique != 0);
  return cudaGetLastError();
}

extern "C" int tasc_window_gather(const void* weight, int64_t row_bytes, const int32_t* ids,
                                  int32_t* held, int32_t size, void* buffer, void* stream) {
  if (row_bytes <= 0 || size <= 0) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>(size);
  const uint64_t positions = reinterpret_cast<uintptr_t>(weight) | reinterpret_cast<uintptr_t>(buffer) |
                          static_cast<uint64_t>(row_bytes);
  if (positions % sizeof(int4) == 0)
    TASC_LAUNCH(gather, blocks, kRowThreads, stream, static_cast<const int4*>(weight),
                row_bytes / 16, ids, held, size, static_cast<int4*>(buffer));
  else
    TASC_LAUNCH(gather, blocks, kRowThreads, stream, static_cast<const char*>(weight), row_bytes, ids,
                held, size, static_cast<char*>(buffer));
  return cudaGetLastError();
}
