// A step of many sequences at once, as a serving engine asks for it: each reads what was committed,
// and drafts a chain.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tasc/ngram_draft.h"

namespace tasc {

struct Chains {  // of sequence i: tokens[offsets[i] .. offsets[i + 1])
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets;
};

// The path of a tree that follows the first child of each node, which is its most probable one; it
// ends above the first node whose path is less likely than least.
inline void follow_first(const DraftTree& tree, double least, std::vector<int32_t>& tokens) {
  int32_t last = -1;
  for (size_t i = 0; i < tree.tokens.size(); ++i) {
    if (tree.parents[i] != last) continue;
    if (tree.probabilities[i] < least) return;
    tokens.push_back(tree.tokens[i]);
    last = static_cast<int32_t>(i);
  }
}

// Sequence i reads tokens[offsets[i] .. offsets[i + 1]).
template <class Drafter>
void observe_chains(std::span<Drafter* const> drafters, std::span<const int32_t> tokens,
                    std::span<const int64_t> offsets) {
  if (offsets.size() != drafters.size() + 1 || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(tokens.size()) || !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must rise from 0 to the number of tokens, one more than drafters");
  for (size_t i = 0; i < drafters.size(); ++i)
    for (int64_t t = offsets[i]; t < offsets[i + 1]; ++t) drafters[i]->append(tokens[static_cast<size_t>(t)]);
}

// The chain of a drafter, budget tokens at most; kinds that can, draft nothing beside it.
template <class Drafter>
void draft_chain(Drafter& drafter, int budget, double least, std::vector<int32_t>& tokens) {
  if constexpr (requires { drafter.chains(); })
    if (drafter.chains()) return drafter.chain(budget, least, tokens);
  follow_first(drafter.draft(budget), least, tokens);
}

// Sequence i drafts budgets[i] tokens at most.
template <class Drafter>
Chains draft_chains(std::span<Drafter* const> drafters, std::span<const int32_t> budgets, double least) {
  if (budgets.size() != drafters.size()) throw std::invalid_argument("each drafter needs a budget of its own");
  Chains chains{{}, {0}};
  for (size_t i = 0; i < drafters.size(); ++i) {
    if (budgets[i] > 0) draft_chain(*drafters[i], budgets[i], least, chains.tokens);
    chains.offsets.push_back(static_cast<int64_t>(chains.tokens.size()));
  }
  return chains;
}

}  // namespace tasc
