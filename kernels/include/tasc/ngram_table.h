// n-gram counts that grow token by token: of the sequence being decoded, or of finished outputs.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tasc/match.h"

namespace tasc {

// A trie of contexts of up to n_max tokens with suffix links. A negative token is a mark: it can
// stand in a context but is never a continuation.
class NgramTable {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  static constexpr int kRecent = 32;             // continuations of a context that are looked at

  struct Node {
    int32_t token;
    uint32_t count = 0;                          // occurrences of the string that ends here
    uint32_t total = 0;                          // of its continuations
    uint32_t distinct : 25 = 0, depth : 7 = 0;
    uint32_t child = kNone;                      // the continuation seen last, then by age
    uint32_t sibling = kNone, before = kNone;    // the next older one, and the next newer one
    uint32_t shorter = kRoot;                    // the string without its first token
  };
  static_assert(sizeof(Node) == 32);

  explicit NgramTable(int n_max);
  void clear();
  void append(int32_t token);
  void begin() { at_ = kRoot; }  // the next token starts a new sample

  uint32_t state() const { return at_; }  // the longest context that ends the sequence
  const Match& match() const { return match_; }  // of the sequence, earlier in it
  // Of what goes on from a match with a token, which leads to a state: it is followed where it
  // agrees; else the latest position of the state's context is one, or what lies behind the token.
  Match follow(const Match& match, int32_t token, uint32_t state) const;
  Match latest(uint32_t state) const { return state == kRoot ? Match{} : Match{behind_[state], nodes_[state].depth}; }
  // What a match foretells; negative for nothing.
  int32_t predicted(const Match& match) const { return match.position < text_.size() ? text_[match.position] : -1; }
  uint32_t step(uint32_t state, int32_t token) const;
  uint32_t continuation(uint32_t context, int32_t token) const { return find(context, token); }
  // The longest context at or below a state that something has followed; kRoot for none.
  uint32_t known(uint32_t state) const;
  const Node& node(uint32_t i) const { return nodes_[i]; }
  size_t nodes() const { return nodes_.size(); }
  uint64_t generation() const { return generation_; }  // of states: clear() ends their validity
  int n_max() const { return static_cast<int>(n_max_); }
  const char* check_integrity() const;  // nullptr, or the condition that does not hold
  double mean_probes() const;           // slots looked at to find a node

 private:
  // A child by its parent and token, side by side: a look at one is one line of memory.
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
  std::vector<uint32_t> behind_;  // (nodes,): the position in the text behind the string's last occurrence
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;  // by hash of parent and token; child is kNone where one is empty
};

}  // namespace tasc
