#include "launch.h"
#include "tasc/compact.h"
#include "tasc/cuda_api.h"

namespace {

constexpr int kThreads = 128;

struct BlockLanes {
  __device__ int64_t index() const { return threadIdx.x; }
  __device__ int64_t count() const { return blockDim.x; }
};

template <class Word>
__global__ void move(Word* data, int64_t positions, int64_t words, int rows, int heads,
                     const tasc::Move* moves, int count) {
  const int64_t block = blockIdx.x;
  tasc::compact(BlockLanes{}, data + block * positions * words, words, block / heads % rows, moves,
                count);
}

}  // namespace

extern "C" int tasc_compact(void* data, int64_t blocks, int32_t rows, int32_t heads,
                            int64_t positions, int64_t position_size, const int32_t* moves,
                            int32_t count, void* stream) {
  if (blocks < 0 || blocks > INT32_MAX || rows <= 0 || heads <= 0 || positions < 0 ||
      position_size <= 0 || count < 0)
    return cudaErrorInvalidValue;
  if (blocks == 0 || count == 0) return cudaSuccess;
  const auto grid = static_cast<unsigned>(blocks);
  const auto* m = reinterpret_cast<const tasc::Move*>(moves);
  const uint64_t sizes = reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(position_size);
  if (sizes % sizeof(int4) == 0)
    TASC_LAUNCH(move, grid, kThreads, stream, static_cast<int4*>(data), positions,
                position_size / 16, rows, heads, m, count);
  else
    TASC_LAUNCH(move, grid, kThreads, stream, static_cast<char*>(data), positions, position_size,
                rows, heads, m, count);
  return cudaGetLastError();
}
