#include "tasc/top_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tasc/argmax.h"
#include "tasc/dense.h"

namespace tasc {
namespace {

// Everything is inlined into the functions below that are compiled for several instruction sets.
#define TASC_INLINE [[gnu::always_inline]] inline

// Named lanes: GCC would unroll a loop over them before vectorising, and then fail to vectorise.
#ifdef __aarch64__
constexpr int kLanes = 4;  // of wider vectors, GCC converts each number alone
#else
constexpr int kLanes = 16;
#endif
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Ints __attribute__((vector_size(kLanes * sizeof(int32_t))));

TASC_INLINE Floats all(float x) { return Floats{} + x; }

// e^x for x <= 0, within 0.4 %: 2^n by the exponent of a float, 2^f by a parabola. NaN gives 0.
TASC_INLINE Floats quick_exp(Floats x) {
  const Floats y = (x > all(-80.f) ? x : all(-80.f)) * 1.44269504f + 127.f;
  const Ints whole = __builtin_convertvector(y, Ints);
  const Floats part = y - __builtin_convertvector(whole, Floats);
  const Ints bits = whole << 23;
  Floats power;
  std::memcpy(&power, &bits, sizeof power);
  return power * (1.f + part * (0.65617f + 0.34383f * part));
}

// A part of a row as floats, padded with -infinity.
class Block {
 public:
  template <class T>
  TASC_INLINE Block(const T* row, int64_t size) : lanes_((size + kLanes - 1) / kLanes) {
    lines_[lanes_ - 1] = all(-INFINITY);
    for (int64_t i = 0; i < size; ++i) values()[i] = to_float(row[i]);
  }
  TASC_INLINE float operator[](int64_t i) const { return reinterpret_cast<const float*>(lines_)[i]; }

  TASC_INLINE float largest() const {
    Floats most = all(-INFINITY);
    for (int64_t i = 0; i < lanes_; ++i) most = lines_[i] > most ? lines_[i] : most;
    float best = -INFINITY;
    for (int j = 0; j < kLanes; ++j) best = std::max(best, most[j]);
    return best;
  }
  // Sum of e^(scale * (x - most)).
  TASC_INLINE float exp_sum(float most, float scale) const {
    Floats sums{};
    for (int64_t i = 0; i < lanes_; ++i) sums += quick_exp(scale * (lines_[i] - most));
    float sum = 0;
    for (int j = 0; j < kLanes; ++j) sum += sums[j];
    return sum;
  }

 private:
  TASC_INLINE float* values() { return reinterpret_cast<float*>(lines_); }

  int64_t lanes_;
  Floats lines_[kBlock / kLanes];
};

template <class T>
TASC_INLINE void top_softmax_of(const T* row, int64_t size, int k, float scale, int32_t* ids,
                                float* probabilities) {
  float values[kMaxTop], most = -INFINITY, sum = 0;
  for (int i = 0; i < k; ++i) values[i] = -INFINITY, ids[i] = -1;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t count = std::min(kBlock, size - begin);
    const Block block(row + begin, count);
    const float highest = block.largest();
    if (highest > most) {
      sum *= most > -INFINITY ? std::exp(scale * (most - highest)) : 0;
      most = highest;
    }
    if (most > -INFINITY) sum += block.exp_sum(most, scale);
    if (!(highest > values[k - 1])) continue;
    for (int64_t i = 0; i < count; ++i) {
      if (!(block[i] > values[k - 1])) continue;
      int at = k - 1;
      for (; at > 0 && block[i] > values[at - 1]; --at) values[at] = values[at - 1], ids[at] = ids[at - 1];
      values[at] = block[i], ids[at] = static_cast<int32_t>(begin + i);
    }
  }
  for (int i = 0; i < k; ++i) probabilities[i] = ids[i] < 0 ? 0 : std::exp(scale * (values[i] - most)) / sum;
}

#ifdef __x86_64__
template <class T>
[[gnu::target("avx512f,avx512bw")]] void wide(const T* row, int64_t size, int k, float scale, int32_t* ids,
                                              float* probabilities) {
  top_softmax_of(row, size, k, scale, ids, probabilities);
}
#endif

}  // namespace

template <class T>
void top_softmax(const T* row, int64_t size, int k, float scale, int32_t* ids, float* probabilities) {
#ifdef __x86_64__
  static const bool has_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  if (has_wide && dense_instructions().starts_with("avx512")) return wide(row, size, k, scale, ids, probabilities);
#endif
  top_softmax_of(row, size, k, scale, ids, probabilities);
}

template void top_softmax(const float*, int64_t, int, float, int32_t*, float*);
template void top_softmax(const Float16*, int64_t, int, float, int32_t*, float*);
template void top_softmax(const BFloat16*, int64_t, int, float, int32_t*, float*);

}  // namespace tasc
