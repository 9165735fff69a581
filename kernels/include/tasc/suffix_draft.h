// Suffix drafting: match the longest suffix of the sequence in the corpus or earlier in the sequence,
// and draft a best-first tree of its continuations.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tasc/ngram_draft.h"
#include "tasc/ngram_table.h"

namespace tasc {

// All suffixes of the samples, sorted by their first kDepth tokens.
class SuffixArray {
 public:
  static constexpr uint32_t kDepth = 64;
  struct Interval {  // suffixes that begin with the same length tokens
    uint32_t begin = 0, end = 0, length = 0;
  };

  // Sample s is tokens[offsets[s] .. offsets[s + 1]); the end token follows each sample.
  SuffixArray(std::span<const int32_t> tokens, std::span<const int64_t> offsets, int32_t end);

  Interval find(std::span<const int32_t> pattern) const;           // empty if not found
  Interval narrow(const Interval& interval, int32_t token) const;  // one token longer
  int32_t next(const Interval& interval, uint32_t i) const { return text_[order_[i] + interval.length]; }
  size_t tokens() const { return text_.size(); }
  const char* check_integrity() const;  // nullptr, or the violated condition

 private:
  void refine(uint32_t step, std::vector<Interval>& groups);
  std::vector<int32_t> text_;
  std::vector<uint32_t> order_, ranks_;
};

// One sequence's drafter. At each node the side with the longer match proposes; on a tie, both counts
// are added. Intervals of more than 1024 positions are sampled.
class SuffixDrafter {
 public:
  // width: maximum number of children per node; 0: no limit, 1: a chain.
  SuffixDrafter(const SuffixArray& corpus, int longest, double min_probability, int width, int32_t end);
  void start(std::span<const int32_t> prompt);
  void append(int32_t token);
  DraftTree draft(int budget) const;

 private:
  struct State {
    SuffixArray::Interval corpus;
    uint32_t local = NgramTable::kRoot;
  };
  State step(const State& state, int32_t token) const;
  std::vector<Proposal> propose(const State& state) const;

  const SuffixArray& corpus_;
  uint32_t longest_;
  double min_probability_;
  int width_;
  int32_t end_;
  NgramTable local_;
  std::vector<int32_t> sequence_;
  SuffixArray::Interval match_;
};

}  // namespace tasc
