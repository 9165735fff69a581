// On aarch64 every instruction set has the bits of "portable", which is plain code, and a product is the sum that it
// is defined as: a fused multiply-add per element, in ascending order.
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "elements.h"
#include "instructions.h"
#include "tasc/certified_head.h"
#include "tasc/layer.h"

namespace {

template <class T>
constexpr auto kElement = sizeof(T) == 4 ? tasc::Element::kFloat32 : tasc::Element::kBFloat16;

float rounded(float sum, float) { return sum; }
float rounded(float sum, uint16_t) { return tasc::to_float(tasc::to_bfloat16(sum)); }

// Numbers of many magnitudes: some products and sums are subnormal, and some overflow.
template <class T>
std::vector<T> some(std::mt19937& rng, int64_t size, int most = 62) {
  std::vector<T> made(static_cast<size_t>(size));
  for (T& each : made) {
    const int exponent = rng() % 4 ? 0 : static_cast<int>(rng() % static_cast<uint32_t>(2 * most + 1)) - most;
    each = element<T>(std::ldexp(std::normal_distribution<float>()(rng), exponent));
  }
  return made;
}

// Which NaN a number is does not matter.
template <class T>
std::vector<T> without_nan(std::vector<T> numbers) {
  for (T& each : numbers)
    if (std::isnan(wide(each))) each = T{};
  return numbers;
}

// The outputs of an instruction set, all in one.
class Outputs {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    bytes_.insert(bytes_.end(), bytes, bytes + values.size() * sizeof(T));
  }
  bool operator==(const Outputs&) const = default;

 private:
  std::vector<char> bytes_;
};

// Products of `rows` rows.
template <class T>
void multiply(const std::vector<T>& w, const std::vector<float>& bias, int64_t k, int64_t rows, std::mt19937& rng,
              Outputs& outputs) {
  const auto n = static_cast<int64_t>(bias.size());
  const auto x = some<T>(rng, rows * k);
  const tasc::PackedMatrix matrix(w.data(), kElement<T>, n, k, bias.data());
  std::vector<T> out(static_cast<size_t>(rows * n));
  matrix.multiply(x.data(), rows, out.data(), nullptr);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < k; ++j)
        sum = std::fma(wide(x[static_cast<size_t>(row * k + j)]), wide(w[static_cast<size_t>(i * k + j)]), sum);
      const float expected = rounded(sum + bias[static_cast<size_t>(i)], T{});
      const float found = wide(out[static_cast<size_t>(row * n + i)]);
      assert(found == expected || (std::isnan(found) && std::isnan(expected)));
    }
  outputs.add(without_nan(out));
}

// dense_test.cpp has the definition.
template <class T>
void multiply_quantised(int64_t n, int64_t k, int64_t rows, std::mt19937& rng, Outputs& outputs) {
  std::vector<int8_t> w(static_cast<size_t>(n * k));
  for (int8_t& each : w) each = static_cast<int8_t>(static_cast<int>(rng() % 255) - 127);
  const auto scales = some<uint16_t>(rng, n * ((k + tasc::kScaleBlock - 1) / tasc::kScaleBlock), 4);
  const auto x = some<T>(rng, rows * k);
  std::vector<T> out(static_cast<size_t>(rows * n));
  tasc::PackedMatrix(w.data(), kElement<T>, n, k, nullptr, scales.data()).multiply(x.data(), rows, out.data(), nullptr);
  outputs.add(without_nan(out));
}

template <class T>
void products(std::mt19937& rng, Outputs& outputs) {
  for (const int64_t n : {1, 16, 65, 130})
    for (const int64_t k : {1, 2, 31, 96}) {
      const auto w = some<T>(rng, n * k);
      const auto bias = some<float>(rng, n, 0);
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 16}) {
        multiply<T>(w, bias, k, rows, rng, outputs);
        multiply_quantised<T>(n, k, rows, rng, outputs);
      }
    }
}

template <class T>
void attention(std::mt19937& rng, Outputs& outputs) {
  constexpr int64_t kKeyHeads = 2, kQueries = 5, kKeys = 37;
  for (const int64_t group : {1, 2, 3, 4, 7})
    for (const int64_t d : {2, 8, 16, 40, 64, 256})
      for (const bool masked : {false, true}) {
        const int64_t heads = kKeyHeads * group;
        const auto query = some<T>(rng, heads * kQueries * d, 2), key = some<T>(rng, kKeyHeads * kKeys * d, 2),
                   value = some<T>(rng, kKeyHeads * kKeys * d);
        const auto sinks = some<float>(rng, heads, 0);
        std::vector<uint8_t> mask(kQueries * kKeys);
        for (uint8_t& each : mask) each = rng() % 3 != 0;
        std::vector<T> out(static_cast<size_t>(heads * kQueries * d));
        const tasc::AttentionCall call{query.data(), key.data(), value.data(), out.data(),
                                       masked ? mask.data() : nullptr, masked ? sinks.data() : nullptr,
                                       1, heads, kKeyHeads, kQueries, kKeys, d,
                                       {0, kQueries * d, d}, {0, kKeys * d, d}, {0, kKeys * d, d}, {0, kKeys},
                                       0.125f, d == 16 ? 2.f : 0.f};
        tasc::attend(call, kElement<T>, nullptr);
        outputs.add(out);
      }
}

template <class T>
void layers(std::mt19937& rng, Outputs& outputs) {
  constexpr int64_t kHidden = 41, kHeads = 3, kHeadDim = 10, kInner = 37, kRows = 9;
  const auto matrix = [&](int64_t n, int64_t k) {
    return tasc::PackedMatrix(some<T>(rng, n * k, 1).data(), kElement<T>, n, k, nullptr);
  };
  const auto q = matrix(kHeads * kHeadDim, kHidden), k = matrix(kHeadDim, kHidden), v = matrix(kHeadDim, kHidden),
             o = matrix(kHidden, kHeads * kHeadDim), gate = matrix(kInner, kHidden), up = matrix(kInner, kHidden),
             down = matrix(kHidden, kInner);
  const auto norm = some<T>(rng, kHidden, 1), own_norm = some<T>(rng, kHeadDim, 1);
  const tasc::Layer layer({&q, &k, &v, &o, &gate, &up, &down, norm.data(), norm.data(), own_norm.data(),
                           own_norm.data(), 1e-5f, kHeadDim});
  const auto sized = [](int64_t size) { return std::vector<T>(static_cast<size_t>(kRows * size)); };
  const auto x = some<T>(rng, kRows * kHidden, 3), attended = some<T>(rng, kRows * kHeads * kHeadDim, 3),
             cos = some<T>(rng, kRows * kHeadDim, 0), sin = some<T>(rng, kRows * kHeadDim, 0);
  auto queries = sized(kHeads * kHeadDim), keys = sized(kHeadDim), values = sized(kHeadDim), out = sized(kHidden);
  layer.before_attention(x.data(), kRows, {cos.data(), sin.data()}, kRows, queries.data(), keys.data(), values.data(),
                         nullptr);
  layer.after_attention(x.data(), attended.data(), kRows, out.data(), nullptr);
  for (const auto& each : {queries, keys, values, out}) outputs.add(each);
}

// The totals come from logits in 8 bits, so they show each bit of these.
template <class T>
void largest_logits(std::mt19937& rng, Outputs& outputs) {
  constexpr int64_t kStates = 13;
  for (const int64_t n : {16, 65, 400})
    for (const int64_t k : {5, 34, 96}) {
      const auto w = some<T>(rng, n * k, 4), x = some<T>(rng, kStates * k, 4);
      const tasc::PackedMatrix matrix(w.data(), kElement<T>, n, k, nullptr);
      std::vector<int32_t> ids(kStates * 8);
      std::vector<float> logits(ids.size()), totals(kStates);
      const int64_t panels =
          tasc::CertifiedHead(matrix).top(x.data(), kStates, 8, ids.data(), logits.data(), totals.data(), nullptr);
      outputs.add(ids), outputs.add(logits), outputs.add(totals), outputs.add(std::vector{panels});
    }
}

Outputs outputs_now() {
  Outputs outputs;
  std::mt19937 rng(11);
  products<float>(rng, outputs), products<uint16_t>(rng, outputs);
  attention<float>(rng, outputs), attention<uint16_t>(rng, outputs);
  layers<float>(rng, outputs), layers<uint16_t>(rng, outputs);
  largest_logits<float>(rng, outputs), largest_logits<uint16_t>(rng, outputs);
  return outputs;
}

}  // namespace

// `make test-arm` knows what the emulated machine has.
int main() {
  const char* expected = std::getenv("TASC_TEST_INSTRUCTIONS");
  assert(!expected || tasc::dense_instructions() == expected);
  assert(tasc::use_dense_instructions("portable"));
  const Outputs portable = outputs_now();
  for (const auto* instructions : kInstructions)
    if (tasc::use_dense_instructions(instructions)) assert(outputs_now() == portable);
}
