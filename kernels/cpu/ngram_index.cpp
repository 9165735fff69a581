#include "tasc/ngram_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "ngram_block.h"

namespace tasc {
namespace {

// Larger values in the header would overflow the sizes below.
constexpr uint64_t kMost = uint64_t{1} << 31;

NgramOptions options_of(const NgramHeader& h) {
  return {h.n_max, h.discount, h.strength, h.min_count, h.end, h.mark != 0};
}

NgramHeader read_header(std::span<const uint64_t> block) {
  NgramHeader h;
  if (block.size_bytes() < sizeof h) throw std::invalid_argument("the index is shorter than its header");
  std::memcpy(&h, block.data(), sizeof h);
  if (h.contexts == 0 || h.contexts >= kMost || h.entries >= 2 * kMost || h.text_tokens >= kMost)
    throw std::invalid_argument("the index has an impossible header");
  check_options(options_of(h));
  if (h.vocabulary <= h.end || h.vocabulary > NgramIndex::kMark)
    throw std::invalid_argument("the index has an impossible vocabulary");
  const NgramLayout layout(h);
  if (layout.bytes != block.size_bytes())
    throw std::invalid_argument("the index should have " + std::to_string(layout.bytes) + " bytes, it has " +
                                std::to_string(block.size_bytes()));
  return h;
}

}  // namespace

void check_options(const NgramOptions& o) {
  if (o.n_max < 1 || o.n_max > 15)
    throw std::invalid_argument("n_max must be in 1..15, got " + std::to_string(o.n_max));
  if (!(o.discount >= 0 && o.discount < 1))
    throw std::invalid_argument("discount must be in [0, 1), got " + std::to_string(o.discount));
  if (!(o.strength >= 0 && std::isfinite(o.strength)))
    throw std::invalid_argument("strength must be at least 0 and finite, got " + std::to_string(o.strength));
  if (o.min_count < 1)
    throw std::invalid_argument("min_count must be at least 1, got " + std::to_string(o.min_count));
  if (o.end < 0 || o.end >= NgramIndex::kMark)
    throw std::invalid_argument("the end token must be in 0.." + std::to_string(NgramIndex::kMark - 1) + ", got " +
                                std::to_string(o.end));
}

NgramIndex::NgramIndex(std::span<const uint64_t> block) : block_(block) {
  attach();
  // Detects an interrupted write; a full check would read the whole file.
  if (nodes_.front().first != 0 || nodes_.back().first != entries_.size())
    throw std::invalid_argument("the index is damaged: the lists fill the entries");
}

void NgramIndex::attach() {
  const NgramHeader h = read_header(block_);
  const NgramLayout at(h);
  options_ = options_of(h);
  text_tokens_ = h.text_tokens;
  vocabulary_ = h.vocabulary;
  const auto* bytes = reinterpret_cast<const uint8_t*>(block_.data());
  entries_ = {reinterpret_cast<const Entry*>(bytes + at.entries), h.entries};
  nodes_ = {reinterpret_cast<const Node*>(bytes + at.nodes), h.contexts + 1};
  text_ = bytes + at.text;
  for (size_t q = 0; q < scale_.size(); ++q) scale_[q] = std::exp2(-static_cast<float>(q) / 256);
  for (size_t q = 0; q + 1 < rests_.size(); ++q) rests_[q] = std::exp2(-static_cast<float>(q) / 8);
  const double once = (h.strength + h.discount) / (1 + h.strength);
  for (size_t k = 0; k < single_.size(); ++k) single_[k] = std::pow(once, static_cast<double>(k));
}

int32_t NgramIndex::text(uint32_t position) const {
  uint32_t word;
  std::memcpy(&word, text_ + size_t{3} * position, sizeof word);
  return static_cast<int32_t>(word & 0xFFFFFF);
}

const NgramIndex::Entry* NgramIndex::find(uint32_t node, int32_t token) const {
  const auto all = list(node);
  const Entry *at = all.data(), *stop = at + all.size();
  if (stop - at > kRanked) {  // a long list is sorted by token after its best entries
    at += kRanked;
    for (std::ptrdiff_t length = stop - at; length > 8;) {
      const std::ptrdiff_t half = length / 2;
      at += at[half].token() <= token ? half : 0;
      length -= half;
    }
    stop = std::min(stop, at + 8);
  }
  for (; at < stop; ++at)
    if (at->token() == token) return at;
  return nullptr;
}

IndexState NgramIndex::step(IndexState state, int32_t token) const {
  uint32_t node = state.node;
  for (uint32_t depth = state.depth;; --depth) {
    if (const Entry* entry = find(node, token); entry && entry->child() != kNone)
      return step_along(state, token, entry->child(), depth);
    if (depth == 0) return step_along(state, token, kNone, 0);
    node = shorter(node);
  }
}

IndexState NgramIndex::step_along(IndexState state, int32_t token, uint32_t child, uint32_t at) const {
  IndexState next;
  uint32_t longest = 0;
  const auto n_max = static_cast<uint32_t>(options_.n_max);
  const bool agrees = token != options_.end && predicted(state.match) == token;
  if (agrees) next.match = state.match.next();
  if (agrees && state.single > 0) longest = std::min(state.depth + state.single + 1u, n_max);
  uint32_t node = state.node;
  for (uint32_t depth = state.depth; depth > at; --depth) node = shorter(node);
  while (child != kNone) {
    const uint32_t order = std::min(at + 1, n_max);
    if (!(child & kSingle)) {
      if (!is_context(child)) break;
      next.node = child;
      next.depth = static_cast<uint8_t>(order);
      break;
    }
    if (longest == 0) {
      longest = order;
      if (next.match.length < order) next.match = {child & ~kSingle, order};
    }
    child = kNone;
    while (child == kNone && at > 0) {
      node = shorter(node);
      --at;
      if (const Entry* entry = find(node, token)) child = entry->child();
    }
  }
  next.single = static_cast<uint8_t>(longest > next.depth ? longest - next.depth : 0);
  if (!next.match.is_there() && next.depth < 2 && predicted(state.match) >= 0 && predicted(state.match) != options_.end)
    next.match = state.match.behind_disagreement();
  return next;
}

int NgramIndex::order(const IndexState& state) const {
  if (state.single > 0) return state.depth + state.single;
  int depth = state.depth;
  for (uint32_t node = state.node; depth > 0 && list(node).empty(); node = shorter(node)) --depth;
  return depth;
}

// Later checks rely on earlier ones.
const char* NgramIndex::check_integrity() const {
  const char* broken = check_lists();
  if (!broken) broken = check_text();
  if (!broken) broken = check_contexts();
  return broken ? broken : check_entries();
}

const char* NgramIndex::check_lists() const {
  if (nodes_.front().first != 0 || nodes_.back().first != entries_.size()) return "the lists fill the entries";
  const auto earlier = [](const Node& a, const Node& b) { return a.first < b.first; };
  if (!std::is_sorted(nodes_.begin(), nodes_.end(), earlier)) return "the lists of contexts follow each other";
  return nullptr;
}

// So the position after a token that does not end a sample belongs to the same sample.
const char* NgramIndex::check_text() const {
  bool ended = true;
  for (uint32_t i = 0; i < text_tokens_; ++i) {
    const int32_t token = text(i);
    if (token >= vocabulary_ && token != kMark) return "the text's tokens are of the vocabulary";
    if (token == kMark && !ended) return "a mark stands before a sample";
    ended = token == options_.end;
  }
  return ended ? nullptr : "the text's last sample ends";
}

const char* NgramIndex::check_contexts() const {
  std::vector<uint8_t> depth(nodes_.size());  // drafting follows shorter contexts up to n_max times
  for (uint32_t i = 0; i + 1 < nodes_.size(); ++i) {
    if (i ? nodes_[i].away() >= i : nodes_[i].away() != 0) return "a shorter context precedes a longer one";
    if (i) depth[i] = static_cast<uint8_t>(depth[shorter(i)] + 1);
    if (depth[i] > options_.n_max) return "no context is longer than n_max";
    const auto best = ranked(i);
    for (size_t k = 1; k < best.size(); ++k)
      if (best[k - 1].quantum() > best[k].quantum()) return "the best continuations come first";
    for (uint64_t k = uint64_t{nodes_[i].first} + kRanked + 1; k < nodes_[i + 1].first; ++k)
      if (entries_[k - 1].token() >= entries_[k].token()) return "a long list's tokens rise";
  }
  return nullptr;
}

const char* NgramIndex::check_entries() const {
  for (const Entry& entry : entries_) {
    if (entry.token() >= vocabulary_ && entry.token() != kMark) return "continuations are of the vocabulary";
    const uint32_t child = entry.child();
    if (child == kNone) continue;
    const uint32_t position = child & ~kSingle;
    if ((child & kSingle) ? position >= text_tokens_ || text(position) == kMark : child + uint64_t{1} >= nodes_.size())
      return "a continuation leads to a context or a position in the text";
  }
  return nullptr;
}

}  // namespace tasc
