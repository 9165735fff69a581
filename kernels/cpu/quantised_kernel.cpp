// Products of 8-bit weights with rows rounded to 8 bits (tasc/dense.h), compiled once per instruction set, TASC_ISA.
// Whole numbers are added exactly, and each rounding of a float is written out, so all sets have the same bits.
#include "lanes.h"

namespace tasc::TASC_ISA {
namespace {

constexpr int64_t kAhead = 16;  // steps to prefetch
constexpr int64_t kSteps = kScaleBlock / kQuad;  // of a block
// Registers that hold sums, beside those of weights.
#if defined(__AVX512F__)
constexpr int64_t kSums = 24;
#elif defined(TASC_NEON)
constexpr int64_t kSums = 20;
#else
constexpr int64_t kSums = 10;
#endif
constexpr int kMostRows = kSums / kSplit < 6 ? kSums / kSplit : 6;
constexpr int fitting(int rows) { return rows < kMostRows ? rows : kMostRows; }  // more are not compiled

// x * y + sum, rounded once.
inline Lanes fused(Lanes x, Lanes y, Lanes sum) {
#if defined(__AVX512F__) || defined(__aarch64__)
  return multiply_add(x, y, sum);
#elif defined(__FMA__)
  return (Lanes)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
#else
  for (int i = 0; i < kLanes; ++i) sum[i] = __builtin_fmaf(x[i], y[i], sum[i]);
  return sum;
#endif
}

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// VPDPBUSD multiplies bytes without a sign by signed ones: weights get an offset of 128, and sums begin at a base.
inline Bits weights_at(const char* line) { return load<Bits>(line) ^ 0x80808080u; }
inline Ints base_of(int32_t base) { return Ints{} + base; }
#else
inline Bits weights_at(const char* line) { return load<Bits>(line); }
inline Ints base_of(int32_t /*base*/) { return Ints{}; }
#endif

// Adds the products of four bytes of each lane, of `weights_at`, with the four of `x`. None is -128.
inline Ints dot(Ints sum, int32_t x, Bits w) {
#if defined(__AVX512VNNI__)
  return (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(x));
#elif defined(__AVXVNNI__)
  return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, _mm256_set1_epi32(x));
#elif defined(__AVX512BW__)
  const __m512i four = _mm512_set1_epi32(x), weights = (__m512i)w;
  const __m512i same = _mm512_mask_sub_epi8(four, _mm512_movepi8_mask(weights), __m512i{}, four);
  const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(weights), same);
  return sum + (Ints)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(__AVX2__)
  const __m256i same = _mm256_sign_epi8(_mm256_set1_epi32(x), (__m256i)w);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)w), same);
  return sum + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(TASC_NEON) && defined(__ARM_FEATURE_DOTPROD)
  return (Ints)vdotq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)vdupq_n_s32(x));
#elif defined(TASC_NEON)
  const auto four = (int8x16_t)vdupq_n_s32(x), weights = (int8x16_t)w;
  const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(four)), high = vmull_high_s8(weights, four);
  return sum + (Ints)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
#else
  for (int byte = 0; byte < kQuad; ++byte) {
    const int up = 24 - 8 * byte;
    sum += ((Ints)(w << up) >> 24) * static_cast<int8_t>(x >> 8 * byte & 255);
  }
  return sum;
#endif
}

// Sums R rows in P panels from the one at `first` on, of W that lie side by side, as `block` in dense_kernel.cpp does.
template <class T, int R, int P, int W>
void block(const QuantisedCall& call, const char* line, const uint16_t* scales, int first, int64_t first_row,
           int64_t column, const char* ahead, int64_t lines) {
  constexpr int kParts = P * kSplit;
  line += first * kLine, scales += first * kPanel, column += first * kPanel;
  const QuantisedRows& rows = call.rows;
  const int64_t at = first_row * call.blocks;
  Lanes sums[R][kParts] = {};
  for (int64_t b = 0; b < call.blocks; ++b, scales += W * kPanel) {
    Ints whole[R][kParts];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int i = 0; i < kParts; ++i) whole[r][i] = base_of(rows.bases[at + r * call.blocks + b]);
    }
    const int8_t* x = rows.whole + (at + b) * kScaleBlock;
#pragma GCC unroll 1
    for (int64_t step = 0; step < kSteps; ++step, line += W * kLine, x += kQuad) {
      if (first == 0) {
#pragma GCC unroll 8
        for (int p = 0; p < W; ++p) __builtin_prefetch(line + (kAhead * W + p) * kLine);
      }
      for (int64_t l = 0; l < lines; ++l, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
      Bits w[kParts];
#pragma GCC unroll 16
      for (int i = 0; i < kParts; ++i) w[i] = weights_at(line + i * kWidth);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const auto four = load<int32_t>(x + r * call.blocks * kScaleBlock);
#pragma GCC unroll 16
        for (int i = 0; i < kParts; ++i) whole[r][i] = dot(whole[r][i], four, w[i]);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) {
      const Lanes scale = BFloat16::widened(scales + i * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Lanes both = scale * rows.scales[at + r * call.blocks + b];
        sums[r][i] = fused(__builtin_convertvector(whole[r][i], Lanes), both, sums[r][i]);
      }
    }
  }
  const Copied done(sums);
  for (int i = 0; i < kParts && column < call.n; ++i, column += kLanes) {
    const Lanes bias = call.bias ? load<Lanes>(call.bias + column) : Lanes{};
    for (int r = 0; r < R; ++r) {
      auto* out = static_cast<typename T::X*>(call.out) + (first_row + r) * call.n + column;
      store<T>(out, done.rows[r][i] + bias, call.n - column);
    }
  }
}

// R rows in W panels, as many at a time as the registers hold.
template <class T, int R, int W>
void rows_of(const QuantisedCall& call, const char* line, const uint16_t* scales, int64_t first_row, int64_t column,
             const char* ahead, int64_t lines) {
  constexpr int64_t kFit = kSums / (R * kSplit);
  constexpr int kPanels = kFit >= W ? W : kFit >= 2 ? 2 : 1;
  int first = 0;
  for (; first + kPanels <= W; first += kPanels)
    block<T, R, kPanels, W>(call, line, scales, first, first_row, column, ahead, first ? 0 : lines);
  if constexpr (W % kPanels) block<T, R, W % kPanels, W>(call, line, scales, first, first_row, column, ahead, 0);
}

// Only the first block waits for memory, so the blocks share the next group's lines between them.
template <class T, int W>
void group(const QuantisedCall& call, const char* panels, const uint16_t* scales, int64_t column) {
  using Rows = void (*)(const QuantisedCall&, const char*, const uint16_t*, int64_t, int64_t, const char*, int64_t);
  static constexpr Rows kRows[] = {rows_of<T, fitting(1), W>, rows_of<T, fitting(2), W>, rows_of<T, fitting(3), W>,
                                   rows_of<T, fitting(4), W>, rows_of<T, fitting(5), W>, rows_of<T, fitting(6), W>};
  const int64_t blocks = (call.rows.count + kMostRows - 1) / kMostRows, steps = call.blocks * kSteps;
  const int64_t lines = blocks > 1 ? (W + blocks - 1) / blocks : 0;
  const char* next = panels + steps * W * kLine;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = call.rows.count * b / blocks, end = call.rows.count * (b + 1) / blocks;
    kRows[end - begin - 1](call, panels, scales, begin, column, next + b * steps * lines * kLine, lines);
  }
}

template <class T>
void multiply(const QuantisedCall& call, int64_t begin, int64_t end) {
  static constexpr void (*kGroups[kGroup])(const QuantisedCall&, const char*, const uint16_t*, int64_t) = {
      group<T, 1>, group<T, 2>, group<T, 3>, group<T, 4>};
  const int64_t panels = (call.n + kPanel - 1) / kPanel;
  for (int64_t g = begin; g < end; ++g) {
    const int64_t left = panels - g * kGroup, width = left < kGroup ? left : kGroup, first = g * kGroup;
    kGroups[width - 1](call, call.panels + first * call.blocks * kSteps * kLine,
                       call.scales + first * call.blocks * kPanel, first * kPanel);
  }
}

// Rounds one block. Returns its scale: the largest magnitude divided by 127, 0 for tiny numbers, else NaN.
inline float round_block(const Lanes* x, int8_t* whole, int32_t* base) {
  constexpr int kParts = kScaleBlock / kLanes;
  constexpr uint32_t kInfinity = 0x7f800000u, kTiny = 0x0d800000u;  // 2^-100
  Bits most{};
  for (int i = 0; i < kParts; ++i) {
    const Bits size = (Bits)x[i] & 0x7fffffffu;
    most = size > most ? size : most;
  }
  uint32_t largest = 0;
  for (int lane = 0; lane < kLanes; ++lane) largest = most[lane] > largest ? most[lane] : largest;
  *base = 0;
  if (largest < kTiny || largest >= kInfinity) {
    memset(whole, 0, kScaleBlock);
    return largest < kTiny ? 0.f : __builtin_nanf("");
  }
  const float size = load<float>(&largest), inverse = 127.f / size;
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it rounds to the nearest, ties to even
  Ints sum{};
  for (int i = 0; i < kParts; ++i) {
    const Ints rounded = (Ints)(x[i] * inverse + kRound) - (Ints)all(kRound);
    sum += rounded;
    const Bytes bytes = __builtin_convertvector(rounded, Bytes);
    memcpy(whole + i * kLanes, &bytes, sizeof bytes);
  }
  for (int lane = 0; lane < kLanes; ++lane) *base -= 128 * sum[lane];
  return size / 127.f;
}

template <class T>
void round_rows(const void* x, int64_t k, const QuantisedRows& rows) {
  const int64_t blocks = (k + kScaleBlock - 1) / kScaleBlock;
  for (int64_t row = 0; row < rows.count; ++row) {
    const auto* from = static_cast<const typename T::X*>(x) + row * k;
    for (int64_t b = 0; b < blocks; ++b) {
      Lanes lanes[kScaleBlock / kLanes] = {};
      for (int64_t i = 0, at = b * kScaleBlock; i < kScaleBlock / kLanes && at < k; ++i, at += kLanes)
        lanes[i] = chunk<T>(from + at, k - at);
      const int64_t at = row * blocks + b;
      rows.scales[at] = round_block(lanes, rows.whole + at * kScaleBlock, rows.bases + at);
    }
  }
}

}  // namespace

extern const QuantisedKernels quantised_float32, quantised_bfloat16;
constinit const QuantisedKernels quantised_float32{round_rows<Float32>, multiply<Float32>};
constinit const QuantisedKernels quantised_bfloat16{round_rows<BFloat16>, multiply<BFloat16>};

}  // namespace tasc::TASC_ISA
