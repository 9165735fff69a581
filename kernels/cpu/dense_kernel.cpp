// The kernels of dense.h, compiled once per instruction set, TASC_ISA. They call no inline function of a
// library, as the linker keeps one copy of each, which might be that of the newest instruction set.
#include "lanes.h"

namespace tasc::TASC_ISA {
namespace {

constexpr int64_t kAhead = 16;  // steps over k to prefetch
// Registers that hold sums, beside those of weights. AVX-512 alone takes an operand from memory to all lanes.
#ifdef TASC_NEON
constexpr int64_t kSums = 20;
#else
constexpr int64_t kSums = kRegisters == 32 ? 28 : 12;
#endif
constexpr int64_t kMostRows = kSums / kSplit < 7 ? kSums / kSplit : 7;
constexpr int fitting(int rows) { return rows < kMostRows ? rows : kMostRows; }  // more are not compiled

// Sums R rows in P panels from the one at `first` on, of W that lie side by side. The first of them fetches all W, and
// `lines` lines from `ahead` on per step into the second-level cache. An output's sum does not depend on R, P and W.
template <class T, int R, int P, int W>
void block(const DenseCall& call, const char* line, int first, int64_t first_row, int64_t column, const char* ahead,
           int64_t lines) {
  constexpr int64_t kStride = W * kLine;
  line += first * kLine, column += first * kPanel;
  constexpr int kWeights = P * kSplit;
  Lanes sums[R][kWeights] = {};
  const auto* x = static_cast<const typename T::X*>(call.x) + first_row * call.k;
  const auto step = [&](auto value_of) {
    decltype(T::weights(line, 0)) w[kWeights];
#pragma GCC unroll 16
    for (int i = 0; i < kWeights; ++i) w[i] = T::weights(line + i / kSplit * kLine, i % kSplit);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto value = value_of(x + r * call.k);
#pragma GCC unroll 16
      for (int i = 0; i < kWeights; ++i) sums[r][i] = T::add(sums[r][i], value, w[i]);
    }
  };
  int64_t i = 0;
  for (; i + T::kStep <= call.k; i += T::kStep, line += kStride) {
    const int fetched = first == 0 ? W : P;  // later panels are in the second-level cache
#pragma GCC unroll 8
    for (int p = 0; p < fetched; ++p) __builtin_prefetch(line + kAhead * kStride + p * kLine);
    for (int64_t l = 0; l < lines; ++l, ahead += kLine) __builtin_prefetch(ahead, 0, 2);
    step([&](const typename T::X* row) { return T::pair(row + i); });
  }
  if (i < call.k) step([&](const typename T::X* row) { return T::last(row + i); });
  const Copied done(sums);
  for (int w = 0; w < kWeights && column < call.n; ++w, column += kLanes) {
    for (int r = 0; r < R; ++r) {
      Lanes sum = done.rows[r][w];
      if (call.bias) sum += load<Lanes>(call.bias + column);
      auto* out = static_cast<typename T::X*>(call.out) + (first_row + r) * call.n + column;
      store<T>(out, sum, call.n - column);
    }
  }
}

// R rows in W panels, as many at a time as the registers hold.
template <class T, int R, int W>
void rows_of(const DenseCall& call, const char* line, int64_t first_row, int64_t column, const char* ahead,
             int64_t lines) {
  constexpr int64_t kFit = kSums / (R * kSplit);
  constexpr int kPanels = kFit >= W ? W : kFit >= 2 ? 2 : 1;
  int first = 0;
  for (; first + kPanels <= W; first += kPanels)
    block<T, R, kPanels, W>(call, line, first, first_row, column, ahead, first ? 0 : lines);
  if constexpr (W % kPanels) block<T, R, W % kPanels, W>(call, line, first, first_row, column, ahead, 0);
}

// Only the first block waits for memory, so the blocks share the next group's lines between them.
template <class T, int P>
void group(const DenseCall& call, const char* panels, int64_t column) {
  using Rows = void (*)(const DenseCall&, const char*, int64_t, int64_t, const char*, int64_t);
  static constexpr Rows kRows[] = {rows_of<T, fitting(1), P>, rows_of<T, fitting(2), P>, rows_of<T, fitting(3), P>,
                                   rows_of<T, fitting(4), P>, rows_of<T, fitting(5), P>, rows_of<T, fitting(6), P>,
                                   rows_of<T, fitting(7), P>};
  const int64_t blocks = (call.rows + kMostRows - 1) / kMostRows, steps = (call.k + T::kStep - 1) / T::kStep;
  const int64_t lines = blocks > 1 ? (P + blocks - 1) / blocks : 0;
  const char* next = panels + steps * P * kLine;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin = call.rows * b / blocks, end = call.rows * (b + 1) / blocks;
    kRows[end - begin - 1](call, panels, begin, column, next + b * steps * lines * kLine, lines);
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

// One key/value head of a sequence, and a query that asks it in several heads, from `head` on.
template <class T>
struct Asked {
  using X = typename T::X;
  const AttentionCall& call;
  const X *query, *keys, *values;
  X* out;
  const int32_t* slots;  // that the query attends to, by rank
  int64_t count, head;
  float* scores;  // of each head, `stride` apart
  int64_t stride;
};

#ifdef __AVX512F__
constexpr int kKeys = 4;  // to multiply side by side

// Adds the upper `half` of each 2 * half lanes to the lower one, and joins two vectors.
inline Lanes halves(Lanes a, Lanes b, int half) {
  Bits low, high;
  for (int lane = 0; lane < kLanes; ++lane) {
    low[lane] = static_cast<uint32_t>(lane / half * 2 * half + lane % half);
    high[lane] = low[lane] + static_cast<uint32_t>(half);
  }
#ifdef __clang__
  const auto chosen = [&](Bits at) { return (Lanes)_mm512_permutex2var_ps((__m512)a, (__m512i)at, (__m512)b); };
  return chosen(low) + chosen(high);
#else
  return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
#endif
}

// Adds the lanes of each of kLanes vectors, set four at a time. The order of an addition does not depend on the vector.
struct Sums {
  Lanes fours[kLanes / kKeys] = {};
  void set(int64_t i, const Lanes* x) { fours[i / kKeys] = halves(halves(x[0], x[1], 8), halves(x[2], x[3], 8), 4); }
  Lanes all() const { return halves(halves(fours[0], fours[1], 2), halves(fours[2], fours[3], 2), 1); }
};
#elif defined(TASC_NEON)
constexpr int kKeys = kLanes;

// Adds the lanes of each of kLanes vectors, in the order of sum_of.
struct Sums {
  float32x4_t sums;
  static float32x4_t halves(Lanes a, Lanes b) {
    const auto first = (float64x2_t)a, second = (float64x2_t)b;
    return (float32x4_t)vzip1q_f64(first, second) + (float32x4_t)vzip2q_f64(first, second);
  }
  void set(int64_t /*i*/, const Lanes* x) { sums = vpaddq_f32(halves(x[0], x[1]), halves(x[2], x[3])); }
  Lanes all() const { return (Lanes)sums; }
};
#else
constexpr int kKeys = 2;

struct Sums {  // set two at a time
  Lanes sums = {};
  void set(int64_t i, const Lanes* x) { sums[i] = sum_of(x[0]), sums[i + 1] = sum_of(x[1]); }
  Lanes all() const { return sums; }
};
#endif

// Scores the keys of R heads, by rank; ranks up to whole lanes get -infinity. Writes the largest scores.
template <class T, int R>
void score(const Asked<T>& asked, float* most) {
  const AttentionCall& call = asked.call;
  Lanes wide[kMaxHeadDim / kLanes][R], largest[R];
  const int64_t whole = call.d / kLanes, chunks = (call.d + kLanes - 1) / kLanes;
  for (int r = 0; r < R; ++r) {
    const auto* query = asked.query + r * call.query_strides[1];
    for (int64_t c = 0; c < chunks; ++c) wide[c][r] = chunk<T>(query + c * kLanes, call.d - c * kLanes);
    largest[r] = all(-__builtin_inff());
  }
  for (int64_t rank = 0; rank < asked.count; rank += kLanes) {
    const int64_t left = asked.count - rank, block = left < kLanes ? left : kLanes;
    Sums sums[R];
    for (int64_t i = 0; i < block; i += kKeys) {
      const typename T::X* keys[kKeys];
      for (int j = 0; j < kKeys; ++j)
        keys[j] = asked.keys + asked.slots[rank + (i + j < block ? i + j : i)] * call.key_strides[2];
      Lanes sum[R][kKeys] = {};
      const auto add = [&](int64_t c, auto chunk_of) {
        Lanes key[kKeys];
#pragma GCC unroll 4
        for (int j = 0; j < kKeys; ++j) key[j] = chunk_of(keys[j] + c * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
          for (int j = 0; j < kKeys; ++j) sum[r][j] = multiply_add(wide[c][r], key[j], sum[r][j]);
        }
      };
      for (int64_t c = 0; c < whole; ++c) add(c, [](const auto* from) { return T::widened(from); });
      if (whole < chunks) add(whole, [&](const auto* from) { return chunk<T>(from, call.d - whole * kLanes); });
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[r].set(i, sum[r]);
    }
    for (int r = 0; r < R; ++r) {
      Lanes found = sums[r].all() * call.scale;
      for (int64_t i = 0; call.softcap > 0 && i < block; ++i)
        found[i] = __builtin_tanhf(found[i] / call.softcap) * call.softcap;
      for (int64_t i = block; i < kLanes; ++i) found[i] = -__builtin_inff();
      memcpy(asked.scores + r * asked.stride + rank, &found, sizeof found);
      largest[r] = found > largest[r] ? found : largest[r];
    }
  }
  for (int r = 0; r < R; ++r) {
    most[r] = largest[r][0];
    for (int lane = 1; lane < kLanes; ++lane) most[r] = largest[r][lane] > most[r] ? largest[r][lane] : most[r];
  }
}

// Replaces scores by e^(score - most); returns their sum, added by rank.
float exponentiate(float* scores, int64_t count, float most) {
  Lanes sums{};
  for (int64_t rank = 0; rank < count; rank += kLanes) {
    const Lanes power = exp_of(load<Lanes>(scores + rank) - most);
    memcpy(scores + rank, &power, sizeof power);
    sums += power;
  }
  return sum_of(sums);
}

// Adds C chunks of the values from `column` on, by rank, for R heads.
template <class T, int R, int C>
void add_values(const Asked<T>& asked, const float* totals, int64_t column) {
  const AttentionCall& call = asked.call;
  const int64_t left = call.d - column;
  Lanes sums[R][C] = {};
  for (int64_t rank = 0; rank < asked.count; ++rank) {
    const auto* value = asked.values + asked.slots[rank] * call.value_strides[2] + column;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Lanes values = C > 1 ? T::widened(value + c * kLanes) : chunk<T>(value, left);  // one may be partial
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sums[r][c] = multiply_add(asked.scores[r * asked.stride + rank], values, sums[r][c]);
    }
  }
  const Copied done(sums);
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      const auto lanes = T::rounded(done.rows[r][c] / totals[r]);
      const int64_t rest = left - c * kLanes, size = rest < kLanes ? rest : kLanes;
      auto* out = asked.out + r * call.d + column + c * kLanes;
      memcpy(out, &lanes, static_cast<size_t>(size) * sizeof *out);
    }
  }
}

// Attends from R heads, which share the keys and values that they read. Their bits do not depend on R.
template <class T, int R>
void attend_heads(const Asked<T>& asked) {
  const AttentionCall& call = asked.call;
  float most[R], totals[R];
  score<T, R>(asked, most);
  for (int r = 0; r < R; ++r) {
    const float* sink = call.sinks ? call.sinks + asked.head + r : nullptr;
    if (sink && *sink > most[r]) most[r] = *sink;
    totals[r] = exponentiate(asked.scores + r * asked.stride, asked.count, most[r]);
    if (sink) totals[r] += exp_of(all(*sink - most[r]))[0];
    if (asked.count == 0) totals[r] = 1;  // padding that sees nothing
  }
  int64_t column = 0;
  for (; column + 4 * kLanes <= call.d; column += 4 * kLanes) add_values<T, R, 4>(asked, totals, column);
  for (; column < call.d; column += kLanes) add_values<T, R, 1>(asked, totals, column);
}

template <class T>
void attend(const AttentionCall& call, int64_t begin, int64_t end, float* scratch) {
  using X = typename T::X;
  static constexpr void (*kHeads[kMostHeads])(const Asked<T>&) = {attend_heads<T, 1>, attend_heads<T, 2>,
                                                                  attend_heads<T, 3>, attend_heads<T, 4>};
  const int64_t group = call.heads / call.key_heads, stride = call.keys + kLanes;
  auto* slots = reinterpret_cast<int32_t*>(scratch);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t query = item % call.queries, sequence = item / call.queries / call.key_heads;
    const int64_t key_head = item / call.queries % call.key_heads;
    const int64_t count = visible_slots(call, sequence, query, slots);
    const auto at = [&](const void* data, const int64_t* strides, int64_t head) {
      return static_cast<const X*>(data) + sequence * strides[0] + head * strides[1];
    };
    for (int64_t head = key_head * group, last = head + group; head < last;) {
      const int64_t heads = last - head < kMostHeads ? last - head : kMostHeads;
      auto* out = static_cast<X*>(call.out) + ((sequence * call.queries + query) * call.heads + head) * call.d;
      kHeads[heads - 1]({call, at(call.query, call.query_strides, head) + query * call.query_strides[2],
                         at(call.key, call.key_strides, key_head), at(call.value, call.value_strides, key_head),
                         out, slots, count, head, scratch + stride, stride});
      head += heads;
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
