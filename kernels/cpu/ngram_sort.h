// What building an n-gram index spends its time on: sorting positions, and waiting for memory.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tasc {

// Reserves memory in large pages where the system has them: addresses here are anything but local.
template <class T>
void reserve_large(std::vector<T>& v, size_t n) {
  v.reserve(n);
#ifdef MADV_HUGEPAGE
  const auto page = reinterpret_cast<uintptr_t>(v.data()) / 4096 * 4096 + 4096;
  if (n * sizeof(T) > size_t{1} << 22) madvise(reinterpret_cast<void*>(page), n * sizeof(T) - 4096, MADV_HUGEPAGE);
#endif
}

// Sorts keys (token << 32 | position) by token; positions of one token rise already.
inline void sort_by_token(std::vector<uint64_t>& keys, std::vector<uint64_t>& spare) {
  if (keys.size() <= 16) {
    for (size_t i = 1; i < keys.size(); ++i) {
      const uint64_t key = keys[i];
      size_t j = i;
      for (; j > 0 && keys[j - 1] > key; --j) keys[j] = keys[j - 1];
      keys[j] = key;
    }
    return;
  }
  if (keys.size() <= 64) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  spare.resize(keys.size());
  const bool few = keys.size() < 1024;  // ids have 20 bits: 3 digits of 7 or 2 of 10
  const int bits = few ? 7 : 10;
  const uint64_t digit = (1u << bits) - 1;
  for (int shift = 32; shift < 52; shift += bits) {
    uint32_t at[1025] = {};
    for (const uint64_t k : keys) ++at[((k >> shift) & digit) + 1];
    for (uint64_t b = 0; b <= digit; ++b) at[b + 1] += at[b];
    for (const uint64_t k : keys) spare[at[(k >> shift) & digit]++] = k;
    keys.swap(spare);
  }
}

}  // namespace tasc
