// The n-gram model of a corpus: a trie of contexts with suffix links in one block of memory, which
// is also the file format, so a saved index is mapped and drafted from as it lies.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tasc/match.h"

namespace tasc {

// How counts become a distribution. Absolute discounting with back-off to the shorter context, all orders
// interpolated: p(t | c) = max(n(c, t) - discount, 0) / (n(c) + strength)
//   + (strength + discount * distinct(c)) / (n(c) + strength) * p(t | c without its first token).
// discount = strength = 0 is TASC section 5.2: the longest context that hits decides alone.
struct NgramOptions {
  int32_t n_max = 6;       // longest context, 1..15
  double discount = 0.8;   // 0 <= discount < 1
  double strength = 1.0;   // >= 0
  int64_t min_count = 1;   // continuations seen less often are dropped
  int32_t end = -1;        // stands after every sample; nothing is learnt behind it
  bool mark = true;        // a mark stands before every sample, a context no text contains
};

// Where a sequence stands in an index: the longest context seen at least twice, and how many longer
// ones were seen just once. All of those end at one position of the corpus, from where the match
// goes on, however long it becomes.
struct IndexState {
  uint32_t node = 0;       // its context is the longest with two or more occurrences
  Match match;             // in the text; where single > 0, behind the contexts seen once
  uint8_t depth = 0;       // tokens in the node's context
  uint8_t single = 0;      // orders above it whose context was seen once
};

class NgramIndex {
 public:
  static constexpr int32_t kMark = 0xFFFFF;        // the mark's token id inside an index
  static constexpr int kRanked = 32;               // continuations of one context proposed at most
  static constexpr uint32_t kNone = 0xFFFFFFFF;    // no context follows
  static constexpr uint32_t kSingle = 0x80000000;  // a context seen once: the rest is its position

  struct Entry {  // one continuation: token, probability, and the context it leads to
    uint64_t bits;
    int32_t token() const { return static_cast<int32_t>(bits & 0xFFFFF); }
    uint32_t quantum() const { return static_cast<uint32_t>(bits >> 20) & 0xFFF; }
    uint32_t child() const { return static_cast<uint32_t>(bits >> 32); }
  };

  struct Node {  // one context: where its continuations begin, and how to shorten it
    uint32_t first;
    uint32_t bits;
    uint32_t away() const { return bits & 0x3FFFFFF; }  // from the context without its first token; 0: the empty one
    uint32_t quantum() const { return bits >> 26; }
  };

  // Sample s is tokens[offsets[s] .. offsets[s + 1]).
  NgramIndex(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
             const NgramOptions& options);
  // A view of a block written by another index; the block must outlive it and stay as it is. Throws
  // std::invalid_argument where header and sizes do not fit, and reads no further, so a block of any size
  // is opened at once. References are checked where they are followed: whoever wrote the block, what reads
  // it stays inside it, ends, and names tokens of the vocabulary.
  explicit NgramIndex(std::span<const uint64_t> block);

  NgramIndex(const NgramIndex&) = delete;
  NgramIndex& operator=(const NgramIndex&) = delete;

  IndexState step(IndexState state, int32_t token) const;  // a token >= 0, or kMark
  // Continues from what an entry of the state's longest list that names the token leads to.
  IndexState step_along(IndexState state, int32_t token, uint32_t child, uint32_t at) const;
  // The continuations to propose, falling probability.
  std::span<const Entry> ranked(uint32_t node) const {
    const auto all = list(node);
    return all.first(std::min<size_t>(all.size(), kRanked));
  }
  // Memory is what drafting waits for: what is needed soon is asked for early.
  void prefetch_context(uint32_t child) const {
    if (!is_context(child)) return;
    prefetch_list(child);
    __builtin_prefetch(nodes_.data() + shorter(child));
  }
  void prefetch_node(uint32_t child) const {
    if (is_context(child)) __builtin_prefetch(nodes_.data() + child);
  }
  void prefetch_list(uint32_t node) const { __builtin_prefetch(entries_.data() + nodes_[node].first); }
  const Entry* find(uint32_t node, int32_t token) const;  // null if it was not seen
  int order(const IndexState& state) const;  // tokens of the longest context with a continuation
  double probability(const Entry& entry) const { return scale_[entry.quantum()]; }
  double back_off(uint32_t node) const { return rests_[nodes_[node].quantum()]; }
  uint32_t shorter(uint32_t node) const {
    const uint32_t away = nodes_[node].away();
    return away && away < node ? node - away : 0;
  }
  int32_t text(uint32_t position) const;
  // What a match foretells; negative for nothing.
  int32_t predicted(const Match& match) const {
    const int32_t token = match.position < text_tokens_ ? text(match.position) : -1;
    return token < vocabulary_ ? token : -1;
  }
  double single_back_off(int orders) const { return single_[static_cast<size_t>(orders)]; }

  int n_max() const { return options_.n_max; }
  const NgramOptions& options() const { return options_; }
  size_t tokens() const { return text_tokens_; }
  size_t contexts() const { return nodes_.size() - 1; }
  size_t entries() const { return entries_.size(); }
  std::span<const uint64_t> block() const { return block_; }
  int32_t vocabulary() const { return vocabulary_; }  // every token that is proposed is below it
  const char* check_integrity() const;  // nullptr, or the condition that does not hold: reads all of it

 private:
  void attach();
  bool is_context(uint32_t child) const { return child < contexts(); }
  std::span<const Entry> list(uint32_t node) const {
    const size_t end = std::min<size_t>(nodes_[node + 1].first, entries_.size());
    const size_t begin = std::min<size_t>(nodes_[node].first, end);
    return entries_.subspan(begin, end - begin);
  }
  const char* check_lists() const;
  const char* check_text() const;
  const char* check_contexts() const;
  const char* check_entries() const;

  std::vector<uint64_t> owned_;
  std::span<const uint64_t> block_;
  NgramOptions options_;
  size_t text_tokens_ = 0;
  int32_t vocabulary_ = 0;
  // (contexts + 1,) by last token, then the one before it, …; the last one only ends a list.
  std::span<const Node> nodes_;
  // By context, falling probability; a list longer than kRanked is its best and then all by token.
  std::span<const Entry> entries_;
  const uint8_t* text_ = nullptr;      // three bytes a token
  std::array<float, 4096> scale_{};    // probability by quantum
  std::array<float, 64> rests_{};      // back-off weight by quantum
  std::array<double, 16> single_{};    // what is left to shorter contexts after k seen once
};

}  // namespace tasc
