// As much of CUDA as the kernels use, on the CPU, so that tests run them where there is no device.
//
// A launch runs its blocks one after the other in an order drawn anew, and the threads of a block as
// fibers: in an order drawn anew too, each till its next barrier and sometimes not so far. Work that
// needs a barrier it does not have, or that depends on who comes first, differs from run to run. A
// barrier that not all threads reach ends the process. Memory is the host's, so alignment, wrong
// streams, and what the caches of a device do are not seen.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#define __global__ static
#define __device__
#define __host__
#define __shared__ static  // blocks run one after the other
#define __launch_bounds__(...)
#define threadIdx emulation::thread
#define blockIdx emulation::block
#define blockDim emulation::threads_of_block
#define gridDim emulation::grid
#define TASC_LAUNCH(kernel, grid, threads, stream, ...) \
  (static_cast<void>(stream), emulation::launch(grid, threads, [=] { kernel(__VA_ARGS__); }))

using cudaError_t = int;
using cudaStream_t = void*;
constexpr cudaError_t cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9;

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) int4 {
  int x, y, z, w;
};

namespace emulation {

constexpr unsigned kWarp = 32, kMostThreads = 1024, kMostHigh = 65535;
constexpr size_t kStack = 1 << 16;

inline dim3 thread, block, threads_of_block, grid;
inline std::mt19937 chance{12345};
inline cudaError_t last_error = cudaSuccess;
inline uint64_t exchanged[kMostThreads];  // what lanes of warps show each other

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  State state;
  unsigned index;
};
inline std::vector<std::unique_ptr<Fiber>> fibers;
inline Fiber* running;
inline ucontext_t scheduler;
inline std::function<void()> body;

inline void leave(State state) {
  running->state = state;
  swapcontext(&running->context, &scheduler);
  thread = dim3(running->index);
}

inline void begin() {
  body();
  leave(State::kDone);
}

// Frees the threads [first, last) if all that still run wait at `barrier`; says whether it did.
inline bool open(State barrier, unsigned first, unsigned last) {
  bool any = false;
  for (unsigned i = first; i < last; ++i) {
    if (fibers[i]->state == barrier) any = true;
    // A block's barrier counts threads that returned as missing, a warp's does not.
    else if (fibers[i]->state != State::kDone || barrier == State::kAtBlockBarrier) return false;
  }
  for (unsigned i = first; i < last; ++i)
    if (fibers[i]->state == barrier) fibers[i]->state = State::kReady;
  return any;
}

inline void run_block(unsigned count) {
  while (fibers.size() < count) fibers.push_back(std::make_unique<Fiber>());
  std::vector<Fiber*> order;
  for (unsigned i = 0; i < count; ++i) {
    Fiber* fiber = fibers[i].get();
    fiber->state = State::kReady, fiber->index = i;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStack;
    makecontext(&fiber->context, begin, 0);
    order.push_back(fiber);
  }
  for (unsigned left = count; left > 0;) {
    bool moved = false;
    std::shuffle(order.begin(), order.end(), chance);
    for (Fiber* fiber : order) {
      if (fiber->state != State::kReady) continue;
      moved = true, running = fiber, thread = dim3(fiber->index);
      swapcontext(&scheduler, &fiber->context);
      left -= fiber->state == State::kDone;
    }
    for (unsigned first = 0; first < count; first += kWarp)
      moved |= open(State::kAtWarpBarrier, first, std::min(first + kWarp, count));
    moved |= open(State::kAtBlockBarrier, 0, count);
    if (!moved) {
      fputs("emulated kernel: not all threads reach a barrier\n", stderr);
      abort();
    }
  }
}

inline void launch(dim3 blocks, unsigned count, std::function<void()> kernel) {
  if (count == 0 || count > kMostThreads || blocks.x == 0 || blocks.x > INT32_MAX ||
      blocks.y == 0 || blocks.y > kMostHigh) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  grid = blocks, threads_of_block = dim3(count), body = std::move(kernel);
  std::vector<dim3> order;
  for (unsigned y = 0; y < blocks.y; ++y)
    for (unsigned x = 0; x < blocks.x; ++x) order.emplace_back(x, y);
  std::shuffle(order.begin(), order.end(), chance);
  for (const dim3& next : order) {
    block = next;
    run_block(count);
  }
}

// A thread may be overtaken before each of its atomic operations.
template <class T, class Change>
T atomically(T* position, const Change& change) {
  if (chance() % 8 == 0) leave(State::kReady);
  const T old = *position;
  *position = change(old);
  return old;
}

template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T value_of(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulation

inline void __syncthreads() { emulation::leave(emulation::State::kAtBlockBarrier); }
inline void __syncwarp() { emulation::leave(emulation::State::kAtWarpBarrier); }

template <class T>
T __shfl_down_sync(unsigned, T value, unsigned step) {
  const unsigned at = threadIdx.x;
  emulation::exchanged[at] = emulation::bits_of(value);
  __syncwarp();
  const bool inside = at % emulation::kWarp + step < emulation::kWarp;
  const T found = inside ? emulation::value_of<T>(emulation::exchanged[at + step]) : value;
  __syncwarp();
  return found;
}

template <class T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  const unsigned at = threadIdx.x;
  emulation::exchanged[at] = emulation::bits_of(value);
  __syncwarp();
  const T found = emulation::value_of<T>(emulation::exchanged[at - at % emulation::kWarp + lane]);
  __syncwarp();
  return found;
}

template <class T>
T atomicAdd(T* position, T value) {
  return emulation::atomically(position, [=](T old) { return old + value; });
}
template <class T>
T atomicMax(T* position, T value) {
  return emulation::atomically(position, [=](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* position, T value) {
  return emulation::atomically(position, [=](T old) { return std::min(old, value); });
}

inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline cudaError_t cudaMemsetAsync(void* position, int value, size_t bytes, cudaStream_t) {
  memset(position, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return std::exchange(emulation::last_error, cudaSuccess); }
inline const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaSuccess ? "no error" : "invalid argument or configuration";
}
