#include "tasc/ngram_index.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "ngram_block.h"

namespace tasc {
namespace {

// More than the header can promise would overflow the sizes below.
constexpr uint64_t kMost = uint64_t{1} << 31;

NgramHeader read_header(std::span<const uint64_t> block) {
  NgramHeader h;
  if (block.size_bytes() < sizeof h) throw std::invalid_argument("the index is shorter than its header");
  std::memcpy(&h, block.data(), sizeof h);
  if (h.contexts == 0 || h.contexts >= kMost || h.entries >= 2 * kMost || h.text_tokens >= kMost ||
      h.n_max < 1 || h.n_max > 15)
    throw std::invalid_argument("the index has an impossible header");
  const NgramLayout layout(h);
  if (layout.bytes != block.size_bytes())
    throw std::invalid_argument("the index should have " + std::to_string(layout.bytes) + " bytes, it has " +
                                std::to_string(block.size_bytes()));
  return h;
}

}  // namespace

NgramIndex::NgramIndex(std::span<const uint64_t> block) : block_(block) {
  attach();
  if (const char* broken = check_integrity()) throw std::invalid_argument(std::string("the index is damaged: ") + broken);
}

void NgramIndex::attach() {
  const NgramHeader h = read_header(block_);
  const NgramLayout at(h);
  options_ = {h.n_max, h.discount, h.strength, h.min_count, h.end, h.mark != 0};
  text_tokens_ = h.text_tokens;
  const auto* bytes = reinterpret_cast<const uint8_t*>(block_.data());
  entries_ = {reinterpret_cast<const Entry*>(bytes + at.entries), h.entries};
  firsts_ = {reinterpret_cast<const uint32_t*>(bytes + at.firsts), h.contexts + 1};
  links_ = {reinterpret_cast<const uint32_t*>(bytes + at.links), h.contexts};
  weights_ = {bytes + at.weights, h.contexts};
  text_ = bytes + at.text;
  for (size_t q = 0; q < scale_.size(); ++q) scale_[q] = std::exp2(-static_cast<float>(q) / 256);
  const double once = (h.strength + h.discount) / (1 + h.strength);
  for (size_t k = 0; k < single_.size(); ++k) single_[k] = std::pow(once, static_cast<double>(k));
}

int32_t NgramIndex::text(uint32_t place) const {
  uint32_t word;
  std::memcpy(&word, text_ + size_t{3} * place, sizeof word);
  return static_cast<int32_t>(word & 0xFFFFFF);
}

std::span<const NgramIndex::Entry> NgramIndex::ranked(uint32_t node) const {
  const uint32_t begin = firsts_[node], length = firsts_[node + 1] - begin;
  return entries_.subspan(begin, std::min<uint32_t>(length, kRanked));
}

std::span<const NgramIndex::Entry> NgramIndex::sorted(uint32_t node) const {
  const uint32_t begin = firsts_[node], length = firsts_[node + 1] - begin;
  const uint32_t skipped = length > kRanked ? kRanked : 0;
  return entries_.subspan(begin + skipped, length - skipped);
}

const NgramIndex::Entry* NgramIndex::find(uint32_t node, int32_t token) const {
  const auto list = sorted(node);
  const Entry* at = list.data();
  size_t length = list.size();
  while (length > 8) {
    const size_t half = length / 2;
    at += at[half].token() <= token ? half : 0;
    length -= half;
  }
  for (const Entry* stop = at + length; at < stop; ++at)
    if (at->token() == token) return at;
  return nullptr;
}

IndexState NgramIndex::step(IndexState state, int32_t token) const {
  IndexState next;
  int longest = 0;
  if (state.single > 0 && token != options_.end && text(state.place) == token) {
    longest = std::min(state.depth + state.single + 1, options_.n_max);
    next.place = std::min(state.place + 1, static_cast<uint32_t>(text_tokens_));
  }
  uint32_t node = state.node;
  for (int depth = state.depth;; --depth) {
    if (const Entry* entry = find(node, token); entry && entry->child() != kNone) {
      const int order = std::min(depth + 1, options_.n_max);
      if (!(entry->child() & kSingle)) {
        next.node = entry->child();
        next.depth = static_cast<uint8_t>(order);
        break;
      }
      if (longest == 0) {
        longest = order;
        next.place = entry->child() & ~kSingle;
      }
    }
    if (node == 0) break;
    node = links_[node];
  }
  next.single = static_cast<uint8_t>(std::max(longest - next.depth, 0));
  return next;
}

int NgramIndex::order(const IndexState& state) const {
  if (state.single > 0) return state.depth + state.single;
  int depth = state.depth;
  for (uint32_t node = state.node; depth > 0 && firsts_[node] == firsts_[node + 1]; node = links_[node]) --depth;
  return depth;
}

const char* NgramIndex::check_integrity() const {
  if (firsts_.front() != 0 || firsts_.back() != entries_.size()) return "the lists fill the entries";
  for (size_t i = 0; i < links_.size(); ++i) {
    if (firsts_[i] > firsts_[i + 1]) return "the lists of contexts follow each other";
    if (i ? links_[i] >= i : links_[i] != 0) return "a shorter context precedes a longer one";
    const auto list = sorted(static_cast<uint32_t>(i));
    for (size_t k = 1; k < list.size(); ++k)
      if (list[k - 1].token() >= list[k].token()) return "a list's tokens rise";
  }
  for (const Entry& entry : entries_) {
    const uint32_t child = entry.child();
    if (child == kNone) continue;
    if ((child & kSingle) ? (child & ~kSingle) >= text_tokens_ : child >= links_.size())
      return "a continuation leads to a context or a place in the text";
  }
  return nullptr;
}

}  // namespace tasc
