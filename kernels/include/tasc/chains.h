// One step of many sequences for a serving engine: each reads its committed tokens and drafts a chain.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "tasc/ngram_draft.h"
#include "tasc/thread_pool.h"

namespace tasc {

using Tokens = std::vector<int32_t>;

// The path along the first, most probable child of each node. It ends before the first node with a path
// probability below least.
inline void follow_first(const DraftTree& tree, double least, Tokens& tokens) {
  int32_t last = -1;
  for (size_t i = 0; i < tree.tokens.size(); ++i) {
    if (tree.parents[i] != last) continue;
    if (tree.probabilities[i] < least) return;
    tokens.push_back(tree.tokens[i]);
    last = static_cast<int32_t>(i);
  }
}

// The chain of a drafter, at most budget tokens. Drafters with chain() do not build a tree for it.
template <class Drafter>
void draft_chain(Drafter& drafter, int budget, double least, Tokens& tokens) {
  if constexpr (requires { drafter.chains(); })
    if (drafter.chains()) return drafter.chain(budget, least, tokens);
  follow_first(drafter.draft(budget), least, tokens);
}

// Drafters share what they learn, so updates apply once all of them have drafted.
template <class Drafter>
class DeferredUpdates {
 public:
  explicit DeferredUpdates(std::span<Drafter* const> drafters)
      : drafters_(drafters.size() > 1 ? drafters : drafters.first(0)) {
    if constexpr (kLearns)
      for (Drafter* drafter : drafters_) drafter->defer_updates();
  }
  ~DeferredUpdates() {
    if constexpr (kLearns)
      for (Drafter* drafter : drafters_) drafter->apply_updates();
  }
  DeferredUpdates(const DeferredUpdates&) = delete;
  DeferredUpdates& operator=(const DeferredUpdates&) = delete;

 private:
  static constexpr bool kLearns = requires(Drafter& drafter) {
    drafter.defer_updates(), drafter.apply_updates();
  };
  std::span<Drafter* const> drafters_;
};

// Drafter i reads tokens[i] and drafts at most budgets[i] tokens; all drafters are distinct. Shared state
// does not change before the last one has drafted, so neither their order nor the pool's threads matter.
template <class Drafter>
std::vector<Tokens> step_chains(std::span<Drafter* const> drafters, std::span<const Tokens> tokens,
                                std::span<const int32_t> budgets, double least, ThreadPool* pool) {
  const size_t n = drafters.size();
  if (tokens.size() != n || budgets.size() != n)
    throw std::invalid_argument("each drafter needs tokens and a budget of its own");
  std::vector<Tokens> chains(n);
  const DeferredUpdates<Drafter> deferred(drafters);
  const auto draft = [&](size_t i) {
    for (const int32_t token : tokens[i]) drafters[i]->append(token);
    if (budgets[i] > 0) draft_chain(*drafters[i], budgets[i], least, chains[i]);
  };
  if (pool) pool->for_each(n, draft);
  else for (size_t i = 0; i < n; ++i) draft(i);
  return chains;
}

}  // namespace tasc
