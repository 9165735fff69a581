#include <algorithm>
#include <queue>

#include "tasc/ngram_model.h"

namespace tasc {
namespace {

double probability_of(const Continuations& side, int32_t token) {
  const auto it = std::find_if(side.items.begin(), side.items.end(),
                               [&](const Continuation& c) { return c.token == token; });
  return it == side.items.end() ? 0 : static_cast<double>(it->count) / side.total;
}

// A path that may become a node: its last token continues the node parent.
struct Candidate {
  double probability;
  int32_t parent;
  int32_t token;
  uint32_t order;  // of discovery: settles ties, so a draft repeats exactly
  bool operator<(const Candidate& other) const {
    return probability != other.probability ? probability < other.probability : order > other.order;
  }
};

}  // namespace

void mixture(const NgramIndex& corpus, const LocalTable& local, std::span<const int32_t> context,
             double lambda, size_t limit, std::vector<std::pair<int32_t, double>>& law) {
  thread_local std::vector<uint64_t> keys;
  context_keys(context, corpus.n_max(), keys);
  const Continuations global = corpus.find(keys);
  const Continuations prompt = local.find(keys);
  law.clear();
  if (!global && !prompt) {  // the paper's last resort: the most frequent token
    const Continuation c = corpus.most_frequent();
    if (c.token >= 0) law.emplace_back(c.token, static_cast<double>(c.count) / corpus.tokens());
    return;
  }
  const double a = !prompt ? 1 : global ? lambda : 0;
  for (const Continuation& c : prompt.items) {
    const double p = (1 - a) * c.count / prompt.total;
    law.emplace_back(c.token, p + (a > 0 ? a * probability_of(global, c.token) : 0));
  }
  // Tokens that both sides name are in already; of the rest only the corpus' best can matter.
  const size_t shared = law.size();
  for (const Continuation& c : global.items) {
    if (law.size() - shared >= limit) break;
    const auto end = law.begin() + static_cast<std::ptrdiff_t>(shared);
    if (std::none_of(law.begin(), end, [&](const auto& x) { return x.first == c.token; }))
      law.emplace_back(c.token, a * c.count / global.total);
  }
  std::sort(law.begin(), law.end(), [](const auto& x, const auto& y) {
    return x.second != y.second ? x.second > y.second : x.first < y.first;
  });
  if (law.size() > limit) law.resize(limit);
}

DraftTree draft_tree(const NgramIndex& corpus, const LocalTable& local, const DraftOptions& options) {
  DraftTree tree;
  if (options.budget <= 0) return tree;
  const size_t n_max = static_cast<size_t>(corpus.n_max());
  const size_t limit = static_cast<size_t>(options.width > 0 ? options.width : options.budget);
  std::priority_queue<Candidate> open;
  std::vector<std::pair<int32_t, double>> law;
  std::vector<int32_t> context, path;
  uint32_t order = 0;

  const auto expand = [&](int32_t node, double probability) {
    path.clear();
    for (int32_t i = node; i >= 0 && path.size() < n_max; i = tree.parents[i]) path.push_back(tree.tokens[i]);
    const auto sequence = local.sequence();
    const size_t before = std::min(sequence.size(), n_max - path.size());
    context.assign(sequence.end() - static_cast<std::ptrdiff_t>(before), sequence.end());
    context.insert(context.end(), path.rbegin(), path.rend());
    mixture(corpus, local, context, options.lambda, limit, law);
    for (const auto& [token, p] : law)
      if (probability * p >= options.min_probability) open.push({probability * p, node, token, order++});
  };

  expand(-1, 1.0);
  while (!open.empty() && static_cast<int>(tree.tokens.size()) < options.budget) {
    const Candidate best = open.top();
    open.pop();
    tree.tokens.push_back(best.token);
    tree.parents.push_back(best.parent);
    tree.probabilities.push_back(static_cast<float>(best.probability));
    if (best.token != options.end) expand(static_cast<int32_t>(tree.tokens.size()) - 1, best.probability);
  }
  return tree;
}

}  // namespace tasc
