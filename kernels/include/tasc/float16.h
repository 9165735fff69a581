// 16-bit floats as they lie in memory. On the host they are converted in software, so the shared code
// reads the rows of any model on both sides.
#pragma once
#include <stdint.h>
#include <string.h>

#include "tasc/tree.h"
#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace tasc {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

TASC_HD inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

TASC_HD inline float to_float(float x) { return x; }

TASC_HD inline float to_float(BFloat16 x) { return float_of_bits(static_cast<uint32_t>(x.bits) << 16); }

TASC_HD inline float to_float(Float16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t exponent = (x.bits >> 10) & 31, mantissa = x.bits & 1023;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return sign ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return float_of_bits(sign | wide << 23 | mantissa << 13);
#endif
}

// Rounds to nearest, ties to even.
TASC_HD inline BFloat16 to_bfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 64)};  // stays no number
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

}  // namespace tasc
