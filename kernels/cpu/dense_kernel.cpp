// The kernels of dense.h, compiled once per instruction set, TASC_ISA. They call no inline function of a
// library, as the linker keeps one copy of each, which might be that of the newest instruction set.
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header
#endif
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

inline Lanes all(float x) { return Lanes{} + x; }

inline Lanes multiply_add(Lanes x, Lanes w, Lanes sum) {
#ifdef __AVX512F__
  return (Lanes)_mm512_fmadd_ps((__m512)x, (__m512)w, (__m512)sum);
#else
  return sum + x * w;  // fused where the machine can, as -ffp-contract=fast allows
#endif
}

inline Lanes multiply_add(float x, Lanes w, Lanes sum) { return multiply_add(all(x), w, sum); }

inline float sum_of(Lanes x) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps((__m512)x);
#else
  for (int half = 8; half; half /= 2)
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
  static constexpr int64_t kStep = 1;  // elements
  static Lanes weights(const char* line) { return load<Lanes>(line); }
  static float pair(const X* x) { return *x; }
  static float last(const X* x) { return *x; }
  static Lanes add(Lanes sum, float x, Lanes w) { return multiply_add(x, w, sum); }
  static Lanes rounded(Lanes sum) { return sum; }
};

struct BFloat16 {
  using X = uint16_t;
  static Lanes widened(const X* x) { return (Lanes)(__builtin_convertvector(load<Halves>(x), Bits) << 16); }
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

// Up to 16 elements of a head, the others 0.
template <class T>
inline Lanes chunk(const typename T::X* from, int64_t count) {
  if (count >= kPanel) return T::widened(from);
  typename T::X padded[kPanel] = {};
  memcpy(padded, from, static_cast<size_t>(count) * sizeof *from);
  return T::widened(padded);
}

// Writes the slots that a query may attend to in ascending order; returns their number.
int64_t visible_slots(const AttentionCall& call, int64_t sequence, int64_t query, int32_t* slots) {
  const int64_t own = call.keys - call.queries + query;
  int64_t count = 0;
  if (!call.mask) {
    for (; count <= own; ++count) slots[count] = static_cast<int32_t>(count);
  } else {
    const uint8_t* seen = call.mask + sequence * call.mask_strides[0] + query * call.mask_strides[1];
    for (int64_t key = 0; key < call.keys; ++key) {
      slots[count] = static_cast<int32_t>(key);
      count += seen[key] != 0;
    }
  }
  return count;
}

// Scores `count` keys, by rank; ranks up to whole lanes get -infinity. Returns the largest score.
template <class T>
float score(const AttentionCall& call, const typename T::X* query, const typename T::X* keys,
            const int32_t* slots, int64_t count, float* scores) {
  Lanes wide[kMaxHeadDim / kPanel];
  const int64_t whole = call.d / kPanel, chunks = (call.d + kPanel - 1) / kPanel;
  for (int64_t c = 0; c < chunks; ++c) wide[c] = chunk<T>(query + c * kPanel, call.d - c * kPanel);
  float most = -__builtin_inff();
  for (int64_t rank = 0; rank < count; ++rank) {
    const auto* key = keys + slots[rank] * call.key_strides[2];
    Lanes sum{};
    for (int64_t c = 0; c < whole; ++c) sum = multiply_add(wide[c], T::widened(key + c * kPanel), sum);
    if (whole < chunks) sum = multiply_add(wide[whole], chunk<T>(key + whole * kPanel, call.d - whole * kPanel), sum);
    float found = sum_of(sum) * call.scale;
    if (call.softcap > 0) found = __builtin_tanhf(found / call.softcap) * call.softcap;
    scores[rank] = found;
    most = found > most ? found : most;
  }
  for (int64_t rank = count; rank % kPanel; ++rank) scores[rank] = -__builtin_inff();
  return most;
}

// Replaces scores by e^(score - most); returns their sum, added by rank.
float exponentiate(float* scores, int64_t count, float most) {
  Lanes sums{};
  for (int64_t rank = 0; rank < count; rank += kPanel) {
    const Lanes power = exp_of(load<Lanes>(scores + rank) - most);
    memcpy(scores + rank, &power, sizeof power);
    sums += power;
  }
  return sum_of(sums);
}

// Adds C chunks of the values, by rank.
template <class T, int C>
void add_values(const AttentionCall& call, const typename T::X* values, const int32_t* slots,
                const float* weights, int64_t count, float total, typename T::X* out, int64_t left) {
  Lanes sums[C] = {};
  for (int64_t rank = 0; rank < count; ++rank) {
    const auto* value = values + slots[rank] * call.value_strides[2];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      sums[c] = multiply_add(weights[rank], chunk<T>(value + c * kPanel, left - c * kPanel), sums[c]);
  }
  for (int c = 0; c < C; ++c) {
    const auto lanes = T::rounded(sums[c] / total);
    const int64_t size = left - c * kPanel < kPanel ? left - c * kPanel : kPanel;
    memcpy(out + c * kPanel, &lanes, static_cast<size_t>(size) * sizeof *out);
  }
}

template <class T>
void attend(const AttentionCall& call, int64_t begin, int64_t end, float* scratch) {
  using X = typename T::X;
  const int64_t group = call.heads / call.key_heads;
  auto* slots = reinterpret_cast<int32_t*>(scratch);
  float* scores = scratch + call.keys + kPanel;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t query = item % call.queries, sequence = item / call.queries / call.key_heads;
    const int64_t key_head = item / call.queries % call.key_heads;
    const int64_t count = visible_slots(call, sequence, query, slots);
    const auto at = [&](const void* data, const int64_t* strides, int64_t head) {
      return static_cast<const X*>(data) + sequence * strides[0] + head * strides[1];
    };
    const X *keys = at(call.key, call.key_strides, key_head), *values = at(call.value, call.value_strides, key_head);
    for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
      const X* asking = at(call.query, call.query_strides, head) + query * call.query_strides[2];
      X* out = static_cast<X*>(call.out) + ((sequence * call.queries + query) * call.heads + head) * call.d;
      float most = score<T>(call, asking, keys, slots, count, scores);
      if (call.sinks && call.sinks[head] > most) most = call.sinks[head];
      float total = exponentiate(scores, count, most);
      if (call.sinks) total += exp_of(all(call.sinks[head] - most))[0];
      if (count == 0) total = 1;  // padding that sees nothing
      int64_t column = 0;
      for (; column + 4 * kPanel <= call.d; column += 4 * kPanel)
        add_values<T, 4>(call, values + column, slots, scores, count, total, out + column, call.d - column);
      for (; column < call.d; column += kPanel)
        add_values<T, 1>(call, values + column, slots, scores, count, total, out + column, call.d - column);
    }
  }
}

}  // namespace

void attend_float32(const AttentionCall& call, int64_t begin, int64_t end, float* scratch) {
  attend<Float32>(call, begin, end, scratch);
}
void attend_bfloat16(const AttentionCall& call, int64_t begin, int64_t end, float* scratch) {
  attend<BFloat16>(call, begin, end, scratch);
}
void dense_float32(const DenseCall& call, int64_t begin, int64_t end) { dense<Float32>(call, begin, end); }
void dense_bfloat16(const DenseCall& call, int64_t begin, int64_t end) { dense<BFloat16>(call, begin, end); }

}  // namespace tasc::TASC_ISA
