#include "tasc/ngram_draft.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace tasc {
namespace {

constexpr double kCut = 1.0 / 128;
constexpr size_t kSlots = 4096;  // tokens named at one place: at most half of them are kept apart
constexpr size_t kMemory = 8, kLocal = 9;
constexpr uint32_t kTables = 0;  // tables add up over orders; a corpus names a token once

bool better(const Proposal& a, const Proposal& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

}  // namespace

NgramDrafter::NgramDrafter(std::vector<const NgramIndex*> corpora, const NgramTable* memory, bool prompt,
                           int n_max, const DraftOptions& options)
    : corpora_(std::move(corpora)), memory_(memory), prompt_(prompt), options_(options), local_(n_max),
      now_{}, weights_{}, seen_(kSlots, Seen{-1, 0, 0}) {
  if (corpora_.size() > 8)
    throw std::invalid_argument("a drafter reads 8 corpora at most, got " + std::to_string(corpora_.size()));
  for (int length = 0; length <= 16; ++length) gains_.push_back(std::exp(options.gain * length));
}

void NgramDrafter::start(std::span<const int32_t> prompt, bool mark) {
  local_.clear();
  now_ = State{};
  refresh();
  for (const int32_t token : prompt) append(token);
  if (!mark) return;
  local_.append(-2);
  now_.local = local_.state();
  for (size_t c = 0; c < corpora_.size(); ++c) now_.corpus[c] = corpora_[c]->step({}, NgramIndex::kMark);
  if (memory_) now_.memory = memory_->step(NgramTable::kRoot, -2);
}

// The memory is shared and may have been emptied since this sequence's last token.
void NgramDrafter::refresh() {
  if (!memory_ || generation_ == memory_->generation()) return;
  generation_ = memory_->generation();
  now_.memory = NgramTable::kRoot;
}

void NgramDrafter::append(int32_t token) {
  refresh();
  if (prompt_) local_.append(token);
  for (size_t c = 0; c < corpora_.size(); ++c) now_.corpus[c] = corpora_[c]->step(now_.corpus[c], token);
  if (memory_) now_.memory = memory_->step(now_.memory, token);
  now_.local = local_.state();
}

NgramDrafter::State NgramDrafter::step(const State& state, int32_t token) const {
  State next = state;
  for (size_t c = 0; c < corpora_.size(); ++c) next.corpus[c] = corpora_[c]->step(state.corpus[c], token);
  if (memory_) next.memory = memory_->step(state.memory, token);
  if (prompt_) next.local = local_.step(state.local, token);
  return next;
}

void NgramDrafter::weigh(const State& state) {
  const double n = static_cast<double>(corpora_.size() + (memory_ != nullptr));
  const double lambda = n == 0 ? 0 : prompt_ ? options_.lambda : 1;
  double total = 0;
  const auto put = [&](size_t source, double share, int length) {
    weights_[source] = length > 0 ? share * gains_[static_cast<size_t>(length)] : 0;
    total += weights_[source];
  };
  for (size_t c = 0; c < corpora_.size(); ++c) put(c, lambda / n, corpora_[c]->order(state.corpus[c]));
  put(kMemory, lambda / n, memory_ ? static_cast<int>(memory_->node(memory_->known(state.memory)).depth) : 0);
  put(kLocal, 1 - lambda, prompt_ ? static_cast<int>(local_.node(local_.known(state.local)).depth) : 0);
  if (total > 0) {
    for (double& w : weights_) w /= total;
  } else if (options_.fallback) {
    for (size_t c = 0; c < corpora_.size(); ++c) weights_[c] = 1.0 / static_cast<double>(corpora_.size());
  }
}

NgramDrafter::Seen& NgramDrafter::slot(int32_t token) {
  size_t at = (static_cast<uint32_t>(token) * 2654435769u) >> 20;  // 12 bits, as kSlots
  while (seen_[at].token >= 0 && seen_[at].token != token) at = (at + 1) & (kSlots - 1);
  return seen_[at];
}

void NgramDrafter::add(int32_t token, double probability, uint32_t source, bool once, double floor) {
  Seen& seen = slot(token);
  if (seen.token < 0) {
    if (probability <= floor || used_.size() >= kSlots / 2) return;
    seen = {token, 0, 0};
    used_.push_back(static_cast<uint32_t>(&seen - seen_.data()));
  } else if (seen.sources & source) {
    return;  // a longer context has named it, and its probability includes this one's
  }
  seen.probability += probability;
  if (once) seen.sources |= source;
}

void NgramDrafter::collect_table(const NgramTable& table, uint32_t context, double weight) {
  double scale = weight;
  for (uint32_t i = table.known(context); i != NgramTable::kRoot; i = table.node(i).shorter) {
    const NgramTable::Node& node = table.node(i);
    const double unit = scale / node.total;
    for (uint32_t c = node.child; c != NgramTable::kNone; c = table.node(c).sibling)
      add(table.node(c).token, unit * (table.node(c).count - options_.discount), kTables, false, -1);
    scale = unit * options_.discount * node.distinct;
    if (scale < kCut * weight) return;
  }
}

void NgramDrafter::collect_corpus(const NgramIndex& index, const IndexState& state, double weight,
                                  uint32_t source, double floor) {
  double scale = weight;
  if (state.single > 0) {
    const double rest = index.single_back_off(state.single);
    add(index.text(state.place), scale * (1 - rest), source, false, -1);  // shorter contexts add to it
    scale *= rest;
  }
  for (uint32_t node = state.node; scale >= kCut * weight; node = index.shorter(node)) {
    for (const NgramIndex::Entry entry : index.ranked(node))
      if (entry.token() != NgramIndex::kMark) add(entry.token(), scale * index.probability(entry), source, true, floor);
    if (node == 0) return;
    scale *= index.back_off(node);
  }
}

void NgramDrafter::collect(const State& state, double floor) {
  for (const uint32_t i : used_) seen_[i].token = -1;
  used_.clear();
  weigh(state);
  if (weights_[kLocal] > 0) collect_table(local_, state.local, weights_[kLocal]);
  if (weights_[kMemory] > 0) collect_table(*memory_, state.memory, weights_[kMemory]);
  // One corpus: what lies below the floor here lies below it everywhere. Two could add up.
  const double bound = corpora_.size() == 1 ? floor : 0;
  for (size_t c = 0; c < corpora_.size(); ++c)
    if (weights_[c] > 0) collect_corpus(*corpora_[c], state.corpus[c], weights_[c], 1u << c, bound);
}

std::vector<Proposal> NgramDrafter::law() {
  refresh();
  collect(now_, 0);
  std::vector<Proposal> law;
  for (const uint32_t i : used_) law.push_back({seen_[i].token, seen_[i].probability});
  std::sort(law.begin(), law.end(), better);
  return law;
}

DraftTree NgramDrafter::draft(int budget) {
  DraftTree tree;
  if (budget <= 0) return tree;
  refresh();
  const auto wanted = static_cast<size_t>(budget);
  tree.tokens.reserve(wanted), tree.parents.reserve(wanted), tree.probabilities.reserve(wanted);
  states_.resize(std::max(states_.size(), wanted));
  open_.clear();
  size_t head = 0;
  const auto room = [&] { return wanted - tree.tokens.size(); };
  const auto floor = [&] {  // what is not above it cannot become a node
    return open_.size() - head >= room() ? open_.back().probability : 0;
  };
  const auto offer = [&](const Candidate& candidate) {
    if (candidate.probability <= floor()) return;
    if (open_.size() - head >= room()) open_.pop_back();
    const auto at = std::upper_bound(open_.begin() + static_cast<std::ptrdiff_t>(head), open_.end(), candidate,
                                     [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; });
    open_.insert(at, candidate);
  };
  const auto expand = [&](const State& state, int32_t node, double probability) {
    const double least = std::max(floor(), options_.min_probability * (1 - 1e-9));
    collect(state, least / probability);
    fresh_.clear();
    for (const uint32_t i : used_)
      if (const double p = probability * seen_[i].probability; p > least) fresh_.push_back({p, node, seen_[i].token});
    const auto width = static_cast<size_t>(options_.width);
    if (width > 0 && fresh_.size() > width) {
      std::partial_sort(fresh_.begin(), fresh_.begin() + options_.width, fresh_.end(),
                        [](const Candidate& a, const Candidate& b) {
                          return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
                        });
      fresh_.resize(width);
    }
    for (const Candidate& candidate : fresh_) offer(candidate);
  };

  expand(now_, -1, 1.0);
  while (head < open_.size()) {
    const Candidate best = open_[head++];
    const auto node = static_cast<int32_t>(tree.tokens.size());
    tree.tokens.push_back(best.token);
    tree.parents.push_back(best.parent);
    tree.probabilities.push_back(static_cast<float>(best.probability));
    if (room() == 0) break;
    if (best.token == options_.end || best.probability <= floor()) continue;
    states_[static_cast<size_t>(node)] =
        step(best.parent < 0 ? now_ : states_[static_cast<size_t>(best.parent)], best.token);
    expand(states_[static_cast<size_t>(node)], node, best.probability);
  }
  return tree;
}

}  // namespace tasc
