// What the target said after contexts that it has scored, kept for later drafts: a graph of likely
// successors, as the adjacency matrix of Token Recycling (Luo et al., 2024, arXiv:2408.08696).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tasc {

// The last tokens of a sequence, the latest first; -1 where it is shorter.
struct RecentTokens {
  static constexpr int kLongest = 3;
  std::array<int32_t, kLongest> tokens{-1, -1, -1};

  void append(int32_t token) { tokens = {token, tokens[0], tokens[1]}; }
};

// Departs from the paper's matrix: a row belongs to a context of 1, 2 or 3 tokens and not to a token
// alone, has probabilities, and is a running mean of what was said there. Rows lie in sets of four by
// the hash of their context; in a full set the one that was written longest ago makes room, so any
// vocabulary fits into a bounded table.
class RecycledLogits {
 public:
  static constexpr int kSuccessors = 8;
  struct Row {
    std::array<int32_t, kSuccessors> tokens;  // falling probability; -1: there are no more
    std::array<float, kSuccessors> probabilities;

    float probability(int32_t token) const;
  };

  // Room for so many rows, rounded up to a power of two; what is new weighs `renewal` in a mean.
  RecycledLogits(size_t rows, double renewal);

  // The row of the last `length` tokens; null where there is none.
  const Row* find(const RecentTokens& recent, int length) const;
  // Enters what was said after `recent`, for the context of each length: k tokens by falling
  // probability, -1 where there are fewer.
  void add(const RecentTokens& recent, std::span<const int32_t> tokens, std::span<const float> probabilities);
  // Enters all that a forward over a tree said: rows (n + 1, k), the first one after `recent`, row
  // i + 1 after node i. Throws std::invalid_argument for a tree that is none.
  void add_tree(const RecentTokens& recent, std::span<const int32_t> tokens, std::span<const int32_t> parents,
                std::span<const int32_t> successors, std::span<const float> probabilities);
  size_t rows() const { return filled_; }
  const char* check_integrity() const;  // nullptr, or the condition that does not hold

 private:
  static constexpr size_t kWays = 4;

  Row& claim(uint64_t key, bool& known);
  size_t set_of(uint64_t key) const { return (key >> 20 & mask_) * kWays; }

  double renewal_;
  size_t mask_, filled_ = 0;  // sets - 1; rows in use
  uint32_t clock_ = 0;
  std::vector<uint64_t> keys_;    // (rows,): hash of the context; 0 where a row is free
  std::vector<uint32_t> written_;  // (rows,): when
  std::unique_ptr<Row[]> rows_;
};

}  // namespace tasc
