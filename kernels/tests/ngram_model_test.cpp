#include "tasc/ngram_model.h"

#include <cassert>
#include <random>
#include <stdexcept>
#include <vector>

using tasc::DraftOptions;
using tasc::LocalTable;
using tasc::NgramIndex;

namespace {

template <class F>
bool refuses(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  const std::vector<int32_t> tokens = {9, 1, 2, 3, 9, 1, 2, 4};
  const std::vector<int64_t> offsets = {0, 4, 8}, weights = {3, 1};
  const NgramIndex index(tokens, offsets, weights, 3, 1);
  assert(!index.check_integrity());
  std::vector<uint64_t> keys;

  tasc::context_keys(std::vector<int32_t>{1, 2}, 3, keys);
  const auto hit = index.find(keys);
  assert(hit.items.size() == 2 && hit.total == 4);
  assert(hit.items[0].token == 3 && hit.items[0].count == 3 && hit.items[1].token == 4);

  tasc::context_keys(std::vector<int32_t>{5, 2}, 3, keys);  // backs off to context (2)
  assert(index.find(keys).total == 4);
  tasc::context_keys(std::vector<int32_t>{5}, 3, keys);
  assert(!index.find(keys));
  tasc::context_keys(std::vector<int32_t>{3}, 3, keys);  // contexts never cross samples
  assert(!index.find(keys));
  assert(index.tokens() == 12 && index.most_frequent().token == 1);

  const NgramIndex pruned(tokens, offsets, weights, 3, 2);
  tasc::context_keys(std::vector<int32_t>{1, 2}, 3, keys);
  assert(pruned.find(keys).items.size() == 1 && pruned.find(keys).total == 3);

  LocalTable local(3);
  for (const int32_t t : {9}) local.append(t);
  const auto tree = tasc::draft_tree(index, local, DraftOptions{0.75, 4, 0, 0.0, -1});
  assert((tree.tokens == std::vector<int32_t>{1, 2, 3, 4}));
  assert((tree.parents == std::vector<int32_t>{-1, 0, 1, 1}));
  const auto chain = tasc::draft_tree(index, local, DraftOptions{0.75, 3, 1, 0.0, 3});
  assert((chain.parents == std::vector<int32_t>{-1, 0, 1}));
  assert(tasc::draft_tree(index, local, DraftOptions{0.75, 0, 0, 0.0, -1}).tokens.empty());

  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> text;
    std::vector<int64_t> ends = {0}, ones;
    for (int s = 0; s < 20; ++s) {
      for (unsigned n = random() % 12; n > 0; --n) text.push_back(static_cast<int32_t>(random() % 5));
      ends.push_back(static_cast<int64_t>(text.size()));
      ones.push_back(1 + random() % 3);
    }
    const NgramIndex any(text, ends, ones, 4, 1 + round % 3);
    assert(!any.check_integrity());
    LocalTable seen(4);
    for (int i = 0; i < 30; ++i) seen.append(static_cast<int32_t>(random() % 5));
    const auto drafted = tasc::draft_tree(any, seen, DraftOptions{0.6, 24, 0, 0.0, -1});
    for (size_t i = 0; i < drafted.tokens.size(); ++i) {
      const int p = drafted.parents[i];
      assert(p < static_cast<int>(i));
      if (p >= 0) assert(drafted.probabilities[i] <= drafted.probabilities[p] + 1e-6f);
    }
  }

  const std::vector<int64_t> falling = {0, 5, 3, 8}, short_weights = {1};
  assert(refuses([&] { NgramIndex(tokens, falling, weights, 3, 1); }));
  assert(refuses([&] { NgramIndex(tokens, offsets, short_weights, 3, 1); }));
  assert(refuses([&] { NgramIndex(tokens, offsets, weights, 0, 1); }));
}
