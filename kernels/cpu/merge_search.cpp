#include "tasc/merge_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "merge_index.h"
#include "spellings.h"
#include "tasc/ngram_count.h"
#include "token_list.h"

namespace tasc {
namespace {

constexpr int64_t kMaxIds = (int64_t{1} << 31) - 1;

void require(bool holds, const std::string& message) {
  if (!holds) throw std::invalid_argument(message);
}

void check(const MergeInput& in, const MergeOptions& options) {
  check_offsets(in.offsets, in.tokens.size());
  check_weights(in.weights, in.offsets);
  require(in.boundaries.empty() || in.boundaries.size() == in.tokens.size(),
          "boundaries must have one entry a token");
  require(!in.string_ends.empty() && in.string_ends.front() == 0 &&
              in.string_ends.back() == static_cast<int64_t>(in.strings.size()) &&
              std::is_sorted(in.string_ends.begin(), in.string_ends.end()),
          "the ends of the vocabulary's strings must rise from 0 to their total length");
  const auto size = static_cast<int64_t>(in.string_ends.size()) - 1;
  for (const auto ids : {in.tokens, in.special}) {
    for (const int32_t id : ids) {
      require(id >= 0 && id < size, "token id " + std::to_string(id) +
                                        " is outside of the vocabulary of " + std::to_string(size));
    }
  }
  require(options.n_max >= 2 && options.n_max <= 16,
          "n_max must lie in 2 .. 16, got " + std::to_string(options.n_max));
  require(options.budget >= 0 && options.budget < kMaxIds - size,
          "budget must lie in 0 .. 2^31 - 1 - vocabulary, got " + std::to_string(options.budget));
  require(options.min_frequency >= 1, "min_frequency must be at least 1");
  require(options.min_reward >= 0, "min_reward must be 0 or more");
  require(options.alpha >= 0, "alpha must not be negative or NaN");
}

// Entropies of the token distribution, 0 or above: sums of c^2 and c log2 c, kept up to date.
class Entropy {
 public:
  explicit Entropy(std::vector<int64_t> counts) : counts_(std::move(counts)) {
    for (const int64_t c : counts_) total_ += c, add(c, 1);
  }
  void change(int32_t id, int64_t delta) {
    if (static_cast<size_t>(id) >= counts_.size()) counts_.resize(size_t(id) + 1);
    add(counts_[id], -1);
    add(counts_[id] += delta, 1);
    total_ += delta;
  }
  int64_t total() const { return total_; }
  double h2() const {
    const auto n = static_cast<long double>(total_);
    return total_ == 0 ? 0.0 : std::max(0.0, static_cast<double>(-std::log2(squares_ / (n * n))));
  }
  double h1() const {
    const auto n = static_cast<long double>(total_);
    return total_ == 0 ? 0.0 : std::max(0.0, static_cast<double>(std::log2(n) - logs_ / n));
  }

 private:
  void add(int64_t count, int sign) {
    if (count == 0) return;
    const auto c = static_cast<long double>(count);
    squares_ += sign * c * c;
    logs_ += sign * c * std::log2(c);
  }
  std::vector<int64_t> counts_;
  int64_t total_ = 0;
  long double squares_ = 0, logs_ = 0;
};

struct Vocabulary {
  std::vector<std::string_view> texts;  // "" for special tokens
  std::vector<uint8_t> barrier;         // 1 for tokens that no n-gram may hold
  std::vector<int64_t> counts;          // weighted frequency in the corpus

  explicit Vocabulary(const MergeInput& in)
      : texts(in.string_ends.size() - 1), barrier(texts.size()), counts(texts.size()) {
    const auto* const data = reinterpret_cast<const char*>(in.strings.data());
    for (const int32_t id : in.special) barrier[id] = 1;
    for (size_t id = 0; id < texts.size(); ++id) {
      if (barrier[id]) continue;
      texts[id] = {data + in.string_ends[id], data + in.string_ends[id + 1]};
      barrier[id] = texts[id].empty();
    }
    for (size_t s = 0; s < in.weights.size(); ++s) {
      for (int64_t i = in.offsets[s]; i < in.offsets[s + 1]; ++i) counts[in.tokens[i]] += in.weights[s];
    }
  }
};

class Search {
 public:
  Search(const MergeInput& input, const MergeOptions& options, const Admit& admit, const Tick& tick)
      : Search(input, options, admit, tick, Vocabulary(input)) {}

  MergeOutcome run() {
    out_.tokens_before = entropy_.total();
    out_.h2_before = entropy_.h2();
    out_.h1_before = entropy_.h1();
    MergeIndex::Best best;
    while (static_cast<int64_t>(out_.merges.size()) < options_.budget && index_.pop(best)) {
      if (best.frequency * static_cast<int64_t>(best.ids.size() - 1) < options_.min_reward) break;
      report();
      consider(best);
    }
    out_.tokens_after = entropy_.total();
    return std::move(out_);
  }

 private:
  Search(const MergeInput& input, const MergeOptions& options, const Admit& admit, const Tick& tick,
         Vocabulary base)
      : options_(options), admit_(admit), tick_(tick), list_(input, base.barrier),
        positions_(conditional_positions(input, base.texts.size())),
        spellings_(std::move(base.texts), base.counts), entropy_(std::move(base.counts)),
        index_(list_, input, options.n_max, options.min_frequency, [this] { report(); }) {}

  // In this order: mark used, reject spellings of base tokens, reuse those of added ones, then test PCS.
  void consider(const MergeIndex::Best& best) {
    std::string text;
    for (const int32_t id : best.ids) text += spellings_.text(id);
    if (spellings_.is_base(text)) return;
    if (const int32_t known = spellings_.find_added(text); known >= 0) {
      const int64_t inner = replace(best, known);
      out_.aliases.push_back({best.ids, known, best.frequency, inner,
                              static_cast<int64_t>(out_.merges.size())});
      return;
    }
    if (admit_ && !admit_(text)) {
      ++out_.refused;
      return;
    }
    const double pcs = collision(best.ids);
    if (!(pcs < options_.alpha)) {
      ++out_.rejected;
      return;
    }
    const int32_t id = spellings_.add(text);
    const int64_t inner = replace(best, id);
    out_.merges.push_back({best.ids, id, text, best.frequency, inner, pcs, entropy_.total(),
                           entropy_.h2(), entropy_.h1()});
  }

  // Prefix collision score (section 4.1): how much of the corpus, or of what follows the first n - 1
  // tokens of the n-gram, are tokens whose strings strictly extend the string of its last token.
  double collision(std::span<const int32_t> ids) const {
    const std::string_view last = spellings_.text(ids.back());
    if (!options_.conditional) {
      return static_cast<double>(spellings_.extending(last)) / static_cast<double>(entropy_.total());
    }
    const auto prefix = ids.first(ids.size() - 1);
    int64_t seen = 0, extended = 0;
    for (const int32_t at : positions_[prefix[0]]) {
      const int32_t end = list_.match(at, prefix);
      if (end < 0) continue;
      seen += list_[at].weight;
      const int32_t next = list_[end].next;
      if (next < 0 || list_[next].token < 0) continue;
      const std::string_view text = spellings_.text(list_[next].token);
      if (text.size() > last.size() && text.starts_with(last)) extended += list_[at].weight;
    }
    return static_cast<double>(extended) / static_cast<double>(seen);
  }

  // Replaces the n-gram's non-overlapping occurrences left to right; returns the inner ones' weight.
  int64_t replace(const MergeIndex::Best& best, int32_t id) {
    if (static_cast<size_t>(id) >= positions_.size()) positions_.resize(size_t(id) + 1);
    std::vector<int32_t>& positions = positions_[id];
    std::erase_if(positions, [&](int32_t at) { return list_[at].token != id; });
    const auto older = static_cast<std::ptrdiff_t>(positions.size());
    int64_t inner = 0;
    for (const int32_t at : best.positions) {
      const int32_t last = list_.match(at, best.ids);
      if (last < 0) continue;  // it overlapped the one before
      if (list_.inner(at, last)) inner += list_[at].weight;
      list_.replace(at, last, id);
      positions.push_back(at);
    }
    std::inplace_merge(positions.begin(), positions.begin() + older, positions.end());
    for (const int32_t old : best.ids) change(old, -best.frequency);
    change(id, best.frequency);
    index_.refresh(id, positions);
    return inner;
  }

  void change(int32_t id, int64_t delta) {
    spellings_.change(id, delta);
    entropy_.change(id, delta);
  }

  void report() {
    const auto now = std::chrono::steady_clock::now();
    if (!tick_ || now - reported_ < std::chrono::milliseconds(50)) return;
    tick_(static_cast<int64_t>(out_.merges.size()));
    reported_ = std::chrono::steady_clock::now();
  }

  // Where each token stands: of base tokens only if the conditional score needs it.
  std::vector<std::vector<int32_t>> conditional_positions(const MergeInput& in, size_t size) const {
    std::vector<std::vector<int32_t>> positions(size);
    if (!options_.conditional) return positions;
    for (size_t i = 0; i < in.tokens.size(); ++i) {
      positions[in.tokens[i]].push_back(static_cast<int32_t>(i));
    }
    return positions;
  }

  MergeOptions options_;
  const Admit& admit_;
  const Tick& tick_;
  MergeOutcome out_;
  std::chrono::steady_clock::time_point reported_{};
  TokenList list_;
  std::vector<std::vector<int32_t>> positions_;  // of each token, ascending; some may be stale
  Spellings spellings_;
  Entropy entropy_;
  MergeIndex index_;
};

}  // namespace

MergeOutcome merge_search(const MergeInput& input, const MergeOptions& options, const Admit& admit,
                          const Tick& tick) {
  check(input, options);
  return Search(input, options, admit, tick).run();
}

}  // namespace tasc
