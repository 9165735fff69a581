#include "tasc/suffix_draft.h"

#include <algorithm>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>

namespace tasc {
namespace {

constexpr uint32_t kSampled = 1024;
constexpr uint32_t kSign = 0x80000000;  // flipping it sorts ids as unsigned numbers

struct Candidate {
  double probability;
  int32_t parent, token;
  uint32_t order;  // of discovery: breaks ties, so that drafts are deterministic
  bool operator<(const Candidate& other) const {
    return probability != other.probability ? probability < other.probability : order > other.order;
  }
};

}  // namespace

SuffixArray::SuffixArray(std::span<const int32_t> tokens, std::span<const int64_t> offsets, int32_t end) {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<int64_t>(tokens.size()) ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must rise from 0 to the number of tokens (" + std::to_string(tokens.size()) + ")");
  if (tokens.size() + offsets.size() >= 0x80000000u)
    throw std::invalid_argument("a suffix array holds 2^31 tokens at most");
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    text_.insert(text_.end(), tokens.begin() + offsets[s], tokens.begin() + offsets[s + 1]);
    text_.push_back(end);
  }
  // Prefix doubling: sort groups of equal suffixes by the rank of the suffix `step` tokens later.
  const auto n = static_cast<uint32_t>(text_.size());
  order_.resize(n);
  ranks_.resize(n);
  for (uint32_t i = 0; i < n; ++i) order_[i] = i, ranks_[i] = static_cast<uint32_t>(text_[i]) ^ kSign;
  std::vector<Interval> groups = {{0, n, 0}};
  refine(0, groups);
  for (uint32_t step = 1; step < kDepth && !groups.empty(); step *= 2) refine(step, groups);
  ranks_ = {};
}

void SuffixArray::refine(uint32_t step, std::vector<Interval>& groups) {
  std::vector<Interval> open;
  std::vector<uint64_t> keys;
  for (const Interval& group : groups) {
    keys.clear();
    for (uint32_t i = group.begin; i < group.end; ++i) {
      const size_t at = size_t{order_[i]} + step;
      const uint32_t rank = at < ranks_.size() ? ranks_[at] + (step > 0) : 0;  // 0: end of the text
      keys.push_back(uint64_t{rank} << 32 | order_[i]);
    }
    std::sort(keys.begin(), keys.end());
    for (uint32_t i = group.begin; i < group.end; ++i) order_[i] = static_cast<uint32_t>(keys[i - group.begin]);
    for (uint32_t i = group.begin; i < group.end;) {
      const uint32_t begin = i;
      while (i < group.end && keys[i - group.begin] >> 32 == keys[begin - group.begin] >> 32) ++i;
      if (i - begin > 1) open.push_back({begin, i, 0});
      // The first round ranks by token id, and replaces the ranks once it is sorted.
      if (step > 0)
        for (uint32_t k = begin; k < i; ++k) ranks_[order_[k]] = begin;
    }
  }
  if (step == 0) {
    uint32_t rank = 0;
    for (uint32_t i = 0; i < order_.size(); ++i) {
      if (i && text_[order_[i]] != text_[order_[i - 1]]) rank = i;
      ranks_[order_[i]] = rank;
    }
  }
  groups.swap(open);
}

SuffixArray::Interval SuffixArray::narrow(const Interval& interval, int32_t token) const {
  const auto position = [&](uint32_t from, bool after) {
    uint32_t low = from, high = interval.end;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      const int32_t t = next(interval, middle);
      (after ? t <= token : t < token) ? low = middle + 1 : high = middle;
    }
    return low;
  };
  // After an end token comes another sample, or nothing.
  if (interval.length + 1 >= kDepth || interval.begin == interval.end || token == text_.back()) return {};
  const uint32_t begin = position(interval.begin, false);
  const uint32_t end = position(begin, true);
  return begin < end ? Interval{begin, end, interval.length + 1} : Interval{};
}

SuffixArray::Interval SuffixArray::find(std::span<const int32_t> pattern) const {
  Interval interval{0, static_cast<uint32_t>(order_.size()), 0};
  for (const int32_t token : pattern) {
    interval = narrow(interval, token);
    if (interval.length == 0) break;
  }
  return interval;
}

const char* SuffixArray::check_integrity() const {
  for (size_t i = 1; i < order_.size(); ++i) {
    const auto first = std::span(text_).subspan(order_[i - 1]), second = std::span(text_).subspan(order_[i]);
    const auto a = first.first(std::min<size_t>(first.size(), kDepth)), b = second.first(std::min<size_t>(second.size(), kDepth));
    if (std::lexicographical_compare(b.begin(), b.end(), a.begin(), a.end())) return "suffixes rise";
  }
  return nullptr;
}

SuffixDrafter::SuffixDrafter(const SuffixArray& corpus, int longest, double min_probability, int width, int32_t end)
    : corpus_(corpus), longest_(static_cast<uint32_t>(longest)), min_probability_(min_probability), width_(width), end_(end),
      local_(longest) {}

void SuffixDrafter::start(std::span<const int32_t> prompt) {
  local_.clear();
  sequence_.clear();
  match_ = {};
  for (const int32_t token : prompt) append(token);
}

void SuffixDrafter::append(int32_t token) {
  local_.append(token);
  sequence_.push_back(token);
  match_ = corpus_.narrow(match_.length ? match_ : corpus_.find({}), token);
  if (match_.length) return;
  // The match does not continue. Find the longest shorter one by bisection, because a text that contains
  // a suffix contains all shorter ones.
  size_t low = 0, high = std::min<size_t>(sequence_.size(), longest_);
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    const auto found = corpus_.find(std::span(sequence_).last(middle));
    if (found.length) {
      match_ = found;
      low = middle;
    } else {
      high = middle - 1;
    }
  }
}

SuffixDrafter::State SuffixDrafter::step(const State& state, int32_t token) const {
  State next;
  if (state.corpus.length) next.corpus = corpus_.narrow(state.corpus, token);
  if (state.local == NgramTable::kRoot) return next;
  const uint32_t local = local_.step(state.local, token);
  // Only longer matches continue here; step falls back to shorter ones.
  const uint32_t depth = local_.node(state.local).depth;
  if (local_.node(local).depth > depth || depth == longest_) next.local = local;
  return next;
}

std::vector<Proposal> SuffixDrafter::propose(const State& state) const {
  const uint32_t local = state.local != NgramTable::kRoot && local_.node(state.local).total ? state.local : NgramTable::kRoot;
  const uint32_t depth = local == NgramTable::kRoot ? 0 : local_.node(local).depth;
  const SuffixArray::Interval& interval = state.corpus;
  std::map<int32_t, double> counts;
  double total = 0;
  if (interval.length && interval.length >= depth) {
    const uint32_t stride = std::max(1u, (interval.end - interval.begin) / kSampled);
    for (uint32_t i = interval.begin; i < interval.end; i += stride) counts[corpus_.next(interval, i)] += stride, total += stride;
  }
  if (depth && depth >= interval.length)
    for (uint32_t c = local_.node(local).child; c != NgramTable::kNone; c = local_.node(c).sibling)
      counts[local_.node(c).token] += local_.node(c).count, total += local_.node(c).count;
  std::vector<Proposal> distribution;
  for (const auto& [token, count] : counts) distribution.push_back({token, count / total});
  std::stable_sort(distribution.begin(), distribution.end(), [](const Proposal& a, const Proposal& b) { return a.probability > b.probability; });
  return distribution;
}

DraftTree SuffixDrafter::draft(int budget) const {
  DraftTree tree;
  if (budget <= 0) return tree;
  std::priority_queue<Candidate> open;
  std::vector<State> states;
  uint32_t order = 0;
  const auto expand = [&](const State& state, int32_t node, double probability) {
    const int most = width_ > 0 ? std::min(width_, budget) : budget;
    int named = 0;
    for (const Proposal& p : propose(state)) {
      if (named++ == most || probability * p.probability < min_probability_) break;
      open.push({probability * p.probability, node, p.token, order++});
    }
  };
  const State now{match_, local_.known(local_.state())};
  expand(now, -1, 1.0);
  while (!open.empty() && static_cast<int>(tree.tokens.size()) < budget) {
    const Candidate best = open.top();
    open.pop();
    const auto node = static_cast<int32_t>(tree.tokens.size());
    tree.tokens.push_back(best.token);
    tree.parents.push_back(best.parent);
    tree.probabilities.push_back(static_cast<float>(best.probability));
    states.push_back(best.token == end_ ? State{} : step(best.parent < 0 ? now : states[static_cast<size_t>(best.parent)], best.token));
    if (best.token != end_) expand(states.back(), node, best.probability);
  }
  return tree;
}

}  // namespace tasc
