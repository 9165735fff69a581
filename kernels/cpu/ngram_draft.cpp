#include "tasc/ngram_draft.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "likelier.h"
#include "named_tokens.h"

namespace tasc {
namespace {

constexpr size_t kMemory = SourceWeights::kMemory, kLocal = SourceWeights::kLocal, kMatches = SourceWeights::kMatches;

}  // namespace

NgramDrafter::NgramDrafter(std::vector<const NgramIndex*> corpora, const NgramTable* memory, SourceWeights* weights,
                           bool prompt, int n_max, const DraftOptions& options)
    : corpora_(std::move(corpora)), memory_(memory), prompt_(prompt), options_(options), local_(n_max), now_{},
      fixed_(corpora_.size(), memory, prompt, options.lambda, options.gain, options.match), learnt_(weights),
      only_(memory || (prompt && !corpora_.empty()) ? Source::kOther : prompt ? Source::kPrompt : Source::kCorpus) {
  if (corpora_.size() > SourceWeights::kCorpora)
    throw std::invalid_argument("a drafter reads 8 corpora at most, got " + std::to_string(corpora_.size()));
  for (const int longest : {n_max, memory ? memory->n_max() : n_max})
    if (longest > 15) throw std::invalid_argument("n_max must be in 1..15, got " + std::to_string(longest));
}

void NgramDrafter::start(std::span<const int32_t> prompt, bool mark) {
  local_.clear();
  guess_.clear();
  now_ = State{};
  refresh();
  prompting_ = true;
  for (const int32_t token : prompt) append(token);
  prompting_ = false;
  output_.clear();
  sources_.clear();
  if (!mark) return;
  local_.append(-2);
  now_.local = local_.state();
  now_.in_local = {};
  for (size_t c = 0; c < corpora_.size(); ++c) now_.corpus[c] = corpora_[c]->step({}, NgramIndex::kMark);
  if (!memory_) return;
  now_.memory = memory_->step(NgramTable::kRoot, -2);
  now_.in_memory = memory_->latest(now_.memory);
}

// The shared memory may have been cleared since this sequence's last token.
void NgramDrafter::refresh() {
  if (!memory_ || generation_ == memory_->generation()) return;
  generation_ = memory_->generation();
  now_.memory = NgramTable::kRoot;
  now_.in_memory = {};
}

void NgramDrafter::append(int32_t token) {
  refresh();
  if (!prompting_) sources_.push_back(static_cast<uint8_t>(learnt_ ? learn(token) : only_));
  output_.push_back(token);
  now_.recent.append(token);
  now_.guessed = guess_.step(now_.guessed, token);
  if (prompt_) local_.append(token);
  for (size_t c = 0; c < corpora_.size(); ++c) now_.corpus[c] = corpora_[c]->step(now_.corpus[c], token);
  step_memory(now_, token, now_);
  now_.local = local_.state();
  now_.in_local = local_.match();
}

void NgramDrafter::step_memory(const State& state, int32_t token, State& next) const {
  if (!memory_) return;
  next.memory = memory_->step(state.memory, token);
  next.in_memory = memory_->follow(state.in_memory, token, next.memory);
}

NgramDrafter::State NgramDrafter::step(const State& state, const Candidate& node) const {
  State next{};
  for (size_t c = 0; c < corpora_.size(); ++c)
    next.corpus[c] = c == 0 && node.child != NgramIndex::kNone
                         ? corpora_[c]->step_along(state.corpus[c], node.token, node.child, node.depth)
                         : corpora_[c]->step(state.corpus[c], node.token);
  next.recent = state.recent;
  next.recent.append(node.token);
  next.guessed = guess_.step(state.guessed, node.token);
  step_memory(state, node.token, next);
  if (!prompt_) return next;
  next.local = local_.step(state.local, node.token);
  next.in_local = local_.follow(state.in_local, node.token, next.local);
  return next;
}

void NgramDrafter::collect_table(const NgramTable& table, uint32_t context, double weight, double least,
                                 NamedTokens& named) const {
  double scale = weight;
  for (uint32_t i = table.known(context); i != NgramTable::kRoot; i = table.node(i).shorter) {
    const NgramTable::Node& node = table.node(i);
    const double unit = scale / node.total;
    int room = NgramTable::kRecent;
    for (uint32_t c = node.child; c != NgramTable::kNone && room-- > 0; c = table.node(c).sibling)
      named.add(table.node(c).token, unit * (table.node(c).count - options_.discount));
    scale = unit * options_.discount * node.distinct;
    if (scale < std::max(kCut * weight, least)) return;
  }
}

void NgramDrafter::collect_said(const RecycledLogits::Row& said, double weight, NamedTokens& named) {
  for (size_t i = 0; i < said.tokens.size() && said.tokens[i] >= 0; ++i)
    named.add(said.tokens[i], weight * said.probabilities[i]);
}

// Each corpus adds a token once, at its longest context, whose probability includes shorter contexts.
void NgramDrafter::name(size_t source, const NgramIndex::Entry& entry, double probability, uint32_t depth,
                        NamedTokens& named) const {
  const auto bit = static_cast<uint8_t>(1u << source);
  NamedTokens::Seen& slot = named.slot(entry.token());
  if (slot.token >= 0 && (slot.sources & bit)) return;
  NamedTokens::Seen* seen = named.add(slot, entry.token(), probability);
  if (!seen) return;
  seen->sources |= bit;
  if (source > 0) return;
  corpora_[0]->prefetch_node(entry.child());
  seen->child = entry.child();
  seen->depth = static_cast<uint8_t>(depth);
}

void NgramDrafter::collect_corpus(size_t source, const IndexState& state, double weight, const Bound& bound,
                                  NamedTokens& named) const {
  const NgramIndex& index = *corpora_[source];
  double scale = weight;
  if (state.single > 0) {
    const double rest = index.single_back_off(state.single);
    if (const int32_t token = index.predicted(state.match); token >= 0)
      named.add(token, scale * (1 - rest));  // shorter contexts add to it
    scale *= rest;
  }
  const size_t before = named.size();
  const auto bit = static_cast<uint8_t>(1u << source);
  const double most = named.most();
  const auto floor = [&] { return bound.best ? std::max(bound.floor, kBelow * named.most()) : bound.floor; };
  // Bounds on the mass that shorter contexts can add, to new tokens and to tokens of other sources.
  const auto decided = [&](double rest) {
    for (size_t u = 0; u < before; ++u)
      if (!(named[u].sources & bit) && named[u].probability + rest > floor()) return false;
    return rest <= floor();
  };
  const auto levels = [&](auto&& visit) {  // (list, scale, tokens) of each context, until visit returns false
    double left = scale;
    uint32_t node = state.node;
    for (uint32_t order = state.depth; left >= kCut * weight && left + most > bound.floor; --order) {
      if (!visit(node, left, order) || node == 0 || order == 0) break;
      left *= index.back_off(node);
      node = index.shorter(node);
    }
  };
  // If all contexts may be needed, follow their chain first, so that their lists are fetched in parallel.
  if (!bound.best) levels([&](uint32_t node, double, uint32_t) { return index.prefetch_list(node), true; });
  levels([&](uint32_t node, double left, uint32_t order) {
    if (bound.best && decided(left)) return false;
    // Lists are sorted by probability: below the floor, only tokens of other sources still matter.
    const auto list = index.ranked(node);
    size_t i = 0;
    for (; i < list.size() && left * index.probability(list[i]) > floor(); ++i)
      if (list[i].token() < index.vocabulary())  // not a mark
        name(source, list[i], left * index.probability(list[i]), order, named);
    if (i == list.size()) return true;
    const double highest = left * index.probability(list[i]);
    for (size_t u = 0; u < before; ++u) {
      const NamedTokens::Seen& seen = named[u];
      if ((seen.sources & bit) || seen.probability + highest <= floor()) continue;
      if (const NgramIndex::Entry* entry = index.find(node, seen.token))
        name(source, *entry, left * index.probability(*entry), order, named);
    }
    return true;
  });
}

NamedTokens& NgramDrafter::collect(const State& state, Bound bound) {
  NamedTokens& named = NamedTokens::of_thread();
  named.clear();
  weigh(state);
  // With one corpus, an entry below the floor stays below it. Entries of two corpora could add up.
  if (corpora_.size() != 1) bound = {-1, false, bound.least};
  for (const Active& active : active_) {
    const size_t source = active.source;
    if (active.weight < std::max(bound.least, kCut / 2)) continue;
    if (source == SourceWeights::kGuess)
      guess_.each(state.guessed, [&](int32_t token, double p) { named.add(token, active.weight * p); });
    else if (active.said) collect_said(*active.said, active.weight, named);
    else if (source >= kMatches) named.add(predicted(source - kMatches, state), active.weight);
    else if (source == kLocal) collect_table(local_, state.local, active.weight, bound.least, named);
    else if (source == kMemory) collect_table(*memory_, state.memory, active.weight, bound.least, named);
    else collect_corpus(source, state.corpus[source], active.weight, bound, named);
  }
  return named;
}

std::vector<Proposal> NgramDrafter::distribution() {
  refresh();
  const NamedTokens& named = collect(now_, {-1, false, 0});
  std::vector<Proposal> distribution;
  for (size_t i = 0; i < named.size(); ++i) distribution.push_back({named[i].token, named[i].probability});
  std::sort(distribution.begin(), distribution.end(), better<Proposal>);
  return distribution;
}

// Only candidates above the floor can become nodes.
float NgramDrafter::floor() const { return open_.size() - head_ >= room_ ? open_.back().probability : 0.f; }

void NgramDrafter::offer(const Candidate& candidate) {
  if (candidate.probability <= floor() || candidate.token == options_.end) return;
  if (open_.size() - head_ >= room_) open_.pop_back();
  const auto at = std::upper_bound(open_.begin() + static_cast<std::ptrdiff_t>(head_), open_.end(), candidate,
                                   [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; });
  open_.insert(at, candidate);
}

void NgramDrafter::expand(const State& state, int32_t node, double probability) {
  const double least = std::max<double>(floor(), options_.min_probability * kBelow);
  const NamedTokens& named = collect(state, {least / probability, false, kCut * floor() / probability});
  fresh_.clear();
  for (size_t i = 0; i < named.size(); ++i)
    if (const double p = probability * named[i].probability; p > least)
      fresh_.push_back({static_cast<float>(p), node, named[i].token, named[i].child, named[i].depth});
  const auto width = static_cast<size_t>(options_.width);
  if (width > 0 && fresh_.size() > width) {
    std::partial_sort(fresh_.begin(), fresh_.begin() + options_.width, fresh_.end(), better<Candidate>);
    fresh_.resize(width);
  }
  for (const Candidate& candidate : fresh_) offer(candidate);
}

DraftTree NgramDrafter::draft(int budget) {
  DraftTree tree;
  if (budget <= 0) return tree;
  refresh();
  room_ = static_cast<size_t>(budget);
  tree.tokens.reserve(room_), tree.parents.reserve(room_), tree.probabilities.reserve(room_);
  states_.resize(std::max(states_.size(), room_));
  open_.clear();
  head_ = 0;
  expand(now_, -1, 1.0);
  while (head_ < open_.size()) {
    const Candidate best = open_[head_++];
    const size_t node = tree.tokens.size();
    tree.tokens.push_back(best.token);
    tree.parents.push_back(best.parent);
    tree.probabilities.push_back(best.probability);
    if (--room_ == 0) break;
    for (size_t next = head_; next < std::min(head_ + 2, open_.size()); ++next)
      if (!corpora_.empty()) corpora_[0]->prefetch_context(open_[next].child);
    states_[node] = step(best.parent < 0 ? now_ : states_[static_cast<size_t>(best.parent)], best);
    expand(states_[node], static_cast<int32_t>(node), best.probability);
  }
  return tree;
}

}  // namespace tasc
