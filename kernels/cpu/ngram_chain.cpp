#include <algorithm>

#include "likelier.h"
#include "named_tokens.h"
#include "tasc/ngram_draft.h"

namespace tasc {

// A chain has one candidate at a time, so that nothing needs sorting, and lists are only read up to the
// likeliest token.
void NgramDrafter::chain(int budget, double least, std::vector<int32_t>& tokens) {
  refresh();
  const double bound = std::max(options_.min_probability, least) * kBelow;
  State state = now_;
  double probability = 1;
  for (int i = 0; i < budget; ++i) {
    const NamedTokens& named = collect(state, {bound / probability, true, 0});
    Candidate best{0, -1, -1, NgramIndex::kNone, 0};
    for (size_t n = 0; n < named.size(); ++n) {
      const double p = probability * named[n].probability;
      const Candidate other{static_cast<float>(p), -1, named[n].token, named[n].child, named[n].depth};
      if (p > bound && (best.token < 0 || better(other, best))) best = other;
    }
    if (best.token < 0 || best.token == options_.end || best.probability < least) return;
    tokens.push_back(best.token);
    if (i + 1 == budget) return;
    state = step(state, best);
    probability = best.probability;
  }
}

}  // namespace tasc
