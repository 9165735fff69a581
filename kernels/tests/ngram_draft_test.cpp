#include "tasc/ngram_draft.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using tasc::DraftOptions;
using tasc::NgramDrafter;
using tasc::NgramIndex;
using tasc::NgramOptions;
using tasc::NgramTable;
using tasc::SourceWeights;

namespace {

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

constexpr int32_t kEnd = 50;

}  // namespace

int main() {
  // 1 2 3 three times, 1 2 4 once; nothing is discounted, so the longest context decides alone.
  const std::vector<int32_t> tokens = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 4};
  const std::vector<int64_t> offsets = {0, 3, 6, 9, 12};
  const NgramIndex plain(tokens, offsets, {3, 0, 0, 1, kEnd, true});
  assert(!plain.check_integrity());
  DraftOptions options{0.75, 0, 0, 0, 0, false, true, kEnd};
  NgramDrafter drafter({&plain}, nullptr, nullptr, true, 3, options);
  drafter.start({}, true);
  const auto tree = drafter.draft(6);
  assert((tree.tokens == std::vector<int32_t>{1, 2, 3, 4}));
  assert((tree.parents == std::vector<int32_t>{-1, 0, 1, 1}));
  assert(std::abs(tree.probabilities[2] - 0.75) < 0.01 && std::abs(tree.probabilities[3] - 0.25) < 0.01);
  assert(drafter.draft(0).tokens.empty());
  drafter.append(2);  // 2 was never first: back-off to the context (2)
  assert(drafter.distribution().front().token == 3);
  drafter.append(49);  // unknown: the most frequent token
  assert(drafter.distribution().front().token == 1);
  NgramDrafter silent({&plain}, nullptr, nullptr, true, 3, {0.75, 0, 0, 0, 0, false, false, kEnd});
  silent.start(std::vector<int32_t>{49}, false);
  assert(silent.draft(5).tokens.empty());

  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<int32_t> text;
    std::vector<int64_t> ends = {0};
    for (int s = 0; s < 40; ++s) {
      for (unsigned n = random() % 12; n > 0; --n) text.push_back(static_cast<int32_t>(random() % (round % 2 ? 5 : 49)));
      ends.push_back(static_cast<int64_t>(text.size()));
    }
    const NgramIndex any(text, ends, {1 + round % 6, 0.8, 1.0, 1 + round % 3, kEnd, round % 5 != 0});
    assert(!any.check_integrity());
    const std::vector<uint64_t> copy(any.block().begin(), any.block().end());
    const NgramIndex again(copy);
    NgramTable memory(4);
    SourceWeights weights(2, true, true, 0.6, 0.5, true);
    NgramDrafter mixed({&any, &again}, &memory, &weights, true, 4, {0.6, 0.5, 0.7, 0, 0.0, true, true, kEnd});
    mixed.start(std::vector<int32_t>{1, 2, 3}, true);
    for (int i = 0; i < 60; ++i) {
      mixed.append(static_cast<int32_t>(random() % 49));
      if (i % 9 == 0) memory.begin(), memory.append(-2), memory.append(3), memory.append(4);
      if (i == 40) memory.clear();
      const auto drafted = mixed.draft(24);
      for (size_t k = 0; k < drafted.tokens.size(); ++k) {
        const int p = drafted.parents[k];
        assert(p < static_cast<int>(k));
        if (k) assert(drafted.probabilities[k] <= drafted.probabilities[k - 1] + 1e-6f);
        assert(drafted.tokens[k] != kEnd);
      }
      assert(!mixed.local().check_integrity() && !memory.check_integrity());
    }
    // A damaged block is refused or harmless: nothing outside it is read.
    for (int flip = 0; flip < 20; ++flip) {
      std::vector<uint64_t> damaged = copy;
      damaged[random() % damaged.size()] ^= uint64_t{1} << random() % 64;
      refusal([&] {
        const NgramIndex index(damaged);
        NgramDrafter reader({&index}, nullptr, nullptr, true, 4, {0.6, 0.5, 0.7, 0, 0.0, true, true, kEnd});
        reader.start(std::vector<int32_t>{1, 2, 3, 4}, true);
        for (int i = 0; i < 8; ++i) reader.draft(24), reader.append(static_cast<int32_t>(random() % 5));
      });
    }
  }

  // Contexts are spread over the slots, also where few tokens make many contexts.
  for (const int n_max : {4, 15, 63}) {
    for (const unsigned ids : {1u, 2u, 4u, 1000u}) {
      NgramTable table(n_max);
      for (int i = 0; i < 500; ++i) table.append(static_cast<int32_t>(random() % ids));
      assert(table.mean_probes() >= 1 && table.mean_probes() < 2);  // 1.5 at half a load
    }
  }

  // A forged block: the header is asked when it is opened, all else where it is followed.
  const auto with = [&](size_t word, uint64_t value) {
    std::vector<uint64_t> block(plain.block().begin(), plain.block().end());
    block[word] = value;
    return block;
  };
  const auto forged = [&](size_t word, uint64_t value) {
    const std::vector<uint64_t> block = with(word, value);
    return refusal([&] { NgramIndex index(block); });
  };
  const auto broken = [&](size_t word, uint64_t value) {
    const std::vector<uint64_t> block = with(word, value);
    const NgramIndex index(block);
    NgramDrafter reader({&index}, nullptr, nullptr, true, 3, options);
    reader.start({}, true);
    for (const int32_t token : reader.draft(9).tokens) reader.append(token);
    return std::string(index.check_integrity());
  };
  constexpr size_t kDiscount = 4, kStrength = 5, kLengthAndEnd = 6, kMarkAndVocabulary = 7, kText = 8;
  const size_t contexts = plain.block().size() - plain.contexts() - 1, entries = contexts - plain.entries();
  assert(broken(contexts + 1, 0xFFFFFFFF).find("follow each other") != std::string::npos);
  assert(broken(contexts + 2, 0x03FFFFFF00000000 | plain.entries()).find("follow each other") != std::string::npos);
  assert(broken(entries, 0x7FFFFFFF00000001).find("leads to") != std::string::npos);
  assert(broken(entries, 0xFFFFFFFF000FFFFE).find("vocabulary") != std::string::npos);
  for (const size_t weight : {kDiscount, kStrength})
    for (const double value : std::vector<double>{NAN, INFINITY, -1})
      assert(!forged(weight, std::bit_cast<uint64_t>(value)).empty());
  assert(forged(kLengthAndEnd, 0xFFFFFFFF00000003).starts_with("the end token"));
  assert(forged(kMarkAndVocabulary, uint64_t{kEnd} << 32 | 1).find("vocabulary") != std::string::npos);
  assert(broken(kText, ~uint64_t{0}).find("vocabulary") != std::string::npos);
  assert(broken(kText, 0xFFFFF0FFFFF).find("a mark stands") != std::string::npos);
  assert(plain.vocabulary() == kEnd + 1);
  const NgramTable deep(16);
  assert(refusal([&] { NgramDrafter({&plain}, &deep, nullptr, true, 3, options); }).starts_with("n_max"));

  const std::vector<int64_t> falling = {0, 5, 3, 12};
  assert(!refusal([&] { NgramIndex(tokens, falling, {}); }).empty());
  assert(refusal([&] { NgramIndex(tokens, offsets, {0, 0, 0, 1, kEnd, true}); }).starts_with("n_max"));
  assert(refusal([&] { NgramIndex(tokens, offsets, {3, 0, 0, 1, -1, true}); }).starts_with("the end token"));
  assert(!refusal([&] { NgramIndex(std::vector<uint64_t>(3)); }).empty());
}
