// Elements of the matrices of tests: float, or the bits of a bfloat16.
#ifndef TASC_TESTS_ELEMENTS_H_
#define TASC_TESTS_ELEMENTS_H_

#include <cstdint>
#include <cstring>

#include "tasc/float16.h"

template <class T>
T element(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<T>(bits >> 16);
  }
}

inline float wide(float x) { return x; }
inline float wide(uint16_t x) { return tasc::to_float(tasc::BFloat16{x}); }

#endif
