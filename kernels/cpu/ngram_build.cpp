// Building an n-gram index: positions of the text are kept sorted by what begins there, one token
// deeper each level. A run of equal strings is a context, its sub-runs are the continuations.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "ngram_block.h"
#include "ngram_sort.h"
#include "tasc/ngram_index.h"

namespace tasc {
namespace {

struct Group {
  uint32_t begin, end;
};

// A position of the text. A string's entry is kept where it ends, as is that of the string without
// its first token: a visit reads one line of memory.
struct Place {
  int32_t token;
  uint32_t entry[2];   // of the strings that end here, by parity of the level
};

struct Run {           // positions of one context that go on with the same token
  uint32_t begin, end;
  uint32_t shorter;    // the entry of the same token after one token less
};

struct Runs {          // of one context
  uint32_t end;        // they begin where those of the context before end
  uint32_t kept, distinct;
};

struct Found {
  float probability;
  uint32_t child;
};

// Positions lie anywhere in the text: their memory is asked for this many of them ahead.
constexpr uint32_t kAhead = 32;
// Contexts are sorted in batches and written then: what their entries need has arrived by then.
constexpr size_t kBatch = 256;

void check(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& o) {
  check_options(o);
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<int64_t>(tokens.size()) ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must rise from 0 to the number of tokens (" +
                                std::to_string(tokens.size()) + ")");
  if (tokens.size() + 2 * offsets.size() >= NgramIndex::kSingle)
    throw std::invalid_argument("a corpus may have 2^31 tokens at most: split it into several indexes");
  for (const int32_t t : tokens)
    if (t < 0 || t >= NgramIndex::kMark)
      throw std::invalid_argument("token ids must be in 0.." + std::to_string(NgramIndex::kMark - 1) + ", got " +
                                  std::to_string(t));
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
    const size_t most = tokens.size() + 2 * offsets.size();
    reserve_large(text_, most);
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      if (options.mark) text_.push_back({NgramIndex::kMark, {}});
      for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) text_.push_back({tokens[static_cast<size_t>(i)], {}});
      text_.push_back({options.end, {}});
    }
    reserve_large(order_, most);
    for (uint32_t i = 0; i < text_.size(); ++i) order_.push_back(i);
    reserve_large(block_, kHeader + 2 * most + most / 2);  // what natural text comes to
    block_.resize(kHeader);
    reserve_large(nodes_, most / 2);
    reserve_large(keys_, most);
    reserve_large(spare_, most);
  }

  std::vector<uint64_t> build() {
    std::vector<Group> level = {{0, static_cast<uint32_t>(order_.size())}}, next;
    nodes_.push_back({0, 0});
    for (int depth = 0; depth <= options_.n_max; ++depth) {
      next.clear();
      here_.clear();
      for (size_t i = 0; i < level.size(); i += kBatch)
        add_contexts(std::span(level).subspan(i, std::min(kBatch, level.size() - i)), static_cast<uint32_t>(depth), next);
      below_.swap(here_);
      level.swap(next);
    }
    nodes_.push_back({static_cast<uint32_t>(entries()), 0});
    finish();
    return std::move(block_);
  }

 private:
  static constexpr size_t kHeader = sizeof(NgramHeader) / 8;  // words before the entries

  size_t entries() const { return block_.size() - kHeader; }

  void add_contexts(std::span<const Group> groups, uint32_t depth, std::vector<Group>& next) {
    runs_.clear();
    contexts_.clear();
    for (const Group& group : groups) {
      sort_positions(group, depth);
      find_runs(group, depth);
    }
    size_t begin = 0;
    for (const Runs& context : contexts_) {
      add_context(context, std::span(runs_).subspan(begin, context.end - begin), depth, next);
      begin = context.end;
    }
  }

  void sort_positions(const Group& group, uint32_t depth) {
    keys_.clear();
    for (uint32_t i = group.begin; i < group.end; ++i) {
      const uint32_t later = order_[std::min<size_t>(i + kAhead, order_.size() - 1)];
      __builtin_prefetch(&text_[std::min<size_t>(later + depth, text_.size() - 1)], 1);
      keys_.push_back(uint64_t(text_[order_[i] + depth].token) << 32 | order_[i]);
    }
    sort_by_token(keys_, spare_);
    for (uint32_t i = group.begin; i < group.end; ++i) order_[i] = static_cast<uint32_t>(keys_[i - group.begin]);
  }

  void find_runs(const Group& group, uint32_t depth) {
    Runs context{};
    for (uint32_t i = group.begin; i < group.end;) {
      const uint32_t begin = i;
      const auto token = static_cast<int32_t>(keys_[i - group.begin] >> 32);
      while (i < group.end && static_cast<int32_t>(keys_[i - group.begin] >> 32) == token) ++i;
      if (i - begin < options_.min_count && token != NgramIndex::kMark) continue;
      const uint32_t shorter = depth ? text_[order_[begin] + depth].entry[(depth - 1) % 2] : 0;
      if (depth) __builtin_prefetch(&below_[shorter]);
      runs_.push_back({begin, i, shorter});
      if (token == NgramIndex::kMark) continue;
      context.kept += i - begin;
      ++context.distinct;
    }
    context.end = static_cast<uint32_t>(runs_.size());
    contexts_.push_back(context);
  }

  void add_context(const Runs& context, std::span<const Run> runs, uint32_t depth, std::vector<Group>& next) {
    const size_t first = entries();
    const double total = context.kept + options_.strength;
    const double weight = context.kept ? (options_.strength + options_.discount * context.distinct) / total : 1;
    nodes_[context_].first = static_cast<uint32_t>(first);
    nodes_[context_++].bits |= quantum(weight, 8, 63) << 26;
    const bool repeats = runs.size() > NgramIndex::kRanked;  // needs room for the best, in front
    if (repeats) block_.resize(block_.size() + NgramIndex::kRanked);
    for (const Run& run : runs) add_continuation(run, depth, total, weight, next);
    if (repeats) repeat_best(kHeader + first, runs.size() - context.distinct);
    else if (runs.size() > 1) std::sort(block_.begin() + static_cast<std::ptrdiff_t>(kHeader + first), block_.end(), better);
    if (entries() >= NgramIndex::kNone)
      throw std::length_error("the corpus has more than 2^32 n-grams: raise min_count");
  }

  void add_continuation(const Run& run, uint32_t depth, double total, double weight, std::vector<Group>& next) {
    const uint32_t position = order_[run.begin], count = run.end - run.begin;
    const int32_t token = text_[position + depth].token;
    const Found shorter = depth ? below_[run.shorter] : Found{0, 0};
    const double p = std::max(count - options_.discount, 0.0) / total + weight * shorter.probability;
    uint32_t child = NgramIndex::kNone;
    if (token != options_.end && depth == static_cast<uint32_t>(options_.n_max)) {
      child = shorter.child;
    } else if (token != options_.end && count > 1) {
      child = static_cast<uint32_t>(nodes_.size());
      if (child >> 26) throw std::length_error("the corpus has more than 2^26 contexts: raise min_count or lower n_max");
      nodes_.push_back({0, shorter.child});
      next.push_back({run.begin, run.end});
    } else if (token != options_.end && options_.min_count == 1) {
      child = NgramIndex::kSingle | (position + depth + 1);
    }
    const auto id = static_cast<uint32_t>(here_.size());
    for (uint32_t i = run.begin; i < run.end; ++i) text_[order_[i] + depth].entry[depth % 2] = id;
    here_.push_back({static_cast<float>(p), child});
    block_.push_back(pack(token, token == NgramIndex::kMark ? 0 : p, child));
  }

  static bool better(uint64_t left, uint64_t right) {
    const NgramIndex::Entry a{left}, b{right};
    return a.quantum() != b.quantum() ? a.quantum() < b.quantum() : a.token() < b.token();
  }

  // Puts the best of a long list, which stands by token, in the room in front; marks, which come
  // last, are never proposed.
  void repeat_best(size_t room, size_t marks) {
    const auto to = block_.begin() + static_cast<std::ptrdiff_t>(room), list = to + NgramIndex::kRanked;
    std::partial_sort_copy(list, block_.end() - static_cast<std::ptrdiff_t>(marks), to, list, better);
  }

  // The entries stand behind the header already; nodes and text follow.
  void finish() {
    const NgramHeader header{nodes_.size() - 1, entries(), text_.size(), options_.min_count,
                             options_.discount, options_.strength, options_.n_max, options_.end,
                             options_.mark, 0};
    const NgramLayout at(header);
    block_.resize(at.bytes / 8);
    auto* bytes = reinterpret_cast<uint8_t*>(block_.data());
    std::memcpy(bytes, &header, sizeof header);
    std::memcpy(bytes + at.nodes, nodes_.data(), nodes_.size() * sizeof nodes_[0]);
    for (size_t i = 0; i < text_.size(); ++i) std::memcpy(bytes + at.text + 3 * i, &text_[i].token, 3);
  }

  NgramOptions options_;
  std::vector<Place> text_;
  std::vector<uint32_t> order_;         // positions, sorted by what begins there
  std::vector<NgramIndex::Node> nodes_;
  std::vector<uint64_t> block_;         // room for the header, and the entries so far
  std::vector<Found> below_, here_;     // by entry of the last and of this level, in order of tokens
  std::vector<Run> runs_;               // of a batch
  std::vector<Runs> contexts_;
  std::vector<uint64_t> keys_, spare_;
  size_t context_ = 0;
};

NgramIndex::NgramIndex(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& options) {
  check(tokens, offsets, options);
  owned_ = NgramBuilder(tokens, offsets, options).build();
  block_ = owned_;
  attach();
}

}  // namespace tasc
