// Drafters that read one sequence: prompt lookup and the n-gram trie.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tasc/ngram_draft.h"

namespace tasc {

// Finds the longest n-gram (n_max..1) that ends the sequence and occurs earlier in it. Returns the range
// [begin, end) of at most `wanted` tokens after its first occurrence; empty if there is none.
std::pair<size_t, size_t> prompt_lookup(std::span<const int32_t> sequence, int n_max, size_t wanted);

// Prompt lookup on one sequence: a chain that copies the result of prompt_lookup.
class LookupDrafter {
 public:
  // Chains have at most `chain` tokens (0: no limit but the budget) and stop after `end`.
  LookupDrafter(int n_max, int chain, int32_t end);
  void start(std::span<const int32_t> prompt) { sequence_.assign(prompt.begin(), prompt.end()); }
  void append(int32_t token) { sequence_.push_back(token); }
  DraftTree draft(int budget) const;

 private:
  int n_max_, chain_;
  int32_t end_;
  std::vector<int32_t> sequence_;
};

// Algorithm 1 of "Faster In-Context Learning for LLMs via N-Gram Trie Speculative Decoding": a window
// of n tokens slides over the context; its last n - j tokens, j = 0..prefix - 1, are inserted, and each
// node counts the insertions through it.
class NgramTrie {
 public:
  NgramTrie(int n, int prefix);
  void build(std::span<const int32_t> context);
  // The num_draft most frequent nodes below the longest matching suffix of the sequence (prefix..1
  // tokens), with the paths to them; at most `budget` nodes. Shorter paths win ties, then earlier
  // insertions.
  DraftTree draft(std::span<const int32_t> sequence, int num_draft, int budget) const;
  size_t nodes() const { return nodes_.size(); }

 private:
  struct Node {
    int32_t token;
    uint32_t count, child, sibling;  // the first child, and its siblings in order of insertion
    uint32_t last;                   // child, to keep the order of insertion
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  uint32_t find(uint32_t node, int32_t token) const;
  void insert(std::span<const int32_t> key);

  size_t n_, prefix_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> children_;  // by parent and token
};

}  // namespace tasc
