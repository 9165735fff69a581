// Drafters and tables fed with any sequences: whatever was seen, a draft is a tree, and soon there.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "fuzz.h"
#include "tasc/context_match.h"
#include "tasc/ngram_draft.h"
#include "tasc/suffix_draft.h"
#include "tasc/window_vocab.h"

namespace {

using Ids = std::vector<int32_t>;

void check(const tasc::DraftTree& tree, int budget) {
  hold(static_cast<int>(tree.tokens.size()) <= std::max(budget, 0) && tree.parents.size() == tree.tokens.size());
  for (size_t i = 0; i < tree.parents.size(); ++i) {
    hold(tree.parents[i] >= -1 && tree.parents[i] < static_cast<int32_t>(i));
    hold(std::isfinite(tree.probabilities[i]));
  }
}

void suffixes(FuzzedDataProvider& from, const Ids& tokens, const Ids& sequence, int budget) {
  const auto offsets = offsets_over(from, tokens.size(), from.ConsumeIntegralInRange<size_t>(1, 4));
  const tasc::SuffixArray corpus(tokens, offsets, from.ConsumeIntegralInRange<int32_t>(-1, 9));
  hold(!corpus.check_integrity());
  tasc::SuffixDrafter drafter(corpus, from.ConsumeIntegralInRange<int>(-1, 64), 0.1, from.ConsumeIntegralInRange<int>(0, 2), 7);
  drafter.start(sequence);
  for (size_t i = 0; i < tokens.size(); ++i) {
    drafter.append(tokens[i]);
    if (i % 8 == 0) check(drafter.draft(budget), budget);
  }
}

void contexts(FuzzedDataProvider& from, const Ids& tokens, const Ids& sequence, int budget) {
  const auto [begin, end] = tasc::prompt_lookup(sequence, from.ConsumeIntegralInRange<int>(-1, 70), from.ConsumeIntegral<size_t>());
  hold(begin <= end && end <= sequence.size());
  tasc::LookupDrafter lookup(from.ConsumeIntegralInRange<int>(-1, 70), from.ConsumeIntegralInRange<int>(-1, 9), 7);
  lookup.start(sequence);
  check(lookup.draft(budget), budget);
  tasc::NgramTrie trie(from.ConsumeIntegralInRange<int>(-1, 12), from.ConsumeIntegralInRange<int>(-1, 12));
  trie.build(tokens);
  check(trie.draft(sequence, from.ConsumeIntegralInRange<int>(-1, 99), budget), budget);
}

void tables(FuzzedDataProvider& from, const Ids& tokens, const Ids& sequence, int budget) {
  tasc::NgramTable memory(from.ConsumeIntegralInRange<int>(-1, 64));
  const bool prompt = from.ConsumeBool(), match = from.ConsumeBool();
  const auto lambda = from.ConsumeProbability<double>(), gain = from.ConsumeProbability<double>() * 10;
  tasc::SourceWeights weights(0, true, prompt, lambda, gain, match);
  tasc::NgramDrafter drafter({}, &memory, from.ConsumeBool() ? &weights : nullptr, prompt,
                             from.ConsumeIntegralInRange<int>(0, 16),
                             {lambda, gain, from.ConsumeProbability<double>(), from.ConsumeIntegralInRange<int>(0, 3),
                              from.ConsumeProbability<double>(), match, true, 7});
  for (const int32_t token : tokens) memory.append(token);
  drafter.start(sequence, from.ConsumeBool());
  for (size_t i = 0; i < sequence.size(); ++i) {
    if (i % 8 == 0) check(drafter.draft(budget), budget);
    drafter.append(sequence[i]);
    if (i == 5) memory.clear();
  }
  hold(!memory.check_integrity() && !drafter.local().check_integrity());
}

// Any tokens pass through a window; its arrays are its own.
void window(FuzzedDataProvider& from) {
  const auto size = from.ConsumeIntegralInRange<int32_t>(1, 9), vocabulary = from.ConsumeIntegralInRange<int32_t>(1, 9);
  Ids ring(size), counts(vocabulary), slots(vocabulary, -1), marks(vocabulary, tasc::kNobody), ids(size, -1), free(size),
      state(tasc::kWindowStates), held(size, -1);
  const tasc::WindowVocab view{vocabulary,  size,       ring.data(), counts.data(), slots.data(),
                               marks.data(), ids.data(), free.data(), state.data()};
  std::vector<uint8_t> weight(3 * vocabulary), buffer(3 * size);
  tasc::Ranks ranks;
  while (from.remaining_bytes()) {
    const auto tokens = numbers<int32_t>(from, from.ConsumeIntegralInRange<size_t>(0, 20), -2, 11);
    tasc::push(tasc::OneLane{}, view, tokens.data(), static_cast<int32_t>(tokens.size()), from.ConsumeBool(), ranks);
    tasc::gather(tasc::OneLane{}, 0, 1, weight.data(), 3, ids.data(), held.data(), size, buffer.data());
    int32_t total = 0;
    for (const int32_t count : counts) hold(count >= 0), total += count;
    hold(total == state[tasc::kLength] && total <= size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider from(data, size);
  const int kind = from.ConsumeIntegralInRange<int>(0, 3);
  if (kind == 3) return window(from), 0;
  const int budget = from.ConsumeIntegralInRange<int>(-1, 40);
  const int32_t low = from.ConsumeBool() ? 0 : -2, high = from.ConsumeBool() ? 4 : INT32_MAX;
  const auto tokens = numbers<int32_t>(from, from.ConsumeIntegralInRange<size_t>(0, 40), low, high);
  const auto sequence = numbers<int32_t>(from, from.ConsumeIntegralInRange<size_t>(0, 40), low, high);
  constexpr void (*kKinds[])(FuzzedDataProvider&, const Ids&, const Ids&, int) = {suffixes, contexts, tables};
  try {
    kKinds[kind](from, tokens, sequence, budget);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
