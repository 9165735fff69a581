// Another drafter's tree with the probabilities of its nodes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "tasc/tree.h"

namespace tasc {

// A position is the last matched node, kBegin before the first token, kGone after a mismatch or the end of
// the tree. Weights are learnt per bucket of depth and of the largest next probability.
class Guess {
 public:
  static constexpr int32_t kBegin = -1, kGone = -2;
  static constexpr size_t kDepths = 4, kSure = 4;  // numbers of buckets

  void clear() { tokens_.clear(), first_.clear(); }
  // Takes a tree with path probabilities. Throws std::invalid_argument for an invalid tree.
  void take(std::span<const int32_t> tokens, std::span<const int32_t> parents, std::span<const float> probabilities) {
    const size_t n = tokens.size();
    if (parents.size() != n || probabilities.size() != n || n > kMaxNodes ||
        first_bad_parent(parents.data(), static_cast<int>(n)) >= 0)
      throw std::invalid_argument("a guess is a tree: a node's parent must be -1 or an earlier node");
    tokens_.assign(tokens.begin(), tokens.end());
    next_.assign(n, kGone), first_.assign(n + 1, kGone), depth_.assign(n + 1, 0);
    given_.resize(n);
    for (size_t i = n; i-- > 0;) {  // backwards, so that siblings keep their order
      const auto above = static_cast<size_t>(parents[i] + 1);
      const double claim = probabilities[i] / std::max(above == 0 ? 1.0 : probabilities[above - 1], 1e-9);
      given_[i] = claim > 0 ? std::min(claim, 1.0) : 0.0;  // NaN counts as 0
      next_[i] = first_[above];
      first_[above] = static_cast<int32_t>(i);
    }
    for (size_t i = 0; i < n; ++i) depth_[i + 1] = depth_[static_cast<size_t>(parents[i] + 1)] + 1;
  }

  bool continues(int32_t position) const { return position != kGone && !first_.empty() && first(position) != kGone; }
  int32_t step(int32_t position, int32_t token) const {
    if (!continues(position)) return kGone;
    int32_t node = first(position);
    while (node != kGone && tokens_[static_cast<size_t>(node)] != token) node = next_[static_cast<size_t>(node)];
    return node;
  }
  template <class Visit>  // (token, probability)
  void each(int32_t position, Visit&& visit) const {
    for (int32_t node = first(position); node != kGone; node = next_[static_cast<size_t>(node)])
      visit(tokens_[static_cast<size_t>(node)], given_[static_cast<size_t>(node)]);
  }
  double probability(int32_t position, int32_t token) const {
    const int32_t node = step(position, token);
    return node == kGone ? 0 : given_[static_cast<size_t>(node)];
  }
  size_t bucket(int32_t position) const {
    double most = 0;
    each(position, [&](int32_t, double probability) { most = std::max(most, probability); });
    const auto sure = std::min(static_cast<size_t>(most * kSure), kSure - 1);
    return kSure * std::min<size_t>(depth_[static_cast<size_t>(position + 1)], kDepths - 1) + sure;
  }

 private:
  int32_t first(int32_t position) const { return first_[static_cast<size_t>(position + 1)]; }

  std::vector<int32_t> tokens_, next_;  // (n,): tokens and next siblings of nodes
  std::vector<int32_t> first_;          // (n + 1,): first child of each position, starting with kBegin
  std::vector<uint32_t> depth_;         // (n + 1,)
  std::vector<double> given_;           // (n,): probability given the parent
};

}  // namespace tasc
