// The kernels of dense.h, compiled once per instruction set, TASC_ISA. They call no inline function of a
// library, as the linker keeps one copy of each, which might be that of the newest instruction set.
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "dense.h"

namespace tasc::TASC_ISA {
namespace {

typedef float Lanes __attribute__((vector_size(64)));
typedef uint32_t Bits __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));
constexpr int64_t kAhead = 16;  // steps over k to prefetch
constexpr int kMostRows = 6;    // with four panels: 24 of 32 registers hold sums

template <class V>
inline V load(const void* from) {
  V lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline float widen(uint32_t upper) { return load<float>(&upper); }

inline Lanes multiply_add(float x, Lanes w, Lanes sum) {
#ifdef __AVX512F__
  return (Lanes)_mm512_fmadd_ps(_mm512_set1_ps(x), (__m512)w, (__m512)sum);
#else
  return sum + x * w;  // fused where the machine can, as -ffp-contract=fast allows
#endif
}

struct Float32 {
  using X = float;
  static constexpr int64_t kStep = 1;  // elements
  static Lanes weights(const char* line) { return load<Lanes>(line); }
  static float pair(const X* x) { return *x; }
  static float last(const X* x) { return *x; }
  static Lanes add(Lanes sum, float x, Lanes w) { return multiply_add(x, w, sum); }
  static Lanes rounded(Lanes sum) { return sum; }
};

struct BFloat16 {
  using X = uint16_t;
  static constexpr int64_t kStep = 2;
  static Bits weights(const char* line) { return load<Bits>(line); }
  static uint32_t pair(const X* x) { return load<uint32_t>(x); }
  static uint32_t last(const X* x) { return *x; }  // and a zero
  static Lanes add(Lanes sum, uint32_t x, Bits w) {
#ifdef __AVX512BF16__
    const __m512i both = _mm512_set1_epi32(static_cast<int>(x));
    return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)both, (__m512bh)w);
#else
    const Bits even = w << 16, odd = w & 0xffff0000u;
    return multiply_add(widen(x & 0xffff0000u), (Lanes)odd, multiply_add(widen(x << 16), (Lanes)even, sum));
#endif
  }
  static Halves rounded(Lanes sum) {  // to the nearest, ties to even
    const Bits bits = (Bits)sum, up = bits + 0x7fffu + (bits >> 16 & 1u);
    const auto number = sum == sum;
    return __builtin_convertvector((number ? up : bits | 0x400000u) >> 16, Halves);
  }
};

// Sums R rows in P panels. An output's sum does not depend on R and P.
template <class T, int R, int P>
void block(const DenseCall& call, const char* line, int64_t first_row, int64_t column) {
  Lanes sums[R][P] = {};
  const auto* x = static_cast<const typename T::X*>(call.x) + first_row * call.k;
  const auto step = [&](auto value_of) {
    decltype(T::weights(line)) w[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) w[p] = T::weights(line + p * kLine);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto value = value_of(x + r * call.k);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) sums[r][p] = T::add(sums[r][p], value, w[p]);
    }
    line += P * kLine;
  };
  int64_t i = 0;
  for (; i + T::kStep <= call.k; i += T::kStep) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) __builtin_prefetch(line + (P * kAhead + p) * kLine);
    step([&](const typename T::X* row) { return T::pair(row + i); });
  }
  if (i < call.k) step([&](const typename T::X* row) { return T::last(row + i); });
  for (int p = 0; p < P; ++p, column += kPanel) {
    const int64_t left = call.n - column, count = left < kPanel ? left : kPanel;
    for (int r = 0; r < R; ++r) {
      Lanes sum = sums[r][p];
      if (call.bias) sum += load<Lanes>(call.bias + column);
      const auto lanes = T::rounded(sum);
      auto* out = static_cast<typename T::X*>(call.out) + (first_row + r) * call.n + column;
      memcpy(out, &lanes, static_cast<size_t>(count) * sizeof *out);
    }
  }
}

template <class T, int P>
void group(const DenseCall& call, const char* lines, int64_t column) {
  static constexpr void (*kBlocks[kMostRows])(const DenseCall&, const char*, int64_t, int64_t) = {
      block<T, 1, P>, block<T, 2, P>, block<T, 3, P>, block<T, 4, P>, block<T, 5, P>, block<T, 6, P>};
  const int64_t blocks = (call.rows + kMostRows - 1) / kMostRows;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = call.rows * b / blocks, end = call.rows * (b + 1) / blocks;
    kBlocks[end - begin - 1](call, lines, begin, column);
  }
}

template <class T>
void dense(const DenseCall& call, int64_t begin, int64_t end) {
  static constexpr void (*kGroups[kGroup])(const DenseCall&, const char*, int64_t) = {
      group<T, 1>, group<T, 2>, group<T, 3>, group<T, 4>};
  const int64_t steps = (call.k + T::kStep - 1) / T::kStep, panels = (call.n + kPanel - 1) / kPanel;
  for (int64_t g = begin; g < end; ++g) {
    const int64_t left = panels - g * kGroup, width = left < kGroup ? left : kGroup;
    kGroups[width - 1](call, call.panels + g * kGroup * steps * kLine, g * kGroup * kPanel);
  }
}

}  // namespace

void dense_float32(const DenseCall& call, int64_t begin, int64_t end) { dense<Float32>(call, begin, end); }
void dense_bfloat16(const DenseCall& call, int64_t begin, int64_t end) { dense<BFloat16>(call, begin, end); }

}  // namespace tasc::TASC_ISA
