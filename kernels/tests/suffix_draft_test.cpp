#include "tasc/suffix_draft.h"

#include <cassert>
#include <random>
#include <vector>

using tasc::SuffixArray;
using tasc::SuffixDrafter;

int main() {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 1, 2, 3, 5, 6, 2, 3, 5};
  const std::vector<int64_t> offsets = {0, 4, 8, 12};
  const SuffixArray corpus(tokens, offsets, 50);
  assert(!corpus.check_integrity());
  assert(corpus.find(std::vector<int32_t>{2, 3}).end - corpus.find(std::vector<int32_t>{2, 3}).begin == 3);
  assert(corpus.find(std::vector<int32_t>{4, 1}).length == 0);  // samples are apart
  SuffixDrafter drafter(corpus, 16, 0, 0, 50);
  drafter.start(std::vector<int32_t>{9, 2, 3});
  const auto tree = drafter.draft(4);  // after (2, 3): 5 twice, 4 once
  assert((tree.tokens == std::vector<int32_t>{5, 50, 4, 50}));
  assert((tree.parents == std::vector<int32_t>{-1, 0, -1, 2}));
  SuffixDrafter narrow(corpus, 16, 0, 1, 50);
  narrow.start(std::vector<int32_t>{9, 2, 3});
  assert(narrow.draft(4).tokens == (std::vector<int32_t>{5, 50}));  // a chain ends with its sample
  drafter.start(std::vector<int32_t>{7, 8, 9, 7, 8});  // only the sequence itself knows
  assert(drafter.draft(2).tokens == (std::vector<int32_t>{9, 7}));

  assert(!SuffixArray(std::vector<int32_t>{-1, 4, INT32_MAX, -2}, std::vector<int64_t>{0, 4}, 50).check_integrity());

  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<int32_t> text;
    std::vector<int64_t> ends = {0};
    for (int s = 0; s < 30; ++s) {
      for (unsigned n = random() % 90; n > 0; --n) text.push_back(static_cast<int32_t>(random() % (round % 2 ? 2 : 6)));
      ends.push_back(static_cast<int64_t>(text.size()));
    }
    const SuffixArray any(text, ends, 50);
    assert(!any.check_integrity());
    SuffixDrafter mixed(any, 24, 0, 0, 50);
    mixed.start(std::vector<int32_t>{1, 50, 1});
    for (int i = 0; i < 100; ++i) {
      mixed.append(static_cast<int32_t>(random() % 6));
      const auto drafted = mixed.draft(20);
      for (size_t k = 0; k < drafted.tokens.size(); ++k) assert(drafted.parents[k] < static_cast<int>(k));
    }
  }
}
