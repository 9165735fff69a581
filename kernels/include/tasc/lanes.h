// Tools of cooperating lanes: atomics, ranks, a shared copy. Lanes are the threads of a CUDA block or one
// thread on the CPU: index(), count(), and sync(), which all of them must reach.
#pragma once
#include <string.h>

#include "tasc/tree.h"

namespace tasc {

constexpr int kMaxLanes = 1024;

struct OneLane {  // the CPU
  TASC_HD int index() const { return 0; }
  TASC_HD int count() const { return 1; }
  TASC_HD void sync() const {}
};

TASC_HD inline void atomic_add(int32_t* at, int32_t by) {
#ifdef __CUDA_ARCH__
  atomicAdd(at, by);
#else
  __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
#endif
}

TASC_HD inline void atomic_store(int32_t* at, int32_t value) {
#ifdef __CUDA_ARCH__
  *at = value;
#else
  __atomic_store_n(at, value, __ATOMIC_RELAXED);
#endif
}

TASC_HD inline void atomic_min(int32_t* at, int32_t value) {
#ifdef __CUDA_ARCH__
  atomicMin(at, value);
#else
  int32_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(at, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
#endif
}

TASC_HD inline void atomic_max(int32_t* at, int32_t value) {
#ifdef __CUDA_ARCH__
  atomicMax(at, value);
#else
  int32_t seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value > seen && !__atomic_compare_exchange_n(at, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
  }
#endif
}

struct Ranks {  // shared by the lanes
  int32_t sums[2][kMaxLanes];
};

// Returns the sum of `mine` over earlier lanes; writes the sum over all lanes to `all`.
template <class Lanes>
TASC_HD int32_t rank_of(const Lanes& lanes, int32_t mine, Ranks& shared, int32_t* all) {
  const int me = static_cast<int>(lanes.index()), n = static_cast<int>(lanes.count());
  int now = 0;
  lanes.sync();  // other lanes may still read the sums of the last call
  shared.sums[now][me] = mine;
  lanes.sync();
  for (int step = 1; step < n; step *= 2, now = 1 - now) {
    const int32_t before = me >= step ? shared.sums[now][me - step] : 0;
    shared.sums[1 - now][me] = shared.sums[now][me] + before;
    lanes.sync();
  }
  *all = shared.sums[now][n - 1];
  return shared.sums[now][me] - mine;
}

// Copies words; each lane takes every count()-th, four at a time, so that loads overlap.
template <class Word, class Lanes>
TASC_HD void copy_words(const Lanes& lanes, const Word* from, Word* to, int64_t words) {
  const int64_t stride = lanes.count();
  int64_t w = lanes.index();
  for (; w + 3 * stride < words; w += 4 * stride) {
    const Word a = from[w], b = from[w + stride], c = from[w + 2 * stride], d = from[w + 3 * stride];
    to[w] = a, to[w + stride] = b, to[w + 2 * stride] = c, to[w + 3 * stride] = d;
  }
  for (; w < words; w += stride) to[w] = from[w];
}

template <class Word>
TASC_HD void copy_words(const OneLane&, const Word* from, Word* to, int64_t words) {
  memcpy(to, from, static_cast<size_t>(words) * sizeof(Word));
}

}  // namespace tasc
