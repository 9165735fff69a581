// A stranger's index: any block is refused, or drafting from it stays inside it and ends.
//
// Input: the block, and behind it kTail bytes, the tokens that are drafted after. What Python's
// reader checks before (magic, size) is no help here: a forger computes it, too.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "fuzz.h"
#include "tasc/ngram_draft.h"

namespace {

using tasc::NgramIndex;

constexpr size_t kTail = 12, kHeader = 8, kMost = 4096;  // bytes, words, words
constexpr int32_t kEnd = 7;

void draft_from(const NgramIndex& index, const uint8_t* tail) {
  tasc::NgramTable memory(4);
  for (size_t i = 0; i < 4; ++i) memory.append(tail[i] % 8);
  const std::vector<const NgramIndex*> corpora(1 + tail[0] % 2, &index);
  const bool remembers = tail[1] % 2, prompt = tail[2] % 2, match = tail[2] % 3 > 0;
  const double gain = tail[1] / 64.0;
  tasc::SourceWeights weights(corpora.size(), remembers, prompt, 0.6, gain, match);
  tasc::NgramDrafter drafter(corpora, remembers ? &memory : nullptr, tail[3] % 3 ? &weights : nullptr, prompt,
                             1 + tail[3] % 15, {0.6, gain, 0.7, tail[0] % 3, 0.0, match, tail[3] % 2 == 0, kEnd});
  drafter.start({}, tail[2] % 4 < 2);
  for (size_t i = 4; i < kTail; ++i) {
    const tasc::DraftTree tree = drafter.draft(tail[0] / 4);
    for (size_t k = 0; k < tree.tokens.size(); ++k) {
      hold(tree.parents[k] >= -1 && tree.parents[k] < static_cast<int32_t>(k));
      hold(tree.tokens[k] >= 0 && tree.tokens[k] < std::max(index.vocabulary(), 256));
      hold(std::isfinite(tree.probabilities[k]));
    }
    drafter.append(tree.tokens.empty() || tail[i] % 2 ? tail[i] : tree.tokens.back());
  }
  for (const tasc::Proposal& p : drafter.distribution()) hold(std::isfinite(p.probability));
}

// Valid blocks of all shapes: with long lists, marks, dropped continuations.
std::vector<uint64_t> good_block(std::mt19937& random) {
  const auto ids = static_cast<int32_t>(random() % 4 ? 2 + random() % 6 : 60);
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};
  for (unsigned s = 1 + random() % 6; s-- > 0; offsets.push_back(static_cast<int64_t>(tokens.size())))
    for (unsigned n = random() % (ids > 8 ? 40 : 9); n-- > 0;) tokens.push_back(static_cast<int32_t>(random()) & 0x7FFFFFFF);
  for (int32_t& token : tokens) token %= ids;
  const NgramIndex index(tokens, offsets,
                         {static_cast<int32_t>(1 + random() % 15), random() % 2 * 0.8, static_cast<double>(random() % 2),
                          1 + static_cast<int64_t>(random() % 2), kEnd, random() % 2 == 0});
  return {index.block().begin(), index.block().end()};
}

// A number as a field might hold it, at or near a border of its range.
uint64_t near(std::mt19937& random, uint64_t border) {
  return random() % 4 ? border + random() % 3 - 1 : uint64_t{1} << random() % 32;
}

// Changes one field of a block that still has its header; knows where the arrays lie.
void change_field(std::vector<uint64_t>& block, std::mt19937& random) {
  uint64_t contexts, entries;
  std::memcpy(&contexts, &block[0], 8);
  std::memcpy(&entries, &block[1], 8);
  const bool whole = entries < kMost && contexts < kMost && kHeader + entries + contexts < block.size();
  const size_t nodes = block.size() - contexts - 1, first = nodes - entries;
  const unsigned kind = random() % 8;
  if (!whole || kind == 0) {
    uint64_t& word = block[random() % std::min(kHeader, block.size())];
    word = random() % 2 ? near(random, word) : uint64_t{1} << random() % 64;
  } else if (kind <= 2 && entries) {
    const uint64_t child = random() % 2 ? near(random, contexts) : near(random, 0x80000000u + block[2]);
    uint64_t& entry = block[first + random() % entries];
    entry = random() % 3 ? (child << 32 | (entry & 0xFFFFFFFF)) : entry ^ (uint64_t{1} << random() % 32);
  } else if (kind <= 5) {
    uint64_t& node = block[nodes + random() % (contexts + 1)];
    const uint64_t list = random() % 2 ? near(random, node & 0xFFFFFFFF) : near(random, entries);
    const uint64_t away = near(random, random() % (contexts + 1));
    node = random() % 2 ? (node >> 32 << 32 | (list & 0xFFFFFFFF)) : ((node & 0xFFFFFFFF) | away << 32);
  } else {
    block[random() % block.size()] ^= uint64_t{1} << random() % 64;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kTail) return 0;
  std::vector<uint64_t> block((size - kTail) / 8);
  if (!block.empty()) std::memcpy(block.data(), data, block.size() * 8);
  try {
    draft_from(NgramIndex(block), data + size - kTail);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  std::vector<uint64_t> block;
  std::vector<uint8_t> tail(kTail);
  if (size < kTail + 8 * kHeader || random() % 8 == 0) {
    block = good_block(random);
  } else {
    block.resize((size - kTail) / 8);
    std::memcpy(block.data(), data, block.size() * 8);
    for (unsigned n = 1 + random() % 3; n-- > 0;) change_field(block, random);
  }
  if (size >= kTail) std::memcpy(tail.data(), data + size - kTail, kTail);
  LLVMFuzzerMutate(tail.data(), kTail, kTail);
  const size_t bytes = block.size() * 8;
  if (bytes + kTail > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, block.data(), bytes);
  std::memcpy(data + bytes, tail.data(), kTail);
  return bytes + kTail;
}
