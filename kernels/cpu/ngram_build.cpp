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

uint64_t pack(int32_t token, float probability, uint32_t child) {
  const float q = probability > 0 ? -256 * std::log2(probability) : 4095.f;
  const auto quantum = static_cast<uint64_t>(std::clamp(std::lround(q), 0L, 4095L));
  return uint64_t{child} << 32 | quantum << 20 | static_cast<uint64_t>(token);
}

}  // namespace

class NgramBuilder {
 public:
  NgramBuilder(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& options)
      : options_(options) {
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      if (options.mark) text_.push_back(NgramIndex::kMark);
      text_.insert(text_.end(), tokens.begin() + offsets[s], tokens.begin() + offsets[s + 1]);
      text_.push_back(options.end);
    }
    order_.resize(text_.size());
    for (uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    below_.assign(text_.size() + 1, 0);
    here_.assign(text_.size() + 1, 0);
  }

  std::vector<uint64_t> build() {
    std::vector<Group> level = {{0, static_cast<uint32_t>(order_.size())}}, next;
    links_.push_back(0);
    for (int depth = 0; depth <= options_.n_max; ++depth) {
      next.clear();
      for (const Group& group : level) add_context(group, static_cast<uint32_t>(depth), next);
      below_.swap(here_);
      level.swap(next);
    }
    firsts_.push_back(static_cast<uint32_t>(entries_.size()));
    return block();
  }

 private:
  void add_context(const Group& group, uint32_t depth, std::vector<Group>& next) {
    sort_positions(group, depth);
    const auto first = static_cast<uint32_t>(entries_.size());
    firsts_.push_back(first);
    find_runs(group);
    const double n = static_cast<double>(kept_), strength = options_.strength;
    const double weight = kept_ ? (strength + options_.discount * distinct_) / (n + strength) : 1;
    weights_.push_back(static_cast<uint8_t>(std::lround(255 * weight)));
    if (runs_.size() > NgramIndex::kRanked) {  // room for the best, in front
      entries_.resize(first + NgramIndex::kRanked);
      probabilities_.resize(entries_.size());
    }
    const auto begin = static_cast<uint32_t>(entries_.size());
    for (const Group& run : runs_) add_continuation(run, depth, n + strength, weight, next);
    if (begin > first) rank(first, begin, runs_.size() - distinct_);
    if (entries_.size() >= NgramIndex::kNone)
      throw std::length_error("the corpus has more than 2^32 n-grams: raise min_count");
  }

  void sort_positions(const Group& group, uint32_t depth) {
    keys_.clear();
    for (uint32_t i = group.begin; i < group.end; ++i)
      keys_.push_back(uint64_t(text_[order_[i] + depth]) << 32 | order_[i]);
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
    if (depth) p += weight * probabilities_[shorter];
    uint32_t child = NgramIndex::kNone;
    if (token != options_.end && depth == static_cast<uint32_t>(options_.n_max)) {
      child = entries_[shorter].child();
    } else if (token != options_.end && count > 1) {
      child = static_cast<uint32_t>(links_.size());
      links_.push_back(depth ? entries_[shorter].child() : 0);
      next.push_back(run);
    } else if (token != options_.end && options_.min_count == 1) {
      child = NgramIndex::kSingle | (position + depth + 1);
    }
    const auto id = static_cast<uint32_t>(entries_.size());
    for (uint32_t i = run.begin; i < run.end; ++i) here_[order_[i]] = id;
    probabilities_.push_back(static_cast<float>(p));
    entries_.push_back({pack(token, token == NgramIndex::kMark ? 0.f : static_cast<float>(p), child)});
  }

  // Repeats the best in front of a long list; the marks at its end are never proposed.
  void rank(uint32_t first, uint32_t begin, size_t marks) {
    const auto end = entries_.end() - static_cast<std::ptrdiff_t>(marks);
    std::partial_sort_copy(entries_.begin() + begin, end, entries_.begin() + first, entries_.begin() + begin,
                           [](const NgramIndex::Entry& a, const NgramIndex::Entry& b) {
                             return a.quantum() != b.quantum() ? a.quantum() < b.quantum() : a.token() < b.token();
                           });
  }

  std::vector<uint64_t> block() const {
    const NgramHeader header{links_.size(), entries_.size(), text_.size(), options_.min_count,
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
    copy(at.firsts, firsts_);
    copy(at.links, links_);
    copy(at.weights, weights_);
    for (size_t i = 0; i < text_.size(); ++i) std::memcpy(bytes + at.text + 3 * i, &text_[i], 3);
    return block;
  }

  NgramOptions options_;
  std::vector<int32_t> text_;
  std::vector<uint32_t> order_;         // positions, sorted by what begins there
  std::vector<uint32_t> below_, here_;  // by position: the entry of the string of the last and this level
  std::vector<uint32_t> firsts_, links_;
  std::vector<uint8_t> weights_;
  std::vector<NgramIndex::Entry> entries_;
  std::vector<float> probabilities_;
  std::vector<Group> runs_;
  std::vector<uint64_t> keys_, spare_;
  uint64_t kept_ = 0, distinct_ = 0;
};

NgramIndex::NgramIndex(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& options) {
  check(tokens, offsets, options);
  owned_ = NgramBuilder(tokens, offsets, options).build();
  block_ = owned_;
  attach();
}

}  // namespace tasc
