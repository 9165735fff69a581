#include "tasc/ngram_model.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace tasc {
namespace {

uint64_t mix(uint64_t key, int32_t token) {  // the finaliser of splitmix64
  uint64_t z = key + 0x9e3779b97f4a7c15ULL * (static_cast<uint32_t>(token) + 1ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

bool ranks_before(const Continuation& a, const Continuation& b) {
  return a.count != b.count ? a.count > b.count : a.token < b.token;
}

uint32_t saturated(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, std::numeric_limits<uint32_t>::max()));
}

void check_corpus(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
                  std::span<const int64_t> weights, int n_max) {
  if (n_max < 1) throw std::invalid_argument("n_max must be at least 1, got " + std::to_string(n_max));
  if (offsets.empty() || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(tokens.size()) ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must rise from 0 to the number of tokens (" +
                                std::to_string(tokens.size()) + ")");
  if (weights.size() + 1 != offsets.size())
    throw std::invalid_argument(std::to_string(offsets.size() - 1) + " samples need as many weights, got " +
                                std::to_string(weights.size()));
}

}  // namespace

void context_keys(std::span<const int32_t> context, int n_max, std::vector<uint64_t>& keys) {
  keys.clear();
  uint64_t key = 0;
  const size_t longest = std::min<size_t>(context.size(), static_cast<size_t>(n_max));
  for (size_t k = 1; k <= longest; ++k) {
    key = mix(key + k, context[context.size() - k]);
    keys.push_back(key ? key : 1);  // 0 marks an empty slot
  }
}

NgramIndex::NgramIndex(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
                       std::span<const int64_t> weights, int n_max, int64_t min_count)
    : n_max_(n_max), slots_(1024) {
  check_corpus(tokens, offsets, weights, n_max);
  std::vector<Occurrence> occurrences;
  std::unordered_map<int32_t, uint64_t> unigrams;
  std::vector<uint64_t> keys;
  for (int order = 1; order <= n_max; ++order) {
    occurrences.clear();
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      const auto sample = tokens.subspan(offsets[s], offsets[s + 1] - offsets[s]);
      for (size_t i = 1; i < sample.size(); ++i) {
        if (order == 1) unigrams[sample[i]] += weights[s];
        if (i < static_cast<size_t>(order)) continue;
        context_keys(sample.subspan(i - order, order), order, keys);
        occurrences.push_back({keys.back(), sample[i], saturated(weights[s])});
      }
    }
    add_order(occurrences, min_count);
  }
  for (const auto& [token, count] : unigrams) {
    tokens_ += count;
    const Continuation c{token, saturated(count)};
    if (most_frequent_.token < 0 || ranks_before(c, most_frequent_)) most_frequent_ = c;
  }
  continuations_.shrink_to_fit();
}

void NgramIndex::add_order(std::vector<Occurrence>& occurrences, int64_t min_count) {
  std::sort(occurrences.begin(), occurrences.end(), [](const Occurrence& a, const Occurrence& b) {
    return a.key != b.key ? a.key < b.key : a.token < b.token;
  });
  for (size_t i = 0; i < occurrences.size();) {
    Slot slot{occurrences[i].key, static_cast<uint32_t>(continuations_.size()), 0, 0};
    while (i < occurrences.size() && occurrences[i].key == slot.key) {
      const int32_t token = occurrences[i].token;
      uint64_t count = 0;
      for (; i < occurrences.size() && occurrences[i].key == slot.key && occurrences[i].token == token; ++i)
        count += occurrences[i].weight;
      if (static_cast<int64_t>(count) < min_count) continue;
      continuations_.push_back({token, saturated(count)});
      slot.total += count;
    }
    slot.length = static_cast<uint32_t>(continuations_.size() - slot.begin);
    if (slot.length == 0) continue;
    std::sort(continuations_.begin() + slot.begin, continuations_.end(), ranks_before);
    if (continuations_.size() > std::numeric_limits<uint32_t>::max())
      throw std::length_error("the corpus has more than 2^32 n-gram continuations: raise min_count");
    insert(slot);
  }
}

void NgramIndex::insert(const Slot& slot) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  size_t at = slot.key & (slots_.size() - 1);
  while (slots_[at].key) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = slot;
  ++used_;
}

void NgramIndex::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  used_ = 0;
  for (const Slot& slot : old)
    if (slot.key) insert(slot);
}

Continuations NgramIndex::find(std::span<const uint64_t> keys) const {
  for (size_t k = std::min<size_t>(keys.size(), n_max_); k > 0; --k) {
    size_t at = keys[k - 1] & (slots_.size() - 1);
    for (; slots_[at].key; at = (at + 1) & (slots_.size() - 1))
      if (slots_[at].key == keys[k - 1])
        return {{continuations_.data() + slots_[at].begin, slots_[at].length}, slots_[at].total};
  }
  return {};
}

size_t NgramIndex::bytes() const {
  return slots_.size() * sizeof(Slot) + continuations_.size() * sizeof(Continuation);
}

const char* NgramIndex::check_integrity() const {
  size_t seen = 0;
  for (const Slot& slot : slots_) {
    if (!slot.key) continue;
    ++seen;
    if (slot.length == 0) return "a stored context has continuations";
    if (size_t{slot.begin} + slot.length > continuations_.size()) return "continuations lie inside the array";
    uint64_t total = 0;
    for (uint32_t i = 0; i < slot.length; ++i) {
      total += continuations_[slot.begin + i].count;
      if (i && !ranks_before(continuations_[slot.begin + i - 1], continuations_[slot.begin + i]))
        return "continuations are ranked and distinct";
    }
    if (total != slot.total) return "the total is the sum of the counts";
  }
  return seen == used_ ? nullptr : "every context is counted once";
}

void LocalTable::clear() {
  sequence_.clear();
  keys_.clear();
  entries_.clear();
}

void LocalTable::append(int32_t token) {
  for (const uint64_t key : keys_) {  // keys_ are the contexts that end just before this token
    if (token < 0) break;             // a mark is a context, never a proposal
    Entry& entry = entries_[key];
    ++entry.total;
    auto it = std::find_if(entry.items.begin(), entry.items.end(),
                           [&](const Continuation& c) { return c.token == token; });
    if (it == entry.items.end()) it = entry.items.insert(it, Continuation{token, 0});
    ++it->count;
    for (; it != entry.items.begin() && ranks_before(*it, *(it - 1)); --it) std::iter_swap(it, it - 1);
  }
  sequence_.push_back(token);
  context_keys(sequence_, n_max_, keys_);
}

Continuations LocalTable::find(std::span<const uint64_t> keys) const {
  for (size_t k = std::min<size_t>(keys.size(), n_max_); k > 0; --k)
    if (const auto hit = entries_.find(keys[k - 1]); hit != entries_.end())
      return {hit->second.items, hit->second.total};
  return {};
}

}  // namespace tasc
