// The corpus as doubly linked tokens: a merge unlinks cells, positions never move.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tasc/merge_search.h"

namespace tasc {

// 16 bytes, so that one cache line serves a visit.
struct Cell {
  int32_t token;         // -1 once merged away; ~id for a token that no n-gram may hold
  int32_t next, prev;    // -1 at the ends of the sample
  uint32_t weight : 31;  // of the sample
  uint32_t start : 1;    // a pre-token starts here
};

class TokenList {
 public:
  // barrier (V): 1 for tokens that no n-gram may hold.
  TokenList(const MergeInput& input, std::span<const uint8_t> barrier)
      : bounded_(!input.boundaries.empty()), cells_(input.tokens.size()) {
    for (size_t s = 0; s + 1 < input.offsets.size(); ++s) {
      const auto begin = static_cast<int32_t>(input.offsets[s]);
      const auto end = static_cast<int32_t>(input.offsets[s + 1]);
      for (int32_t i = begin; i < end; ++i) {
        const int32_t id = input.tokens[i];
        cells_[i] = {.token = barrier[id] ? ~id : id,
                     .next = i + 1 < end ? i + 1 : -1,
                     .prev = i > begin ? i - 1 : -1,
                     .weight = static_cast<uint32_t>(input.weights[s]),
                     .start = i == begin || (bounded_ && input.boundaries[i])};
      }
    }
  }

  const Cell& operator[](int32_t at) const { return cells_[at]; }
  size_t size() const { return cells_.size(); }

  // The position of the last token of ids when they stand at position at, else -1.
  int32_t match(int32_t at, std::span<const int32_t> ids) const {
    if (cells_[at].token != ids[0]) return -1;
    for (size_t k = 1; k < ids.size(); ++k) {
      at = cells_[at].next;
      if (at < 0 || cells_[at].token != ids[k]) return -1;
    }
    return at;
  }

  // May the n tokens from first to last be one token? Whole pre-tokens, or two tokens inside one.
  bool admissible(int32_t first, int32_t last, int n) const {
    if (!bounded_ || whole(first, last)) return true;
    return n == 2 && !cells_[last].start;
  }

  // Two tokens that need a merge rule of their own, because they are a part of one pre-token.
  bool inner(int32_t first, int32_t last) const { return bounded_ && !whole(first, last); }

  // Puts id in place of the tokens from first to last.
  void replace(int32_t first, int32_t last, int32_t id) {
    const int32_t after = cells_[last].next;
    for (int32_t at = cells_[first].next; at != after; at = cells_[at].next) cells_[at].token = -1;
    cells_[first].token = id;
    cells_[first].next = after;
    if (after >= 0) cells_[after].prev = first;
  }

  void prefetch(int32_t at) const { __builtin_prefetch(&cells_[at]); }

 private:
  bool whole(int32_t first, int32_t last) const {
    const int32_t after = cells_[last].next;
    return cells_[first].start && (after < 0 || cells_[after].start);
  }

  bool bounded_;
  std::vector<Cell> cells_;
};

}  // namespace tasc
