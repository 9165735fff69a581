// A register of numbers at a time, for the kernels that are compiled once per instruction set, TASC_ISA.
#pragma once
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header
#endif
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#include "dense.h"

namespace tasc::TASC_ISA {
namespace {

// Wider vectors than the machine's are kept in memory by compilers, which is up to forty times slower.
#if defined(__AVX512F__)
constexpr int64_t kLanes = 16, kRegisters = 32;
#elif defined(__AVX2__)
constexpr int64_t kLanes = 8, kRegisters = 16;
#elif defined(__aarch64__)
constexpr int64_t kLanes = 4, kRegisters = 32;
#else
constexpr int64_t kLanes = 4, kRegisters = 16;
#endif
constexpr int64_t kSplit = kPanel / kLanes;  // registers of a panel
constexpr int64_t kWidth = 4 * kLanes;       // bytes of a register

typedef float Lanes __attribute__((vector_size(kWidth)));
typedef uint32_t Bits __attribute__((vector_size(kWidth)));
typedef uint16_t Halves __attribute__((vector_size(kWidth / 2)));
typedef int32_t Ints __attribute__((vector_size(kWidth)));
typedef int8_t Bytes __attribute__((vector_size(kLanes)));

template <class V>
inline V load(const void* from) {
  V lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline float widen(uint32_t upper) { return load<float>(&upper); }

inline Lanes all(float x) {  // `Lanes{} + x` would be an addition, for the sake of -0
#if defined(__AVX512F__)
  return (Lanes)_mm512_set1_ps(x);
#elif defined(__AVX2__)
  return (Lanes)_mm256_set1_ps(x);
#elif defined(__aarch64__)
  return (Lanes)vdupq_n_f32(x);
#else
  return Lanes{x, x, x, x};
#endif
}

// Returns a copy of sums that were added in registers. Compilers write arrays that a loop indexes with each addition.
template <class V, int R, int C>
struct Copied {
  V rows[R][C];
  explicit Copied(const V (&sums)[R][C]) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < C; ++c) rows[r][c] = sums[r][c];
    }
  }
};

inline Lanes multiply_add(Lanes x, Lanes w, Lanes sum) {
#ifdef __AVX512F__
  return (Lanes)_mm512_fmadd_ps((__m512)x, (__m512)w, (__m512)sum);
#elif defined(__aarch64__)
  return (Lanes)vfmaq_f32((float32x4_t)sum, (float32x4_t)x, (float32x4_t)w);
#else
  return sum + x * w;  // fused where the machine can, as -ffp-contract=fast allows
#endif
}

inline Lanes multiply_add(float x, Lanes w, Lanes sum) { return multiply_add(all(x), w, sum); }

inline float sum_of(Lanes x) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps((__m512)x);
#elif defined(TASC_NEON)
  const float32x4_t all = (float32x4_t)x;
  return vpadds_f32(vadd_f32(vget_low_f32(all), vget_high_f32(all)));
#else
  for (int half = kLanes / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) x[i] += x[i + half];
  return x[0];
#endif
}

// e^x for x <= 0, within two units in the last place; 0 below -87.
inline Lanes exp_of(Lanes x) {
  const Lanes shifted = multiply_add(1.44269504f, x, all(12582912.f)), whole = shifted - 12582912.f;
  const Lanes part = multiply_add(-2.12194440e-4f, -whole, multiply_add(-0.693359375f, whole, x));
  constexpr float kTerms[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 0.5f, 1.f, 1.f};
  Lanes power = all(1.9875691500e-4f);
  for (const float term : kTerms) power = multiply_add(part, power, all(term));
  const Bits scaled = (Bits)power + ((Bits)shifted << 23);
  return x < -87.f ? Lanes{} : (Lanes)scaled;
}

struct Float32 {
  using X = float;
  static Lanes widened(const X* x) { return load<Lanes>(x); }
  static constexpr int64_t kStep = 1;  // elements of a row that are added at once
  // Of register `split` of a panel.
  static Lanes weights(const char* line, int64_t split) { return load<Lanes>(line + split * kWidth); }
  static float pair(const X* x) { return *x; }
  static float last(const X* x) { return *x; }
  static Lanes add(Lanes sum, float x, Lanes w) { return multiply_add(x, w, sum); }
  static Lanes rounded(Lanes sum) { return sum; }
};

struct BFloat16 {
  using X = uint16_t;
  static Lanes widened(const X* x) {
#ifdef TASC_NEON
    return (Lanes)vshll_n_u16(load<uint16x4_t>(x), 16);
#else
    return (Lanes)(__builtin_convertvector(load<Halves>(x), Bits) << 16);
#endif
  }
  static constexpr int64_t kStep = 2;
  static Bits weights(const char* line, int64_t split) { return load<Bits>(line + split * kWidth); }
  static uint32_t pair(const X* x) { return load<uint32_t>(x); }
  static uint32_t last(const X* x) { return *x; }  // and a zero
  static Lanes add(Lanes sum, uint32_t x, Bits w) {
#ifdef __AVX512BF16__
    const __m512i both = _mm512_set1_epi32(static_cast<int>(x));
    return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)both, (__m512bh)w);
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    // Each product is added exactly and rounded once, as below. BFDOT and BFMMLA round in other ways.
    const auto both = (bfloat16x8_t)vdupq_n_u32(x), weights = (bfloat16x8_t)w;
    return (Lanes)vbfmlaltq_f32(vbfmlalbq_f32((float32x4_t)sum, both, weights), both, weights);
#else
    const Bits even = w << 16, odd = w & 0xffff0000u;
    return multiply_add(widen(x & 0xffff0000u), (Lanes)odd, multiply_add(widen(x << 16), (Lanes)even, sum));
#endif
  }
  static Halves rounded(Lanes sum) {  // to the nearest, ties to even
    const Bits bits = (Bits)sum, up = bits + 0x7fffu + (bits >> 16 & 1u);
    const auto number = sum == sum;
    const Bits upper = number ? up : bits | 0x400000u;
#ifdef TASC_NEON
    return (Halves)vshrn_n_u32((uint32x4_t)upper, 16);
#else
    return __builtin_convertvector(upper >> 16, Halves);
#endif
  }
};

// Up to a register of elements, the others 0.
template <class T>
inline Lanes chunk(const typename T::X* from, int64_t count) {
  if (count >= kLanes) return T::widened(from);
  typename T::X padded[kLanes] = {};
  memcpy(padded, from, static_cast<size_t>(count) * sizeof *from);
  return T::widened(padded);
}

// Rounds and writes up to a register of elements.
template <class T>
inline void store(typename T::X* to, Lanes lanes, int64_t count) {
  const auto rounded = T::rounded(lanes);
  memcpy(to, &rounded, static_cast<size_t>(count < kLanes ? count : kLanes) * sizeof *to);
}

}  // namespace
}  // namespace tasc::TASC_ISA
