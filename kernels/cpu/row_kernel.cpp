// What a layer computes between its products, compiled once per instruction set, TASC_ISA. Each row alone
// decides its bits.
#include "lanes.h"

namespace tasc::TASC_ISA {
namespace {

template <class T, bool kPlusOne>
void norm(const void* x, const void* weight, float eps, int64_t rows, int64_t k, void* out) {
  using X = typename T::X;
  const auto* scales = static_cast<const X*>(weight);
  for (int64_t row = 0; row < rows; ++row) {
    const auto* from = static_cast<const X*>(x) + row * k;
    auto* to = static_cast<X*>(out) + row * k;
    Lanes squares{};
    for (int64_t i = 0; i < k; i += kLanes) {
      const Lanes part = chunk<T>(from + i, k - i);
      squares = multiply_add(part, part, squares);
    }
    const float inverse = 1 / __builtin_sqrtf(sum_of(squares) / static_cast<float>(k) + eps);
    for (int64_t i = 0; i < k; i += kLanes) {
      const Lanes scale = chunk<T>(scales + i, k - i), normed = chunk<T>(from + i, k - i) * inverse;
      if constexpr (kPlusOne) {  // Gemma rounds once
        store<T>(to + i, normed * (scale + 1.f), k - i);
      } else {
        X rounded[kLanes];
        store<T>(rounded, normed, kLanes);
        store<T>(to + i, scale * T::widened(rounded), k - i);
      }
    }
  }
}

template <class T>
void rotate(void* x, const void* cos, const void* sin, int64_t heads, int64_t d) {
  using X = typename T::X;
  const auto *c = static_cast<const X*>(cos), *s = static_cast<const X*>(sin);
  const int64_t half = d / 2;
  for (int64_t head = 0; head < heads; ++head) {
    auto* low = static_cast<X*>(x) + head * d;
    auto* high = low + half;
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t left = half - i;
      const Lanes a = chunk<T>(low + i, left), b = chunk<T>(high + i, left);
      const Lanes c_low = chunk<T>(c + i, left), c_high = chunk<T>(c + half + i, left);
      const Lanes s_low = chunk<T>(s + i, left), s_high = chunk<T>(s + half + i, left);
      store<T>(low + i, multiply_add(-b, s_low, a * c_low), left);
      store<T>(high + i, multiply_add(a, s_high, b * c_high), left);
    }
  }
}

inline Lanes silu_slope(Lanes x) { return x; }

// GELU(x) = x (1 + tanh(u)) / 2 = x / (1 + e^-2u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
inline Lanes gelu_slope(Lanes x) { return x * (x * x * 0.0713548162726f + 1.59576912161f); }

// The gate times up: x / (1 + e^-slope(x)), with the exponential of what is not positive.
template <class T, Lanes (*slope)(Lanes)>
void gate(const void* gate, const void* up, int64_t size, void* out) {
  using X = typename T::X;
  const auto *g = static_cast<const X*>(gate), *u = static_cast<const X*>(up);
  for (int64_t i = 0; i < size; i += kLanes) {
    const Lanes x = chunk<T>(g + i, size - i), z = slope(x), power = exp_of(z < 0.f ? z : -z);
    X active[kLanes];
    store<T>(active, x * (z < 0.f ? power : all(1)) / (power + 1.f), kLanes);
    store<T>(static_cast<X*>(out) + i, T::widened(active) * chunk<T>(u + i, size - i), size - i);
  }
}

template <class T>
void add(const void* x, const void* y, int64_t size, void* out) {
  using X = typename T::X;
  for (int64_t i = 0; i < size; i += kLanes) {
    const Lanes sum = chunk<T>(static_cast<const X*>(x) + i, size - i) + chunk<T>(static_cast<const X*>(y) + i, size - i);
    store<T>(static_cast<X*>(out) + i, sum, size - i);
  }
}

}  // namespace

extern const RowKernels rows_float32, rows_bfloat16;
constinit const RowKernels rows_float32{norm<Float32, false>, norm<Float32, true>, rotate<Float32>,
                                         gate<Float32, silu_slope>, gate<Float32, gelu_slope>, add<Float32>};
constinit const RowKernels rows_bfloat16{norm<BFloat16, false>, norm<BFloat16, true>, rotate<BFloat16>,
                                         gate<BFloat16, silu_slope>, gate<BFloat16, gelu_slope>, add<BFloat16>};

}  // namespace tasc::TASC_ISA
