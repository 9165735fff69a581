// Which nodes of a draft are worth verifying, judged by what became of earlier drafts.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tasc {

// A draft tree: node i continues node parents[i] < i, -1 is the last accepted token. Probabilities
// are those of the path to each node, as the drafter sees them; empty when it does not say.
struct DraftView {
  std::span<const int32_t> tokens, parents;
  std::span<const float> probabilities;
};

// What a step costs beyond a forward over one token, in seconds: extra[n] for n nodes, per_node for
// drafting each; nothing above limit may be spent. A token is worth pace.
struct Prices {
  std::span<const double> extra;
  double pace, per_node, limit;
};

// Decayed counts of how often nodes were accepted. Where the drafter gives probabilities: of nodes
// whose parent was accepted, by the claimed probability given the parent, so that a wrong guess
// that all deeper nodes hang on counts once. Where it does not: by rank in the draft.
class Acceptance {
 public:
  // For each node the probability that it is accepted; never above its parent's.
  std::vector<double> estimate(const DraftView& draft) const;

  // The nodes, ascending and with all their ancestors, that bring most beyond their price. Raises
  // std::invalid_argument where prices.extra ends before the number of nodes.
  std::vector<int32_t> worthwhile(const DraftView& draft, const Prices& prices) const;

  // Compares a draft with the tokens that were committed after it. What hangs below a path that spells
  // all of them is not known yet, and left out.
  void learn(const DraftView& draft, std::span<const int32_t> committed);

 private:
  static constexpr int kBins = 16;         // of claimed probabilities
  static constexpr int kRanks = 64;        // later nodes share the last
  static constexpr double kStrength = 2;   // observations that a claim is worth
  static constexpr double kDecay = 0.98;   // of the counts, a draft
  static constexpr double kUnknown = 0.6;  // node r of a draft without claims: 0.6 ^ (r + 1)

  struct Bin {
    double tried = 0, accepted = 0;
    double rate(double claim) const { return (accepted + kStrength * claim) / (tried + kStrength); }
  };

  static int bin_of(double claim);
  static double given_parent(const DraftView& draft, size_t node);

  std::array<Bin, kBins> claims_;
  std::array<Bin, kRanks> ranks_;
};

}  // namespace tasc
