// Building an n-gram index: positions of the text are kept sorted by what begins there, one token
// deeper each level. A run of equal strings is a context, its sub-runs are the continuations.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "ngram_block.h"
#include "tasc/ngram_index.h"

namespace tasc {
namespace {

struct Group {
  uint32_t begin, end;
};

struct Found {
  float probability;
  uint32_t child;
};

// Positions lie anywhere in the text: their memory is asked for this many of them ahead.
constexpr uint32_t kAhead = 24;

void check(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& o) {
  if (o.n_max < 1 || o.n_max > 15)
    throw std::invalid_argument("n_max must be in 1..15, got " + std::to_string(o.n_max));
  if (!(o.discount >= 0 && o.discount < 1))
    throw std::invalid_argument("discount must be in [0, 1), got " + std::to_string(o.discount));
  if (!(o.strength >= 0)) throw std::invalid_argument("strength must be at least 0, got " + std::to_string(o.strength));
  if (o.min_count < 1)
    throw std::invalid_argument("min_count must be at least 1, got " + std::to_string(o.min_count));
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<int64_t>(tokens.size()) ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must rise from 0 to the number of tokens (" +
                                std::to_string(tokens.size()) + ")");
  if (tokens.size() + 2 * offsets.size() >= NgramIndex::kSingle)
    throw std::invalid_argument("a corpus may have 2^31 tokens at most: split it into several indexes");
  if (o.end < 0 || o.end >= NgramIndex::kMark)
    throw std::invalid_argument("the end token must be in 0.." + std::to_string(NgramIndex::kMark - 1) + ", got " +
                                std::to_string(o.end));
  for (const int32_t t : tokens)
    if (t < 0 || t >= NgramIndex::kMark)
      throw std::invalid_argument("token ids must be in 0.." + std::to_string(NgramIndex::kMark - 1) + ", got " +
                                  std::to_string(t));
}

// Sorts keys (token << 32 | position) by token.
void sort_by_token(std::vector<uint64_t>& keys, std::vector<uint64_t>& spare) {
  if (keys.size() < 2048) {
    std::sort(keys.begin(), keys.end());
    return;
  }
  spare.resize(keys.size());
  for (const int shift : {32, 42}) {  // ids have 20 bits
    uint32_t at[1025] = {};
    for (const uint64_t k : keys) ++at[((k >> shift) & 1023) + 1];
    for (int b = 0; b < 1024; ++b) at[b + 1] += at[b];
    for (const uint64_t k : keys) spare[at[(k >> shift) & 1023]++] = k;
    keys.swap(spare);
  }
}

// -log2(value) in steps of 1 / steps; most stands for nothing and for all that is too small.
uint32_t quantum(double value, int steps, uint32_t most) {
  if (value <= 0) return most;
  return static_cast<uint32_t>(std::clamp(0.5f - static_cast<float>(steps) * std::log2(static_cast<float>(value)), 0.f,
                                          static_cast<float>(most)));
}

uint64_t pack(int32_t token, double probability, uint32_t child) {
  return uint64_t{child} << 32 | uint64_t{quantum(probability, 256, 4095)} << 20 | static_cast<uint64_t>(token);
}

}  // namespace

class NgramBuilder {
 public:
  NgramBuilder(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& options)
      : options_(options) {
    text_.reserve(tokens.size() + 2 * offsets.size());
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      if (options.mark) text_.push_back(NgramIndex::kMark);
      text_.insert(text_.end(), tokens.begin() + offsets[s], tokens.begin() + offsets[s + 1]);
      text_.push_back(options.end);
    }
    order_.resize(text_.size());
    for (uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    entries_.reserve(text_.size() + text_.size() / 4);  // what natural text comes to
    found_.reserve(entries_.capacity());
    nodes_.reserve(text_.size() / 2);
    below_.assign(text_.size() + 1, 0);
    here_.assign(text_.size() + 1, 0);
  }

  std::vector<uint64_t> build() {
    std::vector<Group> level = {{0, static_cast<uint32_t>(order_.size())}}, next;
    nodes_.push_back({0, 0});
    for (int depth = 0; depth <= options_.n_max; ++depth) {
      next.clear();
      for (const Group& group : level) add_context(context_++, group, static_cast<uint32_t>(depth), next);
      below_.swap(here_);
      level.swap(next);
    }
    nodes_.push_back({static_cast<uint32_t>(entries_.size()), 0});
    return block();
  }

 private:
  void add_context(uint32_t node, const Group& group, uint32_t depth, std::vector<Group>& next) {
    sort_positions(group, depth);
    const auto first = static_cast<uint32_t>(entries_.size());
    find_runs(group);
    const double n = static_cast<double>(kept_), strength = options_.strength;
    const double weight = kept_ ? (strength + options_.discount * distinct_) / (n + strength) : 1;
    nodes_[node].first = first;
    nodes_[node].bits |= quantum(weight, 8, 63) << 26;
    if (runs_.size() > NgramIndex::kRanked) {  // room for the best, in front
      entries_.resize(first + NgramIndex::kRanked);
      found_.resize(entries_.size());
    }
    const auto begin = static_cast<uint32_t>(entries_.size());
    for (const Group& run : runs_) add_continuation(run, depth, n + strength, weight, next);
    rank(first, begin, runs_.size() - distinct_);
    if (entries_.size() >= NgramIndex::kNone)
      throw std::length_error("the corpus has more than 2^32 n-grams: raise min_count");
  }

  void sort_positions(const Group& group, uint32_t depth) {
    keys_.clear();
    for (uint32_t i = group.begin; i < group.end; ++i) {
      const uint32_t later = order_[std::min<size_t>(i + kAhead, order_.size() - 1)];
      __builtin_prefetch(&text_[std::min<size_t>(later + depth, text_.size() - 1)]);
      __builtin_prefetch(&below_[later + 1]);
      __builtin_prefetch(&here_[later], 1);
      keys_.push_back(uint64_t(text_[order_[i] + depth]) << 32 | order_[i]);
    }
    sort_by_token(keys_, spare_);
    for (uint32_t i = group.begin; i < group.end; ++i) order_[i] = static_cast<uint32_t>(keys_[i - group.begin]);
  }

  void find_runs(const Group& group) {
    runs_.clear();
    kept_ = distinct_ = 0;
    for (uint32_t i = group.begin; i < group.end;) {
      const uint32_t begin = i;
      const auto token = static_cast<int32_t>(keys_[i - group.begin] >> 32);
      while (i < group.end && static_cast<int32_t>(keys_[i - group.begin] >> 32) == token) ++i;
      if (i - begin < options_.min_count && token != NgramIndex::kMark) continue;
      runs_.push_back({begin, i});
      if (token == NgramIndex::kMark) continue;
      kept_ += i - begin;
      ++distinct_;
    }
  }

  void add_continuation(const Group& run, uint32_t depth, double total, double weight, std::vector<Group>& next) {
    const uint32_t position = order_[run.begin], count = run.end - run.begin;
    const int32_t token = text_[position + depth];
    const uint32_t shorter = depth ? below_[position + 1] : 0;  // the same token after one token less
    double p = std::max(count - options_.discount, 0.0) / total;
    if (depth) p += weight * found_[shorter].probability;
    uint32_t child = NgramIndex::kNone;
    if (token != options_.end && depth == static_cast<uint32_t>(options_.n_max)) {
      child = found_[shorter].child;
    } else if (token != options_.end && count > 1) {
      child = static_cast<uint32_t>(nodes_.size());
      if (child >> 26) throw std::length_error("the corpus has more than 2^26 contexts: raise min_count or lower n_max");
      nodes_.push_back({0, depth ? found_[shorter].child : 0});
      next.push_back(run);
    } else if (token != options_.end && options_.min_count == 1) {
      child = NgramIndex::kSingle | (position + depth + 1);
    }
    const auto id = static_cast<uint32_t>(entries_.size());
    for (uint32_t i = run.begin; i < run.end; ++i) here_[order_[i]] = id;
    found_.push_back({static_cast<float>(p), child});
    entries_.push_back({pack(token, token == NgramIndex::kMark ? 0 : p, child)});
  }

  // Puts a short list in order, and repeats a long one's best in front; marks are never proposed.
  void rank(uint32_t first, uint32_t begin, size_t marks) {
    const auto better = [](const NgramIndex::Entry& a, const NgramIndex::Entry& b) {
      return a.quantum() != b.quantum() ? a.quantum() < b.quantum() : a.token() < b.token();
    };
    const auto to = entries_.begin() + first;
    if (begin == first) {
      if (entries_.size() - first > 1) std::sort(to, entries_.end(), better);
      return;
    }
    const auto end = entries_.end() - static_cast<std::ptrdiff_t>(marks);
    std::partial_sort_copy(entries_.begin() + begin, end, to, entries_.begin() + begin, better);
  }

  std::vector<uint64_t> block() const {
    const NgramHeader header{nodes_.size() - 1, entries_.size(), text_.size(), options_.min_count,
                             options_.discount, options_.strength, options_.n_max, options_.end,
                             options_.mark, 0};
    const NgramLayout at(header);
    std::vector<uint64_t> block(at.bytes / 8);
    auto* bytes = reinterpret_cast<uint8_t*>(block.data());
    std::memcpy(bytes, &header, sizeof header);
    const auto copy = [&](size_t to, const auto& from) {
      if (!from.empty()) std::memcpy(bytes + to, from.data(), from.size() * sizeof from[0]);
    };
    copy(at.entries, entries_);
    copy(at.nodes, nodes_);
    for (size_t i = 0; i < text_.size(); ++i) std::memcpy(bytes + at.text + 3 * i, &text_[i], 3);
    return block;
  }

  NgramOptions options_;
  std::vector<int32_t> text_;
  std::vector<uint32_t> order_;         // positions, sorted by what begins there
  std::vector<uint32_t> below_, here_;  // by position: the entry of the string of the last and this level
  std::vector<NgramIndex::Node> nodes_;
  std::vector<NgramIndex::Entry> entries_;
  std::vector<Found> found_;            // by entry, before a short list is put in order
  std::vector<Group> runs_;
  std::vector<uint64_t> keys_, spare_;
  uint64_t kept_ = 0, distinct_ = 0;
  uint32_t context_ = 0;
};

NgramIndex::NgramIndex(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& options) {
  check(tokens, offsets, options);
  owned_ = NgramBuilder(tokens, offsets, options).build();
  block_ = owned_;
  attach();
}

}  // namespace tasc
