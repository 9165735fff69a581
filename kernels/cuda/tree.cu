#include "launch.h"
#include "tasc/cuda_api.h"
#include "tasc/tree.h"

namespace {

__global__ void ancestors(const int32_t* parents, int n, int words, uint64_t* bits,
                          int32_t* depths) {
  tasc::ancestor_bits(parents, n, words, bits, depths);
}

}  // namespace

extern "C" int tasc_ancestor_bits(const int32_t* parents, int32_t n, uint64_t* bits,
                                  int32_t* depths, void* stream) {
  if (n < 0 || n > tasc::kMaxNodes) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  TASC_LAUNCH(ancestors, 1, 1, stream, parents, n, tasc::words_for(n), bits, depths);
  return cudaGetLastError();
}

extern "C" const char* tasc_cuda_error_string(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}
