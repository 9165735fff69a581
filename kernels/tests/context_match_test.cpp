#include "tasc/context_match.h"

#include <cassert>
#include <random>
#include <stdexcept>
#include <vector>

using tasc::NgramTrie;
using tasc::prompt_lookup;

int main() {
  using Range = std::pair<size_t, size_t>;
  const std::vector<int32_t> text = {1, 2, 3, 4, 1, 2, 5, 1, 2};
  assert((prompt_lookup(text, 2, SIZE_MAX) == Range{2, 9}));  // as much as there is
  assert((prompt_lookup(text, 2, 2) == Range{2, 4}));   // the first position, not the last
  assert((prompt_lookup(text, 3, 20) == Range{2, 9}));  // no 3-gram stands twice
  assert((prompt_lookup(std::vector<int32_t>{7, 7}, 2, 5) == Range{1, 2}));
  assert((prompt_lookup(std::vector<int32_t>{1, 2}, 2, 5) == Range{0, 0}));
  assert((prompt_lookup(std::vector<int32_t>{}, 2, 5) == Range{0, 0}));

  NgramTrie trie(4, 2);
  trie.build(text);
  const auto tree = trie.draft(text, 3, 60);  // after (1, 2): 3 4 1, 5 1 2
  assert(tree.tokens.size() == 3 && tree.parents[0] == -1);
  assert(trie.draft(text, 60, 1).tokens.size() == 1);
  assert(trie.draft(std::vector<int32_t>{8}, 9, 9).tokens.empty());

  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> context;
    for (unsigned n = random() % 60; n > 0; --n) context.push_back(static_cast<int32_t>(random() % 4));
    NgramTrie any(2 + static_cast<int>(random() % 9), 1);
    any.build(context);
    const auto drafted = any.draft(context, 1 + static_cast<int>(random() % 20), 12);
    for (size_t i = 0; i < drafted.tokens.size(); ++i) {
      assert(drafted.parents[i] < static_cast<int>(i));
      if (drafted.parents[i] >= 0) assert(drafted.probabilities[i] <= drafted.probabilities[drafted.parents[i]]);
    }
    prompt_lookup(context, 1 + round % 4, random() % 12);
  }
  bool refused = false;
  try {
    NgramTrie(3, 3);
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  assert(refused);
}
