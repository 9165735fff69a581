// The likeliest successors of contexts that the target has scored, stored for later drafts: a graph like
// the adjacency matrix of Token Recycling (Luo et al., 2024, arXiv:2408.08696).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tasc {

// The last tokens of a sequence, latest first, padded with -1.
struct RecentTokens {
  static constexpr int kLongest = 3;
  std::array<int32_t, kLongest> tokens{-1, -1, -1};

  void append(int32_t token) { tokens = {token, tokens[0], tokens[1]}; }
};

// Departs from the paper's matrix: a row belongs to a context of 1, 2 or 3 tokens, not to a single token,
// and stores a running mean of probabilities. Rows are in sets of four by the hash of their context. A
// full set replaces its least recently written row, so that any vocabulary fits into a bounded table.
class RecycledLogits {
 public:
  static constexpr int kSuccessors = 8;
  struct Row {
    std::array<int32_t, kSuccessors> tokens;  // most probable first, padded with -1
    std::array<float, kSuccessors> probabilities;

    float probability(int32_t token) const;
  };

  // Holds at most `rows` rows, rounded up to a power of two; `renewal` is the weight of new values in a mean.
  RecycledLogits(size_t rows, double renewal);

  // The row of the last `length` tokens; null if missing.
  const Row* find(const RecentTokens& recent, int length) const;
  // Adds the successors of `recent` to the context of each length: k tokens, most probable first, padded
  // with -1.
  void add(const RecentTokens& recent, std::span<const int32_t> tokens, std::span<const float> probabilities);
  // Adds the successors from a forward over a tree: rows (n + 1, k), row 0 after `recent`, row i + 1 after
  // node i. Throws std::invalid_argument for an invalid tree.
  void add_tree(const RecentTokens& recent, std::span<const int32_t> tokens, std::span<const int32_t> parents,
                std::span<const int32_t> successors, std::span<const float> probabilities);
  size_t rows() const { return filled_; }
  const char* check_integrity() const;  // nullptr, or the violated condition

 private:
  static constexpr size_t kWays = 4;

  Row& claim(uint64_t key, bool& known);
  size_t set_of(uint64_t key) const { return (key >> 20 & mask_) * kWays; }

  double renewal_;
  size_t mask_, filled_ = 0;  // sets - 1; rows in use
  uint32_t clock_ = 0;
  std::vector<uint64_t> keys_;    // (rows,): hash of the context; 0 for a free row
  std::vector<uint32_t> written_;  // (rows,): time of the last write
  std::unique_ptr<Row[]> rows_;
};

}  // namespace tasc
