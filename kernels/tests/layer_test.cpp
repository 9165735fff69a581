#include "tasc/layer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "instructions.h"
#include "tasc/float16.h"

namespace {

constexpr int64_t kHidden = 40, kHeads = 3, kInner = 37, kRows = 67;

std::mt19937 rng(3);

template <class T>
std::vector<T> some(int64_t size) {
  std::vector<T> made(static_cast<size_t>(size));
  for (T& each : made) {
    const float value = std::normal_distribution<float>(0, 0.4f)(rng);
    if constexpr (sizeof(T) == 4) {
      each = value;
    } else {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      each = static_cast<T>(bits >> 16);
    }
  }
  return made;
}

double wide(float x) { return x; }
double wide(uint16_t x) { return tasc::to_float(tasc::BFloat16{x}); }

using Row = std::vector<double>;

template <class T>
Row row_of(const std::vector<T>& from, int64_t row, int64_t size) {
  Row made;
  for (int64_t i = 0; i < size; ++i) made.push_back(wide(from[static_cast<size_t>(row * size + i)]));
  return made;
}

template <class T>
Row product(const std::vector<T>& w, const Row& x) {
  Row made(w.size() / x.size());
  for (size_t n = 0; n < made.size(); ++n)
    for (size_t k = 0; k < x.size(); ++k) made[n] += wide(w[n * x.size() + k]) * x[k];
  return made;
}

template <class T>
Row normed(Row x, const std::vector<T>& weight, size_t width, double plus = 0) {
  for (size_t first = 0; first < x.size(); first += width) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i) squares += x[first + i] * x[first + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (size_t i = 0; i < width; ++i) x[first + i] *= scale * (plus + wide(weight[i]));
  }
  return x;
}

Row rotated(const Row& x, const Row& cos, const Row& sin) {
  Row made(x.size());
  const size_t d = cos.size();
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t lane = i % d, other = lane < d / 2 ? i + d / 2 : i - d / 2;
    made[i] = x[i] * cos[lane] + (lane < d / 2 ? -x[other] : x[other]) * sin[lane];
  }
  return made;
}

template <class T>
void assert_near(const T* found, const Row& expected) {
  for (size_t i = 0; i < expected.size(); ++i)
    assert(std::abs(wide(found[i]) - expected[i]) <= (sizeof(T) == 4 ? 2e-5 : 0.06) * (1 + std::abs(expected[i])));
}

template <class T>
struct Weights {
  int64_t d, inner = kInner;
  std::vector<T> q = some<T>(kHeads * d * kHidden), k = some<T>(d * kHidden), v = some<T>(d * kHidden),
                 o = some<T>(kHidden * kHeads * d), gate = some<T>(inner * kHidden), up = some<T>(inner * kHidden),
                 down = some<T>(kHidden * inner), norm = some<T>(kHidden), mlp_norm = some<T>(kHidden),
                 head_norm = some<T>(d), attention_out_norm = some<T>(kHidden), mlp_out_norm = some<T>(kHidden);
};

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

// `gemma`: norms of 1 + weight, also after attention and MLP, and GELU.
template <class T>
void check(int64_t d, bool head_norms, bool gemma, tasc::ThreadPool& pool) {
  const Weights<T> w{d};
  const auto element = sizeof(T) == 4 ? tasc::Element::kFloat32 : tasc::Element::kBFloat16;
  const auto pack = [&](const std::vector<T>& from, int64_t k) {
    return tasc::PackedMatrix(from.data(), element, static_cast<int64_t>(from.size()) / k, k, nullptr);
  };
  const auto q = pack(w.q, kHidden), k = pack(w.k, kHidden), v = pack(w.v, kHidden), o = pack(w.o, kHeads * d),
             gate = pack(w.gate, kHidden), up = pack(w.up, kHidden), down = pack(w.down, kInner);
  const void* own = head_norms ? w.head_norm.data() : nullptr;
  tasc::LayerParts parts{&q, &k, &v, &o, &gate, &up, &down, w.norm.data(), w.mlp_norm.data(), own, own, 1e-5f, d};
  if (gemma) {
    parts.attention_out_norm = w.attention_out_norm.data(), parts.mlp_out_norm = w.mlp_out_norm.data();
    parts.plus_one = true, parts.activation = tasc::Activation::kGelu;
  }
  const double plus = gemma ? 1 : 0;
  const tasc::Layer layer(parts);
  constexpr int64_t kTurns = 5;
  const auto x = some<T>(kRows * kHidden), attended = some<T>(kRows * kHeads * d), cos = some<T>(kTurns * d),
             sin = some<T>(kTurns * d);
  const auto sized = [](int64_t size) { return std::vector<T>(static_cast<size_t>(kRows * size)); };
  auto queries = sized(kHeads * d), keys = sized(d), values = sized(d), out = sized(kHidden);
  layer.before_attention(x.data(), kRows, {cos.data(), sin.data()}, kTurns, queries.data(), keys.data(), values.data(),
                         &pool);
  layer.after_attention(x.data(), attended.data(), kRows, out.data(), nullptr);
  for (int64_t row = 0; row < kRows; ++row) {
    const auto at = [&](auto& from) { return from.data() + row * static_cast<int64_t>(from.size()) / kRows; };
    const Row input = row_of(x, row, kHidden), first = normed(input, w.norm, kHidden, plus);
    const Row c = row_of(cos, row % kTurns, d), s = row_of(sin, row % kTurns, d);
    const auto turned = [&](const Row& from) {
      return rotated(own ? normed(from, w.head_norm, static_cast<size_t>(d), plus) : from, c, s);
    };
    assert_near(at(queries), turned(product(w.q, first)));
    assert_near(at(keys), turned(product(w.k, first)));
    assert_near(at(values), product(w.v, first));

    Row sum = product(w.o, row_of(attended, row, kHeads * d));
    if (gemma) sum = normed(sum, w.attention_out_norm, kHidden, plus);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
    const Row second = normed(sum, w.mlp_norm, kHidden, plus);
    Row active = product(w.gate, second);
    const Row ups = product(w.up, second);
    for (size_t i = 0; i < active.size(); ++i) active[i] = ups[i] * (gemma ? gelu(active[i]) : silu(active[i]));
    Row added = product(w.down, active);
    if (gemma) added = normed(added, w.mlp_out_norm, kHidden, plus);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
    assert_near(at(out), sum);

    std::vector<T> alone(kHidden), key(static_cast<size_t>(d)), rest(static_cast<size_t>(kHeads * d));
    layer.after_attention(at(x), at(attended), 1, alone.data(), nullptr);  // the same bits in any company
    assert(std::memcmp(alone.data(), at(out), alone.size() * sizeof(T)) == 0);
    const int64_t turn = row % kTurns * d;
    layer.before_attention(at(x), 1, {cos.data() + turn, sin.data() + turn}, 1, rest.data(), key.data(), key.data(),
                           nullptr);
    assert(std::memcmp(rest.data(), at(queries), rest.size() * sizeof(T)) == 0);
    assert(std::memcmp(key.data(), at(values), key.size() * sizeof(T)) == 0);
  }
  parts.down = &up;
  bool refused = false;
  try {
    tasc::Layer{parts};
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  assert(refused);
}

// Runs one sequence through the layers, each in three calls, after `start` positions of its own cache.
template <class T>
void run_alone(const std::vector<tasc::LayerParts>& layers, std::vector<T>& x, const T* cos, const T* sin,
               std::vector<T>& cache, int64_t capacity, int64_t start, const uint8_t* mask, int64_t seen) {
  const int64_t d = layers[0].d, rows = static_cast<int64_t>(x.size()) / kHidden;
  std::vector<T> queries(static_cast<size_t>(rows * kHeads * d)), attended(queries.size()),
      keys(static_cast<size_t>(rows * d)), values(keys.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const tasc::Layer layer(layers[i]);
    layer.before_attention(x.data(), rows, {cos, sin}, 1, queries.data(), keys.data(), values.data(), nullptr);
    T* own = cache.data() + static_cast<int64_t>(i) * 2 * capacity * d;
    std::copy(keys.begin(), keys.end(), own + start * d);
    std::copy(values.begin(), values.end(), own + (capacity + start) * d);
    tasc::AttentionCall call{queries.data(), own, own + capacity * d, attended.data(), mask, nullptr, 1, kHeads, 1,
                             rows, start + rows, d, {0, d, kHeads * d}, {0, 0, d}, {0, 0, d}, {0, seen}, 0.3f, 0};
    tasc::attend(call, layers[i].query->element(), nullptr);
    layer.after_attention(x.data(), attended.data(), rows, x.data(), nullptr);
  }
}

template <class T>
void check_decoder(int64_t d, const std::vector<int64_t>& sizes, bool masked, tasc::ThreadPool& pool) {
  const Weights<T> w{d}, other{d};
  const auto element = sizeof(T) == 4 ? tasc::Element::kFloat32 : tasc::Element::kBFloat16;
  const auto pack = [&](const std::vector<T>& from, int64_t k) {
    return tasc::PackedMatrix(from.data(), element, static_cast<int64_t>(from.size()) / k, k, nullptr);
  };
  const auto q = pack(w.q, kHidden), k = pack(w.k, kHidden), v = pack(w.v, kHidden), o = pack(w.o, kHeads * d),
             gate = pack(w.gate, kHidden), up = pack(w.up, kHidden), down = pack(w.down, kInner),
             other_q = pack(other.q, kHidden);
  const tasc::LayerParts parts{&q, &k, &v, &o, &gate, &up, &down, w.norm.data(), w.mlp_norm.data(), nullptr, nullptr,
                               1e-5f, d};
  std::vector<tasc::LayerParts> layers{parts, parts};
  layers[1].query = &other_q;
  constexpr int64_t kSequences = 5, kCapacity = 9, kFirst = 1, kStart = 3;
  int64_t rows = 0, longest = 0;
  for (const int64_t size : sizes) rows += size, longest = std::max(longest, size);
  const int64_t seen = kStart + longest, plane = kCapacity * d;
  auto x = some<T>(rows * kHidden), cache = some<T>(2 * 2 * kSequences * plane);
  const auto inputs = x, before = cache, cos = some<T>(d), sin = some<T>(d);
  std::vector<uint8_t> mask(sizes.size() * static_cast<size_t>(longest * seen));
  for (size_t i = 0; i < mask.size(); ++i) {
    const auto key = static_cast<int64_t>(i) % seen, query = static_cast<int64_t>(i) / seen % longest;
    mask[i] = key == kStart + query || (key < kStart + query && rng() % 2);
  }
  const uint8_t* given = masked ? mask.data() : nullptr;
  tasc::Decoder(layers, 0.3f).run(x.data(), sizes, std::vector<tasc::Rotation>(2, {cos.data(), sin.data()}), 1,
                                  {cache.data(), kSequences, kCapacity, kFirst, kStart}, {given, given}, &pool);
  int64_t row = 0;
  for (size_t sequence = 0; sequence < sizes.size(); ++sequence) {
    const auto half = [&](int64_t which) {  // keys or values of a layer, of this sequence
      return (which * kSequences + kFirst + static_cast<int64_t>(sequence)) * plane;
    };
    std::vector<T> own, alone(inputs.begin() + row * kHidden, inputs.begin() + (row + sizes[sequence]) * kHidden);
    for (int64_t which = 0; which < 4; ++which)
      own.insert(own.end(), before.begin() + half(which), before.begin() + half(which) + plane);
    run_alone(layers, alone, cos.data(), sin.data(), own, kCapacity, kStart,
              given ? given + static_cast<int64_t>(sequence) * longest * seen : nullptr, seen);
    assert(std::equal(alone.begin(), alone.end(), x.begin() + row * kHidden));
    for (int64_t which = 0; which < 4; ++which)
      assert(std::equal(own.begin() + which * plane, own.begin() + (which + 1) * plane, cache.begin() + half(which)));
    row += sizes[sequence];
  }
  layers[1].key = &q;  // more keys than in layer 0
  bool refused = false;
  try {
    tasc::Decoder(layers, 0.3f);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  assert(refused);
}

}  // namespace

int main() {
  tasc::ThreadPool pool(3, std::chrono::microseconds(50));
  for (const auto* instructions : kInstructions) {
    if (!tasc::use_dense_instructions(instructions)) continue;
    for (const int64_t d : {8, 16, 64})
      for (const bool other : {false, true}) {
        for (const bool gemma : {false, true}) {
          check<float>(d, other, gemma, pool);
          check<uint16_t>(d, other, gemma, pool);
        }
        for (const auto& sizes : {std::vector<int64_t>{2, 5, 1}, std::vector<int64_t>{3, 3}}) {
          check_decoder<float>(d, sizes, other, pool);
          check_decoder<uint16_t>(d, sizes, other, pool);
        }
      }
  }
}
