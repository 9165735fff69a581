#undef NDEBUG
#include "tasc/merge_search.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Ids = std::vector<int32_t>;

// Owns what a MergeInput points at.
struct Corpus {
  std::vector<Ids> samples;
  std::vector<std::string> vocabulary;
  std::vector<int64_t> weights;
  Ids special = {};
  std::vector<uint8_t> boundaries = {};
  Ids tokens = {};
  std::vector<int64_t> offsets = {0}, ends = {0};
  std::vector<uint8_t> strings = {};

  tasc::MergeInput input() {
    for (const Ids& sample : samples) {
      tokens.insert(tokens.end(), sample.begin(), sample.end());
      offsets.push_back(static_cast<int64_t>(tokens.size()));
    }
    for (const std::string& text : vocabulary) {
      strings.insert(strings.end(), text.begin(), text.end());
      ends.push_back(static_cast<int64_t>(strings.size()));
    }
    return {tokens, offsets, weights, strings, ends, special, boundaries};
  }
};

tasc::MergeOptions options(int64_t budget, int n_max = 4, double alpha = 2) {
  return {.budget = budget, .n_max = n_max, .alpha = alpha};
}

template <class Change>
bool refused(Change change) {
  Corpus corpus{{{0, 1, 0}, {1}}, {"a", "b"}, {1, 2}};
  tasc::MergeInput input = corpus.input();
  tasc::MergeOptions wanted = options(3);
  change(input, wanted);
  try {
    tasc::merge_search(input, wanted);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

void malformed_input_is_refused() {
  using In = tasc::MergeInput;
  using Op = tasc::MergeOptions;
  const std::vector<int64_t> falling{0, 4, 3, 4}, late{1, 3, 4}, shorter{0, 3}, none{}, zero{0, 1};
  const std::vector<int64_t> huge{int64_t{1} << 31, 1}, three{1, 1, 1};
  const std::vector<uint8_t> flag{1};
  const Ids outside{0, 1, 2, 1}, negative{0, -1, 0, 1}, far{2};
  assert(!refused([](In&, Op&) {}));
  assert(refused([&](In& in, Op&) { in.offsets = falling, in.weights = three; }));
  assert(refused([&](In& in, Op&) { in.offsets = late; }));
  assert(refused([&](In& in, Op&) { in.offsets = shorter; }));
  assert(refused([&](In& in, Op&) { in.offsets = none; }));
  assert(refused([&](In& in, Op&) { in.weights = zero; }));
  assert(refused([&](In& in, Op&) { in.weights = huge; }));
  assert(refused([&](In& in, Op&) { in.weights = three; }));
  assert(refused([&](In& in, Op&) { in.tokens = outside; }));
  assert(refused([&](In& in, Op&) { in.tokens = negative; }));
  assert(refused([&](In& in, Op&) { in.special = far; }));
  assert(refused([&](In& in, Op&) { in.boundaries = flag; }));
  assert(refused([&](In& in, Op&) { in.string_ends = none; }));
  assert(refused([&](In& in, Op&) { in.string_ends = falling; }));
  assert(refused([](In&, Op& op) { op.n_max = 1; }));
  assert(refused([](In&, Op& op) { op.n_max = 17; }));
  assert(refused([](In&, Op& op) { op.budget = -1; }));
  assert(refused([](In&, Op& op) { op.budget = std::numeric_limits<int64_t>::max() / 2; }));
  assert(refused([](In&, Op& op) { op.min_frequency = 0; }));
  assert(refused([](In&, Op& op) { op.alpha = std::nan(""); }));
}

// Left-to-right replacement in plain vectors; returns the weighted count.
int64_t replace_slowly(std::vector<Ids>& samples, const std::vector<int64_t>& weights,
                       const Ids& ngram, int32_t id) {
  int64_t count = 0;
  for (size_t s = 0; s < samples.size(); ++s) {
    Ids out;
    for (size_t i = 0; i < samples[s].size();) {
      const auto at = samples[s].begin() + static_cast<std::ptrdiff_t>(i);
      const bool here = samples[s].size() - i >= ngram.size() && std::equal(ngram.begin(), ngram.end(), at);
      out.push_back(here ? id : samples[s][i]);
      count += here ? weights[s] : 0;
      i += here ? ngram.size() : 1;
    }
    samples[s] = out;
  }
  return count;
}

void merges_replay_to_the_reported_counts() {
  std::mt19937 rng(3);
  for (int round = 0; round < 150; ++round) {
    Corpus corpus{{}, {"a", "b", "ab", "ba", ""}, {}};
    for (int s = 0; s < 8; ++s) {
      Ids sample(rng() % 40);
      for (int32_t& token : sample) token = static_cast<int32_t>(rng() % (2 + round % 4));
      corpus.samples.push_back(sample);
      corpus.weights.push_back(1 + rng() % 3);
    }
    const auto found = tasc::merge_search(corpus.input(), options(60, 2 + round % 4));
    auto samples = corpus.samples;
    size_t alias = 0;
    const auto replay_aliases = [&](size_t after) {
      for (; alias < found.aliases.size() && found.aliases[alias].after == int64_t(after); ++alias) {
        const auto& again = found.aliases[alias];
        assert(replace_slowly(samples, corpus.weights, again.ids, again.new_id) > 0);
      }
    };
    for (size_t k = 0; k < found.merges.size(); ++k) {
      replay_aliases(k);
      const auto& merge = found.merges[k];
      assert(merge.new_id == int32_t(5 + k));
      assert(replace_slowly(samples, corpus.weights, merge.ids, merge.new_id) == merge.frequency);
      int64_t tokens = 0;
      for (size_t s = 0; s < samples.size(); ++s) tokens += corpus.weights[s] * int64_t(samples[s].size());
      assert(tokens == merge.tokens);
    }
  }
}

void callbacks_are_heard_and_end_the_search() {
  Corpus corpus{{{0, 1, 0, 1, 0, 1}}, {"a", "b"}, {1}};
  const auto input = corpus.input();
  const auto none = tasc::merge_search(input, options(9), [](std::string_view) { return false; });
  assert(none.merges.empty() && none.refused > 0 && none.tokens_after == none.tokens_before);
  bool thrown = false;
  try {
    tasc::merge_search(input, options(9), {}, [](int64_t) { throw std::runtime_error("stop"); });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  assert(thrown);
}

void pcs_counts_strict_extensions_of_base_and_added_tokens() {
  // 0 "a", 1 "b", 2 "c": "ab" is added first; then it extends "a", the last token of (2, 0).
  Corpus corpus{{{0, 1}, {0, 1}, {0, 1}, {2, 0}, {2, 0}}, {"a", "b", "c"}, {1, 1, 1, 1, 1}};
  const auto found = tasc::merge_search(corpus.input(), options(9));
  assert(found.merges.size() == 2 && found.merges[0].text == "ab" && found.merges[0].pcs == 0);
  assert(found.merges[1].text == "ca" && std::abs(found.merges[1].pcs - 3.0 / 7) < 1e-12);
}

}  // namespace

int main() {
  malformed_input_is_refused();
  merges_replay_to_the_reported_counts();
  callbacks_are_heard_and_end_the_search();
  pcs_counts_strict_extensions_of_base_and_added_tokens();
}
