// Drafters that read one sequence: prompt lookup and the n-gram trie.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tasc/ngram_draft.h"

namespace tasc {

// The longest n-gram (n_max..1) that ends the sequence and stands earlier in it: [begin, end) of what
// follows its first occurrence, wanted tokens at most; empty where there is none.
std::pair<size_t, size_t> prompt_lookup(std::span<const int32_t> sequence, int n_max, size_t wanted);

// Prompt lookup of one sequence: a chain that copies what prompt_lookup finds.
class LookupDrafter {
 public:
  // Chains have chain tokens at most (0: no limit of its own) and stop behind end.
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
// of n tokens slides over the context; its last n - j tokens, j = 0..prefix - 1, are inserted, and a
// node counts the insertions that pass it.
class NgramTrie {
 public:
  NgramTrie(int n, int prefix);
  void build(std::span<const int32_t> context);
  // The num_draft most frequent nodes below the longest matching suffix of the sequence (prefix..1
  // tokens), with the paths to them; budget nodes at most. Ties go to the shorter path, then to the
  // one inserted first.
  DraftTree draft(std::span<const int32_t> sequence, int num_draft, int budget) const;
  size_t nodes() const { return nodes_.size(); }

 private:
  struct Node {
    int32_t token;
    uint32_t count, child, sibling;  // the first child, and its siblings in order of insertion
    uint32_t last;                   // child, so that insertion keeps the order
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  uint32_t find(uint32_t node, int32_t token) const;
  void insert(std::span<const int32_t> key);

  size_t n_, prefix_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> children_;  // by parent and token
};

}  // namespace tasc
