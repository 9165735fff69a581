// n-gram counts that grow token by token, for the current sequence or for finished outputs.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tasc/match.h"

namespace tasc {

// A trie of contexts of up to n_max tokens with suffix links. A negative token is a mark, which can be
// part of a context but not a continuation.
class NgramTable {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  static constexpr int kRecent = 32;             // continuations to scan per context

  struct Node {
    int32_t token;
    uint32_t count = 0;                          // occurrences of the string that ends here
    uint32_t total = 0;                          // of all continuations
    uint32_t distinct : 25 = 0, depth : 7 = 0;
    uint32_t child = kNone;                      // the most recent continuation
    uint32_t sibling = kNone, before = kNone;    // the next older and the next newer continuation
    uint32_t shorter = kRoot;                    // the string without its first token
  };
  static_assert(sizeof(Node) == 32);

  explicit NgramTable(int n_max);
  void clear();
  void append(int32_t token);
  void begin() { at_ = kRoot; }  // the next token starts a new sample

  uint32_t state() const { return at_; }  // the longest context that ends the sequence
  const Match& match() const { return match_; }  // of the sequence with its own past
  // The match after a token that leads to a state. If the match predicted the token, it continues; else it
  // is the latest position of the state's context, or the resumed match after the token.
  Match follow(const Match& match, int32_t token, uint32_t state) const;
  Match latest(uint32_t state) const { return state == kRoot ? Match{} : Match{behind_[state], nodes_[state].depth}; }
  // The token that a match predicts; negative for none.
  int32_t predicted(const Match& match) const { return match.position < text_.size() ? text_[match.position] : -1; }
  uint32_t step(uint32_t state, int32_t token) const;
  uint32_t continuation(uint32_t context, int32_t token) const { return find(context, token); }
  // The longest context at or below a state with a continuation; kRoot for none.
  uint32_t known(uint32_t state) const;
  const Node& node(uint32_t i) const { return nodes_[i]; }
  size_t nodes() const { return nodes_.size(); }
  uint64_t generation() const { return generation_; }  // clear() increments it and invalidates states
  int n_max() const { return static_cast<int>(n_max_); }
  const char* check_integrity() const;  // nullptr, or the violated condition
  double mean_probes() const;           // slots probed per lookup

 private:
  // A child with its parent and token in one place, so that a probe reads one cache line.
  struct Slot {
    uint32_t parent;
    int32_t token;
    uint32_t child = kNone;
  };

  uint32_t find(uint32_t node, int32_t token) const;
  void fetch(uint32_t context, int32_t token) const;
  uint32_t add(uint32_t node, int32_t token);
  void insert(const Slot& slot);
  Match chosen(const Match& match, int32_t token, const Match& other) const;
  void to_front(uint32_t node, uint32_t child);
  void grow();

  uint32_t n_max_;
  uint32_t at_ = kRoot;
  uint64_t generation_ = 0;
  Match match_;
  std::vector<int32_t> text_;
  std::vector<uint32_t> behind_;  // (nodes,): the text position after the string's last occurrence
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;  // by hash of parent and token; child is kNone if empty
};

}  // namespace tasc
