#include "tasc/dense.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "elements.h"
#include "instructions.h"

namespace {

std::mt19937 rng(7);

template <class T>
std::vector<T> some(int64_t size) {
  std::vector<T> made(static_cast<size_t>(size));
  std::normal_distribution<float> normal;
  for (T& each : made) each = element<T>(normal(rng));
  return made;
}

// A product as it is defined. Without AVX-512 the compiler decides whether a step rounds once or twice.
template <class T>
void check_definition(const std::vector<T>& x, const std::vector<T>& w, const std::vector<float>& bias,
                      const std::vector<T>& out, int64_t k) {
  const auto n = static_cast<int64_t>(bias.size());
  const bool fused = tasc::dense_instructions().starts_with("avx512");
  for (size_t i = 0; i < out.size(); ++i) {
    const T *row = &x[static_cast<size_t>(static_cast<int64_t>(i) / n * k)],
            *column = &w[static_cast<size_t>(static_cast<int64_t>(i) % n * k)];
    float sum = 0;
    double exact = 0, size = 1;
    for (int64_t j = 0; j < k; ++j) {
      sum = std::fma(wide(row[j]), wide(column[j]), sum);
      exact += static_cast<double>(wide(row[j])) * wide(column[j]);
      size += std::abs(static_cast<double>(wide(row[j])) * wide(column[j]));
    }
    const float added = bias[i % bias.size()];
    if (sizeof(T) == 4 && fused) assert(wide(out[i]) == sum + added);
    assert(std::abs(wide(out[i]) - exact - added) <= (sizeof(T) == 4 ? 1e-5 : 1e-2) * size);
  }
}

template <class T>
void check(int64_t n, int64_t k, tasc::ThreadPool& pool) {
  constexpr int64_t kRows = 29;
  const auto element = sizeof(T) == 4 ? tasc::Element::kFloat32 : tasc::Element::kBFloat16;
  const auto w = some<T>(n * k), x = some<T>(kRows * k);
  const auto bias = some<float>(n);
  const tasc::PackedMatrix matrix(w.data(), element, n, k, bias.data());
  std::vector<T> back(w.size());
  matrix.unpack(back.data());
  assert(std::memcmp(back.data(), w.data(), w.size() * sizeof(T)) == 0);

  std::vector<T> all(static_cast<size_t>(kRows * n));
  matrix.multiply(x.data(), kRows, all.data(), nullptr);
  check_definition(x, w, bias, all, k);
  for (int64_t rows = 1; rows <= kRows; ++rows) {  // a row is the same bits in any company
    const int64_t first = kRows - rows;
    std::vector<T> some_rows(static_cast<size_t>(rows * n));
    matrix.multiply(x.data() + first * k, rows, some_rows.data(), rows % 2 ? &pool : nullptr);
    assert(std::memcmp(some_rows.data(), all.data() + first * n, some_rows.size() * sizeof(T)) == 0);
  }
}

// One row in 8 bits, as tasc/dense.h defines it.
struct QuantisedRow {
  std::vector<int> whole;
  std::vector<float> scales;

  QuantisedRow(const std::vector<float>& x) : whole(x.size()) {
    for (size_t first = 0; first < x.size(); first += tasc::kScaleBlock) {
      const size_t last = std::min(x.size(), first + tasc::kScaleBlock);
      float most = 0;
      bool finite = true;
      for (size_t i = first; i < last; ++i) {
        most = std::max(most, std::abs(x[i]));
        finite = finite && std::isfinite(x[i]);
      }
      const bool tiny = most < 0x1p-100f;
      scales.push_back(!finite ? NAN : tiny ? 0 : most / 127);
      if (!finite || tiny) continue;
      const float inverse = 127 / most;
      for (size_t i = first; i < last; ++i) whole[i] = static_cast<int>(std::nearbyint(x[i] * inverse));
    }
  }
};

// Products in 8 bits are defined to the last bit.
template <class T>
void check_quantised(int64_t n, int64_t k, tasc::ThreadPool& pool) {
  constexpr int64_t kRows = 13;
  const auto element_type = sizeof(T) == 4 ? tasc::Element::kFloat32 : tasc::Element::kBFloat16;
  const int64_t blocks = (k + tasc::kScaleBlock - 1) / tasc::kScaleBlock;
  std::vector<int8_t> w(static_cast<size_t>(n * k)), back(w.size());
  for (int8_t& each : w) each = static_cast<int8_t>(static_cast<int>(rng() % 255) - 127);
  std::vector<uint16_t> scales(static_cast<size_t>(n * blocks));
  for (uint16_t& each : scales) each = element<uint16_t>(std::abs(std::normal_distribution<float>()(rng)));
  auto x = some<T>(kRows * k);
  const auto tiny = element<T>(0x1p-110f), huge = element<T>(1e30f), infinite = element<T>(INFINITY);
  std::fill_n(x.begin() + k, k, tiny);             // row 1
  x[static_cast<size_t>(2 * k)] = huge;            // row 2
  x[static_cast<size_t>(3 * k + k / 2)] = infinite;  // row 3
  x[static_cast<size_t>(4 * k + k / 2)] = element<T>(NAN);
  const auto bias = some<float>(n);
  const tasc::PackedMatrix matrix(w.data(), element_type, n, k, bias.data(), scales.data());
  matrix.unpack(back.data());
  assert(back == w);

  std::vector<T> all(static_cast<size_t>(kRows * n));
  matrix.multiply(x.data(), kRows, all.data(), nullptr);
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<float> own(static_cast<size_t>(k));
    for (int64_t i = 0; i < k; ++i) own[static_cast<size_t>(i)] = wide(x[static_cast<size_t>(row * k + i)]);
    const QuantisedRow rounded(own);
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        int whole = 0;
        for (int64_t j = b * tasc::kScaleBlock; j < std::min(k, (b + 1) * tasc::kScaleBlock); ++j)
          whole += rounded.whole[static_cast<size_t>(j)] * w[static_cast<size_t>(i * k + j)];
        const float scale = wide(scales[static_cast<size_t>(i * blocks + b)]);
        const float both = scale * rounded.scales[static_cast<size_t>(b)];
        sum = std::fma(static_cast<float>(whole), both, sum);
      }
      const float expected = sum + bias[static_cast<size_t>(i)], found = wide(all[static_cast<size_t>(row * n + i)]);
      const float to_nearest = sizeof(T) == 4 ? expected : tasc::to_float(tasc::to_bfloat16(expected));
      assert(found == to_nearest || (std::isnan(found) && std::isnan(to_nearest)));
    }
  }
  for (int64_t count = 1; count <= kRows; ++count) {  // a row is the same bits in any company
    const int64_t first = kRows - count;
    std::vector<T> alone(static_cast<size_t>(count * n));
    matrix.multiply(x.data() + first * k, count, alone.data(), count % 2 ? &pool : nullptr);
    for (size_t i = 0; i < alone.size(); ++i) {
      const T same = all[static_cast<size_t>(first * n) + i];
      assert(std::memcmp(&alone[i], &same, sizeof same) == 0 || std::isnan(wide(same)));
    }
  }
}

void check_rounding() {  // to the nearest, ties to even; what is no number stays none
  const uint16_t one = 0x3f80;
  const std::vector<uint16_t> w{one, one, one};
  const std::vector<float> bias{0.00390625f, 3 * 0.00390625f, NAN};
  const tasc::PackedMatrix matrix(w.data(), tasc::Element::kBFloat16, 3, 1, bias.data());
  uint16_t out[3];
  matrix.multiply(&one, 1, out, nullptr);
  assert(out[0] == 0x3f80 && out[1] == 0x3f82 && std::isnan(wide(out[2])));
}

// One sequence's attention: queries at the last positions, hidden keys by the mask, none at first.
template <class T>
struct Attending {
  int64_t heads, key_heads, queries, keys, d;
  float softcap;
  bool masked;
  std::vector<T> query = some<T>(heads * queries * d), key = some<T>(key_heads * keys * d),
                 value = some<T>(key_heads * keys * d);
  std::vector<uint8_t> mask = std::vector<uint8_t>(static_cast<size_t>(queries * keys));
  std::vector<float> sinks = some<float>(heads);

  // Attends from queries [first, first + count), over the keys before the last of them.
  std::vector<T> from(int64_t first, int64_t count, tasc::ThreadPool* pool) const {
    const int64_t seen = keys - queries + first + count;
    std::vector<T> out(static_cast<size_t>(count * heads * d));
    const tasc::AttentionCall call{query.data() + first * d, key.data(), value.data(), out.data(),
                                   masked ? mask.data() + first * keys : nullptr,
                                   masked ? sinks.data() : nullptr, 1, heads, key_heads, count, seen, d,
                                   {0, queries * d, d}, {0, keys * d, d}, {0, keys * d, d}, {0, keys},
                                   1 / std::sqrt(static_cast<float>(d)), softcap};
    tasc::attend(call, sizeof(T) == 4 ? tasc::Element::kFloat32 : tasc::Element::kBFloat16, pool);
    return out;
  }

  bool sees(int64_t q, int64_t k) const {
    return masked ? mask[static_cast<size_t>(q * keys + k)] != 0 : k <= keys - queries + q;
  }

  // Attention as it is defined: the softmax of the scores weighs the values.
  double defined(int64_t q, int64_t head, int64_t column) const {
    const int64_t own = head / (heads / key_heads) * keys * d;
    double total = masked ? std::exp(static_cast<double>(sinks[static_cast<size_t>(head)])) : 0, sum = 0;
    for (int64_t k = 0; k < keys; ++k) {
      if (!sees(q, k)) continue;
      double score = 0;
      for (int64_t i = 0; i < d; ++i)
        score += static_cast<double>(wide(query[static_cast<size_t>((head * queries + q) * d + i)])) *
                 wide(key[static_cast<size_t>(own + k * d + i)]);
      score /= std::sqrt(static_cast<double>(d));
      if (softcap > 0) score = std::tanh(score / softcap) * softcap;
      total += std::exp(score);
      sum += std::exp(score) * wide(value[static_cast<size_t>(own + k * d + column)]);
    }
    return sum / total;
  }
};

template <class T>
void check_attention(Attending<T> attending, tasc::ThreadPool& pool) {
  for (size_t i = 0; i < attending.mask.size(); ++i) attending.mask[i] = i % 3 != 1;
  const int64_t width = attending.heads * attending.d;
  const auto all = attending.from(0, attending.queries, &pool);
  for (int64_t q = 0; q < attending.queries; ++q) {
    for (int64_t i = 0; i < width; ++i) {
      const double expected = attending.defined(q, i / attending.d, i % attending.d);
      assert(std::abs(wide(all[static_cast<size_t>(q * width + i)]) - expected) <= (sizeof(T) == 4 ? 1e-5 : 3e-2));
    }
    if (attending.masked) continue;
    const auto alone = attending.from(q, 1, nullptr);  // a query is the same bits in any company
    assert(std::memcmp(alone.data(), &all[static_cast<size_t>(q * width)], alone.size() * sizeof(T)) == 0);
  }
}

}  // namespace

int main() {
  tasc::ThreadPool pool(3, std::chrono::microseconds(50));
  for (const auto* instructions : kInstructions) {
    if (!tasc::use_dense_instructions(instructions)) continue;
    for (const int64_t n : {1, 16, 65, 130})
      for (const int64_t k : {1, 2, 31, 37, 96}) {
        check<float>(n, k, pool);
        check<uint16_t>(n, k, pool);
        check_quantised<float>(n, k, pool);
        check_quantised<uint16_t>(n, k, pool);
      }
    check_rounding();
    for (const int64_t group : {1, 3, 4, 7})  // heads that share keys
      for (const int64_t d : {8, 16, 40, 64})
        for (const bool masked : {false, true}) {
          const float softcap = d == 16 ? 2.f : 0.f;
          check_attention<float>({2 * group, 2, 5, 37, d, softcap, masked}, pool);
          check_attention<uint16_t>({2 * group, 2, 5, 37, d, softcap, masked}, pool);
        }
  }
}
