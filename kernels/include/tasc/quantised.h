// Inputs in 8 bits, as products with 8-bit weights take them (tasc/dense.h).
#pragma once
#include <stdint.h>

namespace tasc {

constexpr int64_t kScaleBlock = 32;  // neighbouring inputs, of a row or of weights, that share a scale

// Rows of inputs. A number is near whole * scale.
struct QuantisedRows {
  int8_t* whole;   // (count, blocks * kScaleBlock), from -127 to 127; 0 beyond the last input
  float* scales;   // (count, blocks); NaN if an input of the block is not finite
  int32_t* bases;  // (count, blocks): minus 128 times the sums of the whole numbers
  int64_t count;
};

}  // namespace tasc
