// n-gram draft models: a corpus index, a table of the current sequence, and their mixture.
// TASC section 5.2: contexts of n_max..1 tokens are tried in turn and the first hit wins.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tasc {

struct Continuation {
  int32_t token;
  uint32_t count;
};

// What followed one context: continuations by falling count, then rising id; total is their sum.
struct Continuations {
  std::span<const Continuation> items;
  uint64_t total = 0;
  explicit operator bool() const { return !items.empty(); }
};

// keys[k - 1] identifies the last k tokens of context, k = 1..n_max. Contexts are known by a 64-bit
// hash: a collision could only cost an accepted token, for every draft is verified.
void context_keys(std::span<const int32_t> context, int n_max, std::vector<uint64_t>& keys);

// Counts of a fixed corpus. Immutable after construction, so one index serves all sequences.
class NgramIndex {
 public:
  // Sample s is tokens[offsets[s] .. offsets[s + 1]) and counts weights[s] times; its first token
  // is context only. Continuations seen fewer than min_count times are dropped.
  NgramIndex(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
             std::span<const int64_t> weights, int n_max, int64_t min_count);

  Continuations find(std::span<const uint64_t> keys) const;  // the longest context that hits
  Continuation most_frequent() const { return most_frequent_; }
  uint64_t tokens() const { return tokens_; }
  int n_max() const { return n_max_; }
  size_t contexts() const { return used_; }
  size_t bytes() const;
  const char* check_integrity() const;  // nullptr, or the condition that does not hold

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t begin = 0, length = 0;
    uint64_t total = 0;
  };
  struct Occurrence {
    uint64_t key;
    int32_t token;
    uint32_t weight;
  };
  void add_order(std::vector<Occurrence>& occurrences, int64_t min_count);
  void insert(const Slot& slot);
  void grow();

  int n_max_;
  uint64_t tokens_ = 0;
  size_t used_ = 0;
  Continuation most_frequent_{-1, 0};
  std::vector<Slot> slots_;
  std::vector<Continuation> continuations_;
};

// Counts of the sequence being decoded, extended token by token. A negative token is a mark: it can
// stand in a context but is never a continuation.
class LocalTable {
 public:
  explicit LocalTable(int n_max) : n_max_(n_max) {}
  void clear();
  void append(int32_t token);
  Continuations find(std::span<const uint64_t> keys) const;
  std::span<const int32_t> sequence() const { return sequence_; }

 private:
  struct Entry {
    std::vector<Continuation> items;
    uint64_t total = 0;
  };
  int n_max_;
  std::vector<int32_t> sequence_;
  std::vector<uint64_t> keys_;
  std::unordered_map<uint64_t, Entry> entries_;
};

struct DraftOptions {
  double lambda = 0.75;         // weight of the corpus side
  int budget = 12;              // nodes at most
  int width = 0;                // children of one node at most; 0 is no limit, 1 makes a chain
  double min_probability = 0;   // paths less likely than this are not proposed
  int32_t end = -1;             // a node with this token has no children
};

struct DraftTree {
  std::vector<int32_t> tokens, parents;
  std::vector<float> probabilities;  // of the path to each node under the mixture
};

// The next-token law after a context, falling probability, at most limit tokens.
void mixture(const NgramIndex& corpus, const LocalTable& local, std::span<const int32_t> context,
             double lambda, size_t limit, std::vector<std::pair<int32_t, double>>& law);

// Best-first tree: the budget goes to the most probable paths, so no other tree of this size has a
// larger expected accepted length under the mixture.
DraftTree draft_tree(const NgramIndex& corpus, const LocalTable& local, const DraftOptions& options);

}  // namespace tasc
