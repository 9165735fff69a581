// The kernels of certified_head.cpp, compiled once per instruction set, TASC_ISA.
#include "lanes.h"

namespace tasc::TASC_ISA {
namespace {

constexpr int64_t kAhead = 16;  // steps to prefetch
// Registers that hold sums, beside those of rows.
#if defined(__AVX512F__)
constexpr int64_t kSums = 24;
#elif defined(TASC_NEON)
constexpr int64_t kSums = 20;
#else
constexpr int64_t kSums = 8;
#endif
constexpr int kMostStates = kRegisters == 32 ? 6 : 4;
constexpr int fitting(int states) { return states < kMostStates ? states : kMostStates; }  // more are not compiled

// Of the P panels that lie side by side.
constexpr int panels_at_once(int states, int panels) {
  const int64_t fit = kSums / (states * kSplit);
  return fit >= panels ? panels : fit >= 2 ? 2 : 1;
}

#if defined(TASC_NEON) && defined(__ARM_FEATURE_DOTPROD)
// SDOT takes signed bytes. Without their offset of 128, rows need no base.
inline Bits base_of(uint32_t /*base*/) { return Bits{}; }
inline Bits rows_at(const char* line) { return load<Bits>(line) ^ 0x80808080u; }
#else
inline Bits base_of(uint32_t base) { return Bits{} + base; }
inline Bits rows_at(const char* line) { return load<Bits>(line); }
#endif

#if defined(__AVX2__) && (!defined(__AVX512F__) || defined(__AVX512BW__)) && !defined(__AVX512VNNI__)
#define TASC_PAIRS
// The sums of two neighbouring products of 16 bits.
inline Bits pairs(Bits a, Bits b) {
#ifdef __AVX512BW__
  return (Bits)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#else
  return (Bits)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#endif
}
#endif

// Adds the products of four bytes of each lane, of `rows_at`, with the four signed ones of `x`.
inline Bits dot(Bits sum, uint32_t x, Bits w) {
#ifdef __AVX512VNNI__
  return (Bits)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(static_cast<int>(x)));
#elif defined(TASC_NEON) && defined(__ARM_FEATURE_DOTPROD)
  return (Bits)vdotq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)vdupq_n_u32(x));
#elif defined(TASC_PAIRS)
  typedef int16_t Shorts __attribute__((vector_size(kWidth)));
  const auto four = (Shorts)(Bits{} + x);
  const Bits even = w & 0x00ff00ffu, odd = w >> 8 & 0x00ff00ffu;
  return sum + pairs(even, (Bits)(four << 8 >> 8)) + pairs(odd, (Bits)(four >> 8));
#else
  for (int byte = 0; byte < kQuad; ++byte) {
    const auto own = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(x >> 8 * byte & 255u)));
    sum += (w >> 8 * byte & 255u) * own;
  }
  return sum;
#endif
}

inline float largest_of(Lanes x) {
#ifdef __AVX512F__
  return _mm512_reduce_max_ps((__m512)x);
#else
  float most = x[0];
  for (int i = 1; i < kLanes; ++i) most = x[i] > most ? x[i] : most;
  return most;
#endif
}

inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

// The logits of one state in P panels, from its sums: 8-bit ones, and bounds of the exact ones.
template <int P>
void finish(const BoundCall& call, int64_t state, const char* lines, int64_t column, const Bits* low) {
  constexpr int kParts = P * kSplit;
  const WholeState& own = call.states[state];
  const int64_t panel = column / kPanel, panels = (call.n + kPanel - 1) / kPanel;
  Bits high[kParts];
  for (int i = 0; i < kParts; ++i) high[i] = base_of(own.base_high);
  for (int64_t i = 0; i < own.highs; ++i) {
    const int64_t step = own.high_steps[i];
    const auto x = load<uint32_t>(own.high + step * kQuad);
#pragma GCC unroll 4
    for (int j = 0; j < kParts; ++j) high[j] = dot(high[j], x, rows_at(lines + step * P * kLine + j * kWidth));
  }
  Lanes logits[kParts], most = all(-__builtin_inff()), sums{};
  float upper[P];
  for (int i = 0; i < kParts; ++i, column += kLanes) {
    const Lanes whole = __builtin_convertvector((Ints)(low[i] + (high[i] << 8)), Lanes);
    logits[i] = whole * (load<Lanes>(call.scales + column) * own.scale);
    Lanes bound = multiply_add(own.rows_error, load<Lanes>(call.errors + column), logits[i]);
    bound = multiply_add(own.rows_norm, load<Lanes>(call.norms + column), bound);
    for (int64_t lane = call.n > column ? call.n - column : 0; lane < kLanes; ++lane)  // beyond the last row
      bound[lane] = logits[i][lane] = -__builtin_inff();
    const float largest = largest_of(bound);
    float& panel_upper = upper[i / kSplit];
    panel_upper = i % kSplit && panel_upper > largest ? panel_upper : largest;
    most = larger(most, logits[i]);
  }
  memcpy(call.upper + state * panels + panel, upper, sizeof upper);
  if (!call.sums) return;
  const int64_t groups = (panels + kGroup - 1) / kGroup, at = state * groups + panel / kGroup;
  call.most[at] = largest_of(most);
  for (int i = 0; i < kParts; ++i) sums += exp_of(logits[i] - call.most[at]);
  call.sums[at] = sum_of(sums);
}

// Sums the products of R states with Q panels, from the one at `panel` on, of P that lie side by side. The first of
// them fetches all P, and `count` lines from `ahead` on per step.
template <int R, int Q, int P>
void products(const BoundCall& call, const char* line, int64_t first, int panel, const char* ahead, int64_t count,
              Bits (*out)[P * kSplit]) {
  constexpr int kParts = Q * kSplit;
  line += panel * kLine;
  Bits sums[R][kParts];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < kParts; ++i) sums[r][i] = base_of(call.states[first + r].base_low);
  const int8_t* x[R];
  for (int r = 0; r < R; ++r) x[r] = call.states[first + r].low;
  for (int64_t step = 0; step < call.steps; ++step, line += P * kLine) {
    Bits w[kParts];
    if (panel == 0) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) __builtin_prefetch(line + (P * kAhead + p) * kLine);
      for (int64_t l = 0; l < count; ++l, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) w[i] = rows_at(line + i * kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto own = load<uint32_t>(x[r] + step * kQuad);
#pragma GCC unroll 16
      for (int i = 0; i < kParts; ++i) sums[r][i] = dot(sums[r][i], own, w[i]);
    }
  }
  for (int r = 0; r < R; ++r) memcpy(out[r] + panel * kSplit, sums[r], sizeof sums[r]);
}

// Bounds the logits of R states in P panels, as many at a time as the registers hold.
template <int R, int P>
void block(const BoundCall& call, const char* lines, int64_t first, int64_t column, const char* ahead, int64_t count) {
  constexpr int kPanels = panels_at_once(R, P);
  Bits sums[R][P * kSplit];
  int panel = 0;
  for (; panel + kPanels <= P; panel += kPanels)
    products<R, kPanels, P>(call, lines, first, panel, ahead, count, sums);
  if constexpr (P % kPanels) products<R, P % kPanels, P>(call, lines, first, panel, ahead, count, sums);
  for (int r = 0; r < R; ++r) finish<P>(call, first + r, lines, column, sums[r]);
}

// Only the first block waits for memory, so the blocks share the next group's lines between them.
template <int P>
void group(const BoundCall& call, const char* lines, int64_t column) {
  static constexpr void (*kBlocks[])(const BoundCall&, const char*, int64_t, int64_t, const char*, int64_t) = {
      block<1, P>, block<2, P>, block<3, P>, block<4, P>, block<fitting(5), P>, block<fitting(6), P>};
  const int64_t blocks = (call.rows + kMostStates - 1) / kMostStates;
  const int64_t count = blocks > 1 ? (P + blocks - 1) / blocks : 0;
  const char* next = lines + call.steps * P * kLine;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = call.rows * b / blocks, end = call.rows * (b + 1) / blocks;
    kBlocks[end - begin - 1](call, lines, begin, column, next + b * call.steps * count * kLine, count);
  }
}

void bound(const BoundCall& call, int64_t begin, int64_t end) {
  static constexpr void (*kGroups[kGroup])(const BoundCall&, const char*, int64_t) = {group<1>, group<2>, group<3>,
                                                                                      group<4>};
  const int64_t panels = (call.n + kPanel - 1) / kPanel;
  for (int64_t g = begin; g < end; ++g) {
    const int64_t left = panels - g * kGroup, width = left < kGroup ? left : kGroup;
    kGroups[width - 1](call, call.panels + g * kGroup * call.steps * kLine, g * kGroup * kPanel);
  }
}

// Adds in the order of dense_kernel.cpp, with its steps.
template <class T, int C>
void side_by_side(const DenseCall& call, const int64_t* panels, float* out) {
  using X = typename T::X;
  const int64_t steps = (call.k + T::kStep - 1) / T::kStep, all_panels = (call.n + kPanel - 1) / kPanel;
  const auto* x = static_cast<const X*>(call.x);
  const char* lines[C];
  int64_t strides[C];
  Lanes sums[C][kSplit] = {};
  for (int c = 0; c < C; ++c) {
    const int64_t first = panels[c] / kGroup * kGroup, left = all_panels - first;
    strides[c] = (left < kGroup ? left : kGroup) * kLine;
    lines[c] = call.panels + first * steps * kLine + (panels[c] - first) * kLine;
  }
  const auto step = [&](auto value) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      __builtin_prefetch(lines[c] + kAhead * strides[c]);
#pragma GCC unroll 4
      for (int i = 0; i < kSplit; ++i) sums[c][i] = T::add(sums[c][i], value, T::weights(lines[c], i));
      lines[c] += strides[c];
    }
  };
  int64_t i = 0;
  for (; i + T::kStep <= call.k; i += T::kStep) step(T::pair(x + i));
  if (i < call.k) step(T::last(x + i));
  Copied done(sums);
  for (int c = 0; c < C; ++c) {
    for (int i = 0; i < kSplit; ++i, out += kLanes) {
      if (call.bias) done.rows[c][i] += load<Lanes>(call.bias + panels[c] * kPanel + i * kLanes);
      X rounded[kLanes];
      store<T>(rounded, done.rows[c][i], kLanes);
      const Lanes wide = T::widened(rounded);
      memcpy(out, &wide, sizeof wide);
    }
  }
}

template <class T>
void pick(const DenseCall& call, const int64_t* panels, int64_t count, float* out) {
  static constexpr void (*kCounts[kPicked])(const DenseCall&, const int64_t*, float*) = {
      side_by_side<T, 1>, side_by_side<T, 2>, side_by_side<T, 3>, side_by_side<T, 4>};
  for (int64_t i = 0; i < count; i += kPicked) {
    const int64_t left = count - i;
    kCounts[(left < kPicked ? left : kPicked) - 1](call, panels + i, out + i * kPanel);
  }
}

}  // namespace

extern const HeadKernels head_float32, head_bfloat16;
constinit const HeadKernels head_float32{bound, pick<Float32>};
constinit const HeadKernels head_bfloat16{bound, pick<BFloat16>};

}  // namespace tasc::TASC_ISA
