// The tokens that sources name at one position, with what their probabilities add up to.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tasc/ngram_index.h"

namespace tasc {

class NamedTokens {
 public:
  struct Seen {
    int32_t token;
    uint32_t child;    // what the first corpus' entry leads to, if it names the token
    float probability;
    uint8_t sources;   // corpora that have named it
    uint8_t depth;     // tokens in the context of that entry
  };

  // One for each thread: the drafters of a step take turns with it, and it stays in the caches.
  static NamedTokens& of_thread() {
    static thread_local NamedTokens named;
    return named;
  }

  void clear() {
    for (const uint32_t i : used_) seen_[i].token = -1;
    used_.clear();
    most_ = 0;
  }

  // The token's slot, or the empty one where it belongs.
  Seen& slot(int32_t token) {
    size_t at = (static_cast<uint32_t>(token) * 2654435769u) >> (32 - kSlotBits);
    while (seen_[at].token >= 0 && seen_[at].token != token) at = (at + 1) & (kSlots - 1);
    return seen_[at];
  }

  // Adds to the token that belongs into a slot; null where no more are kept apart.
  Seen* add(Seen& seen, int32_t token, double probability) {
    if (seen.token < 0) {
      if (used_.size() >= kSlots / 2) return nullptr;
      seen = {token, NgramIndex::kNone, 0, 0, 0};
      used_.push_back(static_cast<uint32_t>(&seen - seen_.data()));
    }
    seen.probability += static_cast<float>(probability);
    most_ = std::max(most_, seen.probability);
    return &seen;
  }
  Seen* add(int32_t token, double probability) { return add(slot(token), token, probability); }

  size_t size() const { return used_.size(); }
  const Seen& operator[](size_t i) const { return seen_[used_[i]]; }  // in the order of naming
  double most() const { return most_; }                               // the highest probability

 private:
  static constexpr size_t kSlots = 1024;  // at most half of them are used
  static constexpr int kSlotBits = 10;

  NamedTokens() : seen_(kSlots, Seen{-1, 0, 0, 0, 0}) {}

  std::vector<Seen> seen_;      // open addressing by token; empty where token < 0
  std::vector<uint32_t> used_;  // filled slots
  float most_ = 0;
};

}  // namespace tasc
