#include "tasc/acceptance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace tasc {

int Acceptance::bin_of(double claim) {
  return std::clamp(static_cast<int>(claim * kBins), 0, kBins - 1);
}

double Acceptance::given_parent(const DraftView& draft, size_t node) {
  const int parent = draft.parents[node];
  const double before = parent < 0 ? 1.0 : draft.probabilities[parent];
  const double claim = draft.probabilities[node] / std::max(before, 1e-9);
  return claim > 0 ? std::min(claim, 1.0) : 0.0;  // NaN counts as 0
}

std::vector<double> Acceptance::estimate(const DraftView& draft) const {
  const size_t n = draft.parents.size();
  std::vector<double> path(n);
  double unknown = 1.0;
  for (size_t i = 0; i < n; ++i) {
    const int parent = draft.parents[i];
    const double before = parent < 0 ? 1.0 : path[parent];
    if (draft.probabilities.empty()) {
      unknown *= kUnknown;
      path[i] = std::min(before, ranks_[std::min<size_t>(i, kRanks - 1)].rate(unknown));
    } else {
      const double claim = given_parent(draft, i);
      path[i] = before * claims_[bin_of(claim)].rate(claim);
    }
  }
  return path;
}

std::vector<int32_t> Acceptance::worthwhile(const DraftView& draft, const Prices& prices) const {
  const std::vector<double> probable = estimate(draft);
  const size_t n = probable.size();
  if (prices.extra.size() <= n)
    throw std::invalid_argument("the prices end before the number of nodes");
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  // Stable, so that a parent stays before an equally probable child.
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return probable[a] > probable[b]; });
  size_t best = 0;
  double most = 0.0, gain = 0.0;
  for (size_t k = 1; k <= n; ++k) {
    gain += probable[order[k - 1]] * prices.pace - prices.per_node;
    if (prices.extra[k] <= prices.limit && gain - prices.extra[k] > most) {
      best = k;
      most = gain - prices.extra[k];
    }
  }
  order.resize(best);
  std::sort(order.begin(), order.end());
  return order;
}

void Acceptance::learn(const DraftView& draft, std::span<const int32_t> committed) {
  const size_t n = draft.parents.size();
  enum : uint8_t { kMissed, kHit, kBelow };  // kBelow: a descendant of the last hit
  std::vector<uint8_t> fate(n, kMissed);
  std::vector<uint32_t> depth(n);
  int at = -1;
  size_t matched = 0;
  for (size_t i = 0; i < n; ++i) {
    const int parent = draft.parents[i];
    depth[i] = parent < 0 ? 0 : depth[parent] + 1;
    if (parent == at && matched < committed.size() && draft.tokens[i] == committed[matched]) {
      fate[i] = kHit;
      at = static_cast<int>(i);
      ++matched;
    }
  }
  const bool open = matched == committed.size() && at >= 0;
  for (auto& bin : claims_) bin.claimed *= kDecay, bin.accepted *= kDecay;
  for (auto& bin : ranks_) bin.claimed *= kDecay, bin.accepted *= kDecay;
  double unknown = 1.0;
  for (size_t i = 0; i < n; ++i) {
    const int parent = draft.parents[i];
    unknown *= kUnknown;
    if (open && parent >= 0 && (parent == at || fate[parent] == kBelow)) {
      fate[i] = kBelow;
      continue;
    }
    Bin* bin = &ranks_[std::min<size_t>(i, kRanks - 1)];
    double claim = unknown;
    if (!draft.probabilities.empty()) {
      if (parent >= 0 && fate[parent] != kHit) continue;
      claim = given_parent(draft, i);
      bin = &claims_[bin_of(claim)];
    }
    bin->claimed += claim;
    bin->accepted += fate[i] == kHit;
  }
}

}  // namespace tasc
