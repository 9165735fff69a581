// The merge search over any corpus and vocabulary: arrays are refused, or the outcome adds up.
#include <cmath>
#include <stdexcept>
#include <vector>

#include "fuzz.h"
#include "tasc/merge_search.h"

namespace {

void check(const tasc::MergeOutcome& found, const tasc::MergeOptions& options, int64_t size) {
  hold(static_cast<int64_t>(found.merges.size()) <= options.budget);
  int64_t tokens = found.tokens_before, id = size;
  size_t alias = 0;
  const auto replay_aliases = [&](size_t after) {
    for (; alias < found.aliases.size() && found.aliases[alias].after == static_cast<int64_t>(after); ++alias)
      tokens -= found.aliases[alias].frequency * static_cast<int64_t>(found.aliases[alias].ids.size() - 1);
  };
  for (size_t k = 0; k < found.merges.size(); ++k) {
    const tasc::MergeRecord& merge = found.merges[k];
    replay_aliases(k);
    tokens -= merge.frequency * static_cast<int64_t>(merge.ids.size() - 1);
    hold(merge.new_id == id++ && merge.frequency >= options.min_frequency && merge.tokens == tokens);
    hold(merge.inner >= 0 && merge.inner <= merge.frequency && merge.pcs >= 0 && merge.pcs <= 1);
    hold(std::isfinite(merge.h1) && std::isfinite(merge.h2));
    for (const int32_t part : merge.ids) hold(part >= 0 && part < merge.new_id);
  }
  replay_aliases(found.merges.size());
  hold(tokens == found.tokens_after && alias == found.aliases.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider from(data, size);
  const auto vocabulary = from.ConsumeIntegralInRange<int32_t>(0, 8);
  std::vector<uint8_t> strings;
  std::vector<int64_t> ends = {0};
  for (int32_t id = 0; id < vocabulary; ++id) {
    for (size_t n = from.ConsumeIntegralInRange<size_t>(0, 3); n > 0; --n) strings.push_back(from.ConsumeIntegralInRange<uint8_t>(97, 99));
    ends.push_back(static_cast<int64_t>(strings.size()));
  }
  const tasc::MergeOptions options{from.ConsumeIntegralInRange<int64_t>(-1, 12), from.ConsumeIntegralInRange<int>(1, 17),
                                   from.ConsumeBool() ? 2.0 : 0.3,          from.ConsumeBool(),
                                   from.ConsumeIntegralInRange<int64_t>(0, 3), from.ConsumeIntegralInRange<int64_t>(0, 4)};
  const bool bounded = from.ConsumeBool();
  const auto special = numbers<int32_t>(from, from.ConsumeIntegralInRange<size_t>(0, 2), -1, vocabulary);
  const int64_t heaviest = from.ConsumeBool() ? 3 : int64_t{1} << 31;
  const size_t samples = from.ConsumeIntegralInRange<size_t>(1, 4);
  const auto weights = numbers<int64_t>(from, samples, from.ConsumeBool(), heaviest);
  const auto tokens = numbers<int32_t>(from, from.ConsumeIntegralInRange<size_t>(0, 96), 0, vocabulary);
  const auto offsets = offsets_over(from, tokens.size(), samples);
  const auto boundaries = numbers<uint8_t>(from, bounded ? tokens.size() : 0, 0, 1);
  try {
    check(tasc::merge_search({tokens, offsets, weights, strings, ends, special, boundaries}, options), options, vocabulary);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
