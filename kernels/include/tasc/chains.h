// A step of many sequences at once, as a serving engine asks for it: each reads what was committed,
// and drafts a chain.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "tasc/ngram_draft.h"

namespace tasc {

using Tokens = std::vector<int32_t>;

// The path of a tree that follows the first child of each node, which is its most probable one; it
// ends above the first node whose path is less likely than least.
inline void follow_first(const DraftTree& tree, double least, Tokens& tokens) {
  int32_t last = -1;
  for (size_t i = 0; i < tree.tokens.size(); ++i) {
    if (tree.parents[i] != last) continue;
    if (tree.probabilities[i] < least) return;
    tokens.push_back(tree.tokens[i]);
    last = static_cast<int32_t>(i);
  }
}

// The chain of a drafter, budget tokens at most; kinds that can, draft nothing beside it.
template <class Drafter>
void draft_chain(Drafter& drafter, int budget, double least, Tokens& tokens) {
  if constexpr (requires { drafter.chains(); })
    if (drafter.chains()) return drafter.chain(budget, least, tokens);
  follow_first(drafter.draft(budget), least, tokens);
}

// Sequence i reads tokens[i] and drafts budgets[i] tokens at most, before the next one does: what it
// looks at is then in cache.
template <class Drafter>
std::vector<Tokens> step_chains(std::span<Drafter* const> drafters, std::span<const Tokens> tokens,
                                std::span<const int32_t> budgets, double least) {
  if (tokens.size() != drafters.size() || budgets.size() != drafters.size())
    throw std::invalid_argument("each drafter needs tokens and a budget of its own");
  std::vector<Tokens> chains(drafters.size());
  for (size_t i = 0; i < drafters.size(); ++i) {
    for (const int32_t token : tokens[i]) drafters[i]->append(token);
    if (budgets[i] > 0) draft_chain(*drafters[i], budgets[i], least, chains[i]);
  }
  return chains;
}

}  // namespace tasc
