#include <cuda_runtime.h>

#include "tasc/compact.h"
#include "tasc/cuda_api.h"

namespace {

constexpr int kThreads = 128;

struct BlockLanes {
  __device__ int64_t index() const { return threadIdx.x; }
  __device__ int64_t count() const { return blockDim.x; }
};

template <class Word>
__global__ void move(Word* data, int64_t block_stride, int64_t stride, int64_t words, int64_t start,
                     const int32_t* path, int count) {
  tasc::compact(BlockLanes{}, data + static_cast<int64_t>(blockIdx.x) * block_stride, stride, words,
                start, path, count);
}

}  // namespace

extern "C" int tasc_compact(void* data, int64_t blocks, int64_t block_stride,
                            int64_t position_stride, int64_t position_size, int64_t start,
                            const int32_t* path, int32_t count, void* stream) {
  if (blocks < 0 || blocks > INT32_MAX || block_stride < 0 || position_stride < position_size ||
      position_size <= 0 || start < 0 || count < 0)
    return cudaErrorInvalidValue;
  if (blocks == 0 || count == 0) return cudaSuccess;
  const auto s = static_cast<cudaStream_t>(stream);
  const auto grid = static_cast<unsigned>(blocks);
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uint64_t sizes = address | static_cast<uint64_t>(block_stride) |
                         static_cast<uint64_t>(position_stride) |
                         static_cast<uint64_t>(position_size);
  if (sizes % sizeof(int4) == 0)
    move<<<grid, kThreads, 0, s>>>(static_cast<int4*>(data), block_stride / 16,
                                   position_stride / 16, position_size / 16, start, path, count);
  else
    move<<<grid, kThreads, 0, s>>>(static_cast<char*>(data), block_stride, position_stride,
                                   position_size, start, path, count);
  return cudaGetLastError();
}
