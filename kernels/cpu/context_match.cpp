#include "tasc/context_match.h"

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <string>
#include <tuple>

namespace tasc {

std::pair<size_t, size_t> prompt_lookup(std::span<const int32_t> sequence, int n_max, size_t wanted) {
  if (n_max < 1) throw std::invalid_argument("n_max must be at least 1, got " + std::to_string(n_max));
  const size_t length = sequence.size();
  if (length < 2 || wanted == 0) return {0, 0};
  for (size_t n = std::min<size_t>(static_cast<size_t>(n_max), length - 1); n > 0; --n) {
    const auto tail = sequence.last(n);
    // The n-gram must end before the last token, because nothing follows the end of the sequence.
    const auto hit = std::search(sequence.begin(), sequence.end() - 1, tail.begin(), tail.end());
    if (hit == sequence.end() - 1) continue;
    const size_t begin = static_cast<size_t>(hit - sequence.begin()) + n;
    return {begin, begin + std::min(wanted, length - begin)};
  }
  return {0, 0};
}

LookupDrafter::LookupDrafter(int n_max, int chain, int32_t end) : n_max_(n_max), chain_(chain), end_(end) {
  if (n_max < 1) throw std::invalid_argument("n_max must be at least 1, got " + std::to_string(n_max));
}

DraftTree LookupDrafter::draft(int budget) const {
  DraftTree tree;
  const int wanted = chain_ > 0 ? std::min(budget, chain_) : budget;
  const auto [begin, stop] = prompt_lookup(sequence_, n_max_, static_cast<size_t>(std::max(wanted, 0)));
  for (size_t i = begin; i < stop && (tree.tokens.empty() || tree.tokens.back() != end_); ++i) {
    tree.parents.push_back(static_cast<int32_t>(tree.tokens.size()) - 1);
    tree.tokens.push_back(sequence_[i]);
    tree.probabilities.push_back(1);
  }
  return tree;
}

NgramTrie::NgramTrie(int n, int prefix) : n_(static_cast<size_t>(n)), prefix_(static_cast<size_t>(prefix)) {
  if (prefix < 1 || n <= prefix)
    throw std::invalid_argument("an n-gram trie needs 1 <= prefix < n, got prefix " + std::to_string(prefix) +
                                " and n " + std::to_string(n));
  nodes_.push_back({-1, 0, kNone, kNone, kNone});
}

uint32_t NgramTrie::find(uint32_t node, int32_t token) const {
  const auto hit = children_.find(uint64_t{node} << 32 | static_cast<uint32_t>(token));
  return hit == children_.end() ? kNone : hit->second;
}

void NgramTrie::insert(std::span<const int32_t> key) {
  uint32_t node = 0;
  for (const int32_t token : key) {
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    const auto [at, added] = children_.try_emplace(uint64_t{node} << 32 | static_cast<uint32_t>(token), fresh);
    if (added) {
      nodes_.push_back({token, 0, kNone, kNone, kNone});
      (nodes_[node].child == kNone ? nodes_[node].child : nodes_[nodes_[node].last].sibling) = fresh;
      nodes_[node].last = fresh;
    }
    node = at->second;
    ++nodes_[node].count;
  }
}

void NgramTrie::build(std::span<const int32_t> context) {
  nodes_.assign(1, {-1, 0, kNone, kNone, kNone});
  children_.clear();
  // Windows at the end are shorter, so that they include the last tokens.
  for (size_t i = 0; i + 1 < context.size(); ++i) {
    const auto window = context.subspan(i, std::min(n_, context.size() - i));
    for (size_t j = 0; j < prefix_ && j + 1 < window.size(); ++j) insert(window.subspan(j));
  }
}

DraftTree NgramTrie::draft(std::span<const int32_t> sequence, int num_draft, int budget) const {
  DraftTree tree;
  uint32_t root = kNone;
  for (size_t k = std::min(prefix_, sequence.size()); k > 0 && root == kNone; --k) {
    root = 0;
    for (const int32_t token : sequence.last(k))
      if (root != kNone) root = find(root, token);
    if (root != kNone && nodes_[root].child == kNone) root = kNone;
  }
  if (root == kNone || num_draft < 1 || budget < 1) return tree;

  // Breadth first, so that parents come before their children; the top of the heap is the worst selected node.
  struct Visit {
    uint32_t node;
    int32_t parent;
  };
  std::vector<Visit> visits;
  using Rank = std::tuple<uint32_t, int32_t>;  // frequency, minus the order of the visit
  std::priority_queue<Rank, std::vector<Rank>, std::greater<>> heap;
  const auto kept = static_cast<size_t>(std::min(num_draft, budget));
  const auto visit_children = [&](uint32_t node, int32_t parent) {
    for (uint32_t c = nodes_[node].child; c != kNone; c = nodes_[c].sibling) {
      const Rank rank{nodes_[c].count, -static_cast<int32_t>(visits.size())};
      // A node is never more frequent than its parent, so descendants of a dropped node are dropped, too.
      if (heap.size() == kept && rank < heap.top()) continue;
      if (heap.size() == kept) heap.pop();
      heap.push(rank);
      visits.push_back({c, parent});
    }
  };
  visit_children(root, -1);
  for (size_t i = 0; i < visits.size(); ++i) visit_children(visits[i].node, static_cast<int32_t>(i));

  std::vector<int32_t> chosen;
  for (; !heap.empty(); heap.pop()) chosen.push_back(-std::get<1>(heap.top()));
  std::sort(chosen.begin(), chosen.end());
  std::vector<int32_t> position(visits.size(), -1);
  for (const int32_t v : chosen) {
    const Visit& visit = visits[static_cast<size_t>(v)];
    position[static_cast<size_t>(v)] = static_cast<int32_t>(tree.tokens.size());
    tree.tokens.push_back(nodes_[visit.node].token);
    tree.parents.push_back(visit.parent < 0 ? -1 : position[static_cast<size_t>(visit.parent)]);
    tree.probabilities.push_back(static_cast<float>(nodes_[visit.node].count) / static_cast<float>(nodes_[root].count));
  }
  return tree;
}

}  // namespace tasc
