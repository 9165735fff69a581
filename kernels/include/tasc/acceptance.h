// Selects the nodes of a draft that are worth verifying, from the acceptance of earlier drafts.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tasc {

// A draft tree: node i continues node parents[i] < i, -1 is the last accepted token. Probabilities
// are the drafter's path probabilities; empty if it gives none.
struct DraftView {
  std::span<const int32_t> tokens, parents;
  std::span<const float> probabilities;
};

// The cost of a step beyond a forward over one token, in seconds: extra[n] for n nodes, per_node for
// drafting each, at most limit in total. A token is worth pace seconds.
struct Prices {
  std::span<const double> extra;
  double pace, per_node, limit;
};

// Decayed counts of accepted nodes. With the drafter's probabilities: nodes whose parent was accepted,
// by the claimed probability given the parent, so that a wrong node counts once and not again for its
// descendants. Without probabilities: by rank in the draft.
class Acceptance {
 public:
  // The acceptance probability of each node, never above its parent's.
  std::vector<double> estimate(const DraftView& draft) const;

  // The nodes with the largest gain after their cost, ascending and with all their ancestors. Throws
  // std::invalid_argument if prices.extra is shorter than the number of nodes.
  std::vector<int32_t> worthwhile(const DraftView& draft, const Prices& prices) const;

  // Compares a draft with the tokens committed after it. Ignores descendants of the node that matches the
  // last one, because their outcome is unknown.
  void learn(const DraftView& draft, std::span<const int32_t> committed);

 private:
  static constexpr int kBins = 16;         // of claimed probabilities
  static constexpr int kRanks = 64;        // later nodes share the last bin
  static constexpr double kStrength = 2;   // number of observations that a claim counts as
  static constexpr double kDecay = 0.98;   // of the counts, per draft
  static constexpr double kUnknown = 0.6;  // node r of a draft without claims: 0.6 ^ (r + 1)

  // Scales claims by the ratio of accepted to claimed nodes, so that claims of a bin keep their order.
  struct Bin {
    double claimed = 0, accepted = 0;
    double rate(double claim) const {
      const double prior = kStrength * claim;
      return prior > 0 ? std::min(claim * (accepted + prior) / (claimed + prior), 1.0) : 0.0;
    }
  };

  static int bin_of(double claim);
  static double given_parent(const DraftView& draft, size_t node);

  std::array<Bin, kBins> claims_;
  std::array<Bin, kRanks> ranks_;
};

}  // namespace tasc
