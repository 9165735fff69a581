// Trees of any parents, verified on any logits and judged by any claims; caches moved by any moves.
#include <algorithm>
#include <cmath>
#include <vector>

#include "fuzz.h"
#include "tasc/acceptance.h"
#include "tasc/argmax.h"
#include "tasc/compact.h"
#include "tasc/rejection.h"

namespace {

using Ids = std::vector<int32_t>;

std::vector<float> floats(FuzzedDataProvider& from, size_t count) {
  constexpr float kBorders[] = {-INFINITY, INFINITY, NAN, 0, 1, -1, 3e38f, 1e-42f};
  std::vector<float> values(count);
  for (float& value : values) value = kBorders[from.ConsumeIntegralInRange<int>(0, 7)];
  return values;
}

// What a verification says: refused, or a path down the tree and a token.
void check(const Ids& result, const Ids& parents, int64_t size) {
  if (result[0] < 0) return;
  int32_t at = -1;
  for (int32_t k = 0; k < result[0]; ++k) {
    hold(result[2 + k] >= 0 && parents[result[2 + k]] == at);
    at = result[2 + k];
  }
  hold(result[1] >= 0 && result[1] < size);
}

void verify(FuzzedDataProvider& from, const Ids& tokens, const Ids& parents) {
  const auto n = static_cast<int>(parents.size());
  const int64_t size = from.ConsumeBool() ? 3 : 1100;  // more and less than slices
  const tasc::Tree tree{tokens.data(), parents.data(), n};
  const auto some = floats(from, 3);
  std::vector<float> logits((n + 1) * size, some[0]), distributions(2 * size, some[1]), scratch(size);
  for (size_t i = 0; i < 8; ++i) logits[from.ConsumeIntegralInRange<size_t>(0, logits.size() - 1)] = floats(from, 1)[0];
  for (size_t i = 0; i < 3; ++i) distributions[from.ConsumeIntegralInRange<size_t>(0, distributions.size() - 1)] = floats(from, 1)[0];
  const auto distribution_of = numbers<int32_t>(from, parents.size() + 1, -2, 2);
  const float temperature = from.ConsumeBool() ? 0.7f : std::abs(some[2]);
  std::vector<double> uniforms(n + 1);
  for (double& uniform : uniforms) uniform = from.ConsumeProbability<double>() * 0.999;
  Ids result(n + 2);
  tasc::Workspace work;
  tasc::verify_greedy(logits.data(), size, tree, result.data());
  check(result, parents, size);
  Ids best(2);
  tasc::top(logits.data(), size, 2, best.data());
  if (!tasc::divides(temperature)) return;  // as the binding says
  tasc::verify_sampled(tasc::OneLane{}, logits.data(), size, tree, 1 / temperature, uniforms.data(), work, result.data());
  check(result, parents, size);
  const tasc::Proposals proposals{distributions.data(), 2, distribution_of.data(), from.ConsumeBool()};
  tasc::verify_rejection(tasc::OneLane{}, logits.data(), size, tree, proposals, 1 / temperature, uniforms.data(),
                         scratch.data(), work, result.data());
  check(result, parents, size);
}

void judge(FuzzedDataProvider& from, const Ids& tokens, const Ids& parents) {
  tasc::Acceptance acceptance;
  const auto claims = floats(from, from.ConsumeBool() ? parents.size() : 0);
  const tasc::DraftView draft{tokens, parents, claims};
  acceptance.learn(draft, numbers<int32_t>(from, from.ConsumeIntegralInRange<size_t>(0, 4), 0, 3));
  const std::vector<double> extra(parents.size() + 1, 0.1);
  for (const double p : acceptance.estimate(draft)) hold(p >= 0 && p <= 1);
  for (const int32_t node : acceptance.worthwhile(draft, {extra, 1, 0.01, 1})) hold(node >= 0 && node < static_cast<int32_t>(parents.size()));
}

void read(const Ids& tokens, const Ids& parents, int n) {
  const int words = tasc::words_for(n);
  std::vector<uint64_t> bits(static_cast<size_t>(n) * words);
  Ids depths(n), path(n), best(n + 1, 1);
  tasc::ancestor_bits(parents.data(), n, words, bits.data(), depths.data());
  hold(tasc::greedy_path(tokens.data(), parents.data(), best.data(), n, path.data()) <= n);
}

void move(FuzzedDataProvider& from) {
  const int64_t rows = 2, positions = 6, words = 3;
  std::vector<tasc::Move> moves(from.ConsumeIntegralInRange<size_t>(0, 5));
  for (tasc::Move& m : moves)
    m = {from.ConsumeIntegralInRange<int32_t>(-1, 2), from.ConsumeIntegralInRange<int32_t>(-1, 6), from.ConsumeIntegralInRange<int32_t>(-1, 6)};
  const auto count = static_cast<int>(moves.size());
  if (tasc::first_bad_move(moves.data(), count, rows, positions) >= 0) return;
  std::vector<uint8_t> block(positions * words);
  for (int64_t row = 0; row < rows; ++row) tasc::compact(tasc::OneLane{}, block.data(), words, row, moves.data(), count);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider from(data, size);
  move(from);
  const auto n = from.ConsumeIntegralInRange<int32_t>(0, 70);  // more than a word of bits
  const bool any = from.ConsumeBool();
  Ids parents, tokens;
  for (int32_t i = 0; i < n; ++i) {
    parents.push_back(any ? from.ConsumeIntegralInRange<int32_t>(-2, n) : from.ConsumeIntegralInRange<int32_t>(-1, i - 1));
    tokens.push_back(from.ConsumeIntegralInRange<int32_t>(-1, 3));
  }
  verify(from, tokens, parents);  // checks the parents itself
  if (tasc::first_bad_parent(parents.data(), n) >= 0) return 0;
  read(tokens, parents, n);
  judge(from, tokens, parents);
  return 0;
}
