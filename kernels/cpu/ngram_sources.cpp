// The weights of the sources of a draft, and how they are learnt.
#include <algorithm>
#include <array>
#include <span>

#include "likelier.h"
#include "tasc/ngram_draft.h"

namespace tasc {
namespace {

constexpr size_t kMemory = SourceWeights::kMemory, kLocal = SourceWeights::kLocal, kMatches = SourceWeights::kMatches;

Source kind(size_t source) {
  if (source >= SourceWeights::kLogits + RecentTokens::kLongest) return Source::kOther;
  if (source >= SourceWeights::kLogits) return Source::kLogits;
  if (source >= kMatches) source -= kMatches;
  return source == kMemory ? Source::kMemory : source == kLocal ? Source::kPrompt : Source::kCorpus;
}

}  // namespace

Match NgramDrafter::match(size_t source, const State& state) const {
  return source == kLocal ? state.in_local : source == kMemory ? state.in_memory : state.corpus[source].match;
}

int32_t NgramDrafter::predicted(size_t source, const State& state) const {
  if (source == kLocal) return local_.predicted(state.in_local);
  if (source == kMemory) return memory_->predicted(state.in_memory);
  return corpora_[source]->predicted(state.corpus[source].match);
}

void NgramDrafter::weigh(const State& state) {
  const SourceWeights& weights = learnt_ ? *learnt_ : fixed_;
  active_.clear();
  double total = 0;
  const auto put = [&](size_t source, size_t bucket, const RecycledLogits::Row* said = nullptr) {
    const double weight = weights.weight(source, bucket);
    if (weight > 0) active_.push_back({source, bucket, weight, said});
    total += weight;
  };
  const auto each = [&](auto&& visit) {
    if (prompt_) visit(kLocal);
    if (memory_) visit(kMemory);
    for (size_t c = 0; c < corpora_.size(); ++c) visit(c);
  };
  if (options_.match)
    each([&](size_t source) {
      if (predicted(source, state) >= 0) put(kMatches + source, SourceWeights::bucket(match(source, state).length));
    });
  if (guess_.continues(state.guessed)) put(SourceWeights::kGuess, guess_.bucket(state.guessed));
  size_t longest = 0;  // context of recycled logits, in tokens
  for (int n = logits_ ? RecentTokens::kLongest : 0; n > 0; --n)
    if (const auto* row = logits_->find(state.recent, n)) {
      longest = std::max(longest, static_cast<size_t>(n));
      put(SourceWeights::kLogits + static_cast<size_t>(n) - 1, longest, row);
    }
  each([&](size_t source) {
    const int length = source == kLocal    ? static_cast<int>(local_.node(local_.known(state.local)).depth)
                       : source == kMemory ? static_cast<int>(memory_->node(memory_->known(state.memory)).depth)
                                           : corpora_[source]->order(state.corpus[source]);
    if (length > 0) put(source, static_cast<size_t>(length));
  });
  for (Active& active : active_) active.weight /= total;
  if (active_.empty() && options_.fallback)
    for (size_t c = 0; c < corpora_.size(); ++c) active_.push_back({c, 0, 1.0 / static_cast<double>(corpora_.size())});
}

double NgramDrafter::probability(const NgramTable& table, uint32_t context, int32_t token) const {
  double scale = 1, found = 0;
  for (uint32_t i = table.known(context); i != NgramTable::kRoot && scale >= kCut; i = table.node(i).shorter) {
    const double unit = scale / table.node(i).total;
    if (const uint32_t child = table.continuation(i, token); child != NgramTable::kNone)
      found += unit * (table.node(child).count - options_.discount);
    scale = unit * options_.discount * table.node(i).distinct;
  }
  return found;
}

double NgramDrafter::probability(const NgramIndex& index, const IndexState& state, int32_t token) const {
  double scale = 1, found = 0;
  if (state.single > 0) {
    const double rest = index.single_back_off(state.single);
    if (index.predicted(state.match) == token) found = 1 - rest;
    scale = rest;
  }
  for (uint32_t node = state.node; scale >= kCut; node = index.shorter(node)) {
    if (const NgramIndex::Entry* entry = index.find(node, token)) return found + scale * index.probability(*entry);
    if (node == 0) break;
    scale *= index.back_off(node);
  }
  return found;
}

double NgramDrafter::probability(const Active& active, const State& state, int32_t token) const {
  if (active.said) return active.said->probability(token);
  const size_t source = active.source;
  if (source == SourceWeights::kGuess) return guess_.probability(state.guessed, token);
  if (source >= kMatches) return predicted(source - kMatches, state) == token;
  if (source == kLocal) return probability(local_, state.local, token);
  if (source == kMemory) return probability(*memory_, state.memory, token);
  return probability(*corpora_[source], state.corpus[source], token);
}

Source NgramDrafter::learn(int32_t token) {
  weigh(now_);
  if (active_.empty()) return Source::kOther;
  if (active_.size() == 1) return kind(active_.front().source);
  double given[SourceWeights::kSources], total = 0;
  for (size_t i = 0; i < active_.size(); ++i)
    total += given[i] = active_[i].weight * probability(active_[i], now_, token);
  if (total <= 0) return Source::kOther;  // no source knows the token, so there is nothing to learn
  for (size_t i = 0; i < active_.size(); ++i)
    updates_.push_back({active_[i].source, active_[i].bucket, given[i] / total - active_[i].weight});
  if (!deferred_) apply_updates();
  std::array<double, 5> by_kind{};
  for (size_t i = 0; i < active_.size(); ++i) by_kind[static_cast<size_t>(kind(active_[i].source))] += given[i];
  return static_cast<Source>(std::max_element(by_kind.begin(), by_kind.end()) - by_kind.begin());
}

void NgramDrafter::apply_updates() {
  deferred_ = false;
  for (const Update& update : updates_) learnt_->learn(update.source, update.bucket, update.gradient);
  updates_.clear();
}

}  // namespace tasc
