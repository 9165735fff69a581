// How a kernel is started: kernels/emulation starts it on the CPU instead.
#pragma once
#include <cuda_runtime.h>
#ifndef TASC_LAUNCH
#define TASC_LAUNCH(kernel, grid, threads, stream, ...) \
  kernel<<<grid, threads, 0, static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__)
#endif
