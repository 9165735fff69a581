// All n-grams that could be merged, each with the positions where it was seen, under a lazy max-heap.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "pair_table.h"
#include "token_list.h"

namespace tasc {

// Position lists are append-only and checked against the corpus when an n-gram comes up: a merge only
// takes occurrences away from n-grams without the new token, so an old count is an upper bound, and an
// n-gram whose checked count equals its key is the best. N-grams that touch themselves (a a, a b a)
// start from the count of all occurrences, an upper bound too, and are counted greedily when checked.
class MergeIndex {
 public:
  struct Best {
    std::vector<int32_t> ids;
    std::vector<int32_t> positions;  // ascending; overlapping ones included
    int64_t frequency;               // weighted, non-overlapping
  };

  // Indexes every n-gram of the corpus, 2 <= n <= n_max. step() is called between passes.
  MergeIndex(const TokenList& list, const MergeInput& input, int n_max, int64_t min_frequency,
             const std::function<void()>& step)
      : list_(list), n_max_(n_max), min_frequency_(min_frequency) {
    std::vector<uint32_t> number(list.size());
    for (size_t i = 0; i < number.size(); ++i) {
      const int32_t token = list[static_cast<int32_t>(i)].token;
      number[i] = token < 0 ? PairTable::kNone : static_cast<uint32_t>(token);
    }
    for (int n = 2; n <= n_max; ++n) {
      step();
      index_length(number, input.offsets, n);
    }
    std::make_heap(heap_.begin(), heap_.end(), less());
  }

  // Takes the best n-gram out for good. False when none reaches min_frequency.
  bool pop(Best& best) {
    while (!heap_.empty()) {
      const Entry top = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), less());
      heap_.pop_back();
      Node& node = nodes_[top.node];
      const auto ids = ids_of(node);
      if (outdated(node, ids)) continue;
      const int64_t frequency = check(node, ids);
      if (frequency < min_frequency_) continue;
      if (const uint64_t now = key(frequency, node.n); now != top.key) {
        push(now, top.node);
        continue;
      }
      if (!used_.insert(bytes(ids)).second) continue;
      best.ids.assign(ids.begin(), ids.end());
      best.positions.assign(pool_.begin() + node.begin, pool_.begin() + node.begin + node.size);
      best.frequency = frequency;
      return true;
    }
    return false;
  }

  // Indexes every n-gram around the tokens at these ascending positions: all positions where token stands.
  // What was known of n-grams that hold it is dropped, so an old token that got new positions is refreshed.
  void refresh(int32_t token, std::span<const int32_t> positions) {
    if (static_cast<size_t>(token) >= birth_.size()) birth_.resize(size_t(token) + 1);
    birth_[token] = ++now_;
    collect(positions);
    std::vector<int64_t> weight(table_.size());
    std::vector<int32_t> size(table_.size());
    for (const Seen& seen : seen_) {
      weight[seen.number] += list_[seen.at].weight;
      ++size[seen.number];
    }
    std::vector<int64_t> position(table_.size(), -1);
    for (const Seen& seen : seen_) {
      if (weight[seen.number] < min_frequency_) continue;
      int64_t& at = position[seen.number];
      if (at < 0) at = open_node(seen.at, seen.n, size[seen.number], weight[seen.number], true);
      pool_[at++] = seen.at;
    }
  }

 private:
  struct Node {
    int64_t begin;  // in pool_
    int64_t ids;    // in ids_
    int32_t size, n;
    uint32_t birth;
  };
  struct Entry {
    uint64_t key;  // reward, then n
    uint32_t node;
  };
  struct Seen {  // one n-gram at one position
    uint32_t number;
    int32_t at, n;
  };

  static uint64_t key(int64_t frequency, int n) {
    return static_cast<uint64_t>(frequency) * static_cast<uint64_t>(n - 1) << 5 | static_cast<uint64_t>(n);
  }
  static std::string bytes(std::span<const int32_t> ids) {
    return {reinterpret_cast<const char*>(ids.data()), ids.size_bytes()};
  }
  std::span<const int32_t> ids_of(const Node& node) const {
    return {ids_.data() + node.ids, static_cast<size_t>(node.n)};
  }

  struct Less {
    const MergeIndex* index;
    bool operator()(const Entry& a, const Entry& b) const {
      if (a.key != b.key) return a.key < b.key;
      const auto x = index->ids_of(index->nodes_[a.node]), y = index->ids_of(index->nodes_[b.node]);
      return std::lexicographical_compare(y.begin(), y.end(), x.begin(), x.end());
    }
  };
  Less less() const { return {this}; }

  void push(uint64_t key, uint32_t node) {
    heap_.push_back({key, node});
    std::push_heap(heap_.begin(), heap_.end(), less());
  }

  bool outdated(const Node& node, std::span<const int32_t> ids) const {
    return std::any_of(ids.begin(), ids.end(), [&](int32_t id) {
      return static_cast<size_t>(id) < birth_.size() && birth_[id] > node.birth;
    });
  }

  // Drops positions where the n-gram no longer stands; returns its weighted non-overlapping count.
  int64_t check(Node& node, std::span<const int32_t> ids) {
    int32_t* const list = pool_.data() + node.begin;
    int32_t kept = 0, covered = -1;
    int64_t total = 0;
    for (int32_t k = 0; k < node.size; ++k) {
      if (k + 8 < node.size) list_.prefetch(list[k + 8]);
      const int32_t at = list[k], last = list_.match(at, ids);
      if (last < 0) continue;
      list[kept++] = at;
      if (at <= covered) continue;
      covered = last;
      total += list_[at].weight;
    }
    node.size = kept;
    return total;
  }

  // Room for size positions of the n-gram at position at; returns where they go in pool_.
  int64_t open_node(int32_t at, int32_t n, int32_t size, int64_t weight, bool live) {
    const auto begin = static_cast<int64_t>(pool_.size());
    nodes_.push_back({begin, static_cast<int64_t>(ids_.size()), size, n, now_});
    pool_.resize(pool_.size() + size);
    for (int32_t k = 0; k < n; ++k, at = list_[at].next) ids_.push_back(list_[at].token);
    const Entry entry{key(weight, n), static_cast<uint32_t>(nodes_.size() - 1)};
    heap_.push_back(entry);
    if (live) std::push_heap(heap_.begin(), heap_.end(), less());
    return begin;
  }

  // From the numbers of the (n - 1)-grams at each position to those of the n-grams, and nodes for them.
  // An n-gram below min_frequency loses its number: a longer one that holds it cannot be frequent.
  void index_length(std::vector<uint32_t>& number, std::span<const int64_t> offsets, int n) {
    table_.reset(number.size() / 8);
    std::vector<int64_t> weight, admitted;
    std::vector<int32_t> size;
    const auto admissible = [&](int32_t at) { return list_.admissible(at, at + n - 1, n); };
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      for (auto at = static_cast<int32_t>(offsets[s]); at < offsets[s + 1]; ++at) {
        const uint32_t head = number[at];
        const uint32_t tail = at + n <= offsets[s + 1] ? number[at + 1] : PairTable::kNone;
        number[at] = PairTable::kNone;
        if (head == PairTable::kNone || tail == PairTable::kNone) continue;
        const uint32_t k = number[at] = table_.insert(head, tail);
        if (k == weight.size()) weight.push_back(0), admitted.push_back(0), size.push_back(0);
        weight[k] += list_[at].weight;
        if (!admissible(at)) continue;
        admitted[k] += list_[at].weight;
        ++size[k];
      }
    }
    std::vector<int64_t> position(weight.size(), -1);
    for (size_t i = 0; i < number.size(); ++i) {
      const uint32_t k = number[i];
      if (k == PairTable::kNone) continue;
      if (weight[k] < min_frequency_) number[i] = PairTable::kNone;
      const auto at = static_cast<int32_t>(i);
      if (admitted[k] < min_frequency_ || !admissible(at)) continue;
      if (position[k] < 0) position[k] = open_node(at, n, size[k], admitted[k], false);
      pool_[position[k]++] = at;
    }
  }

  // Fills seen_ with the admissible n-grams around the positions, each at its leftmost such token.
  void collect(std::span<const int32_t> positions) {
    table_.reset(positions.size());
    seen_.clear();
    int32_t previous = -1;
    for (const int32_t at : positions) {
      uint32_t left = 0;  // numbers 1, 2, ... are table_'s, 0 is the bare token
      int32_t first = at;
      for (int reach = 1;; ++reach) {
        extend_right(first, at, left, reach);
        first = list_[first].prev;
        if (reach == n_max_ || first < 0 || first == previous || list_[first].token < 0) break;
        left = 1 + table_.insert(left, kLeft | static_cast<uint32_t>(list_[first].token));
      }
      previous = at;
    }
  }

  // The n-grams that begin at first and end at last or later; reach tokens lie between them.
  void extend_right(int32_t first, int32_t last, uint32_t number, int reach) {
    for (int n = reach;; ++n) {
      if (n >= 2 && list_.admissible(first, last, n)) seen_.push_back({number - 1, first, n});
      last = list_[last].next;
      if (n == n_max_ || last < 0 || list_[last].token < 0) return;
      number = 1 + table_.insert(number, static_cast<uint32_t>(list_[last].token));
    }
  }

  static constexpr uint32_t kLeft = uint32_t{1} << 31;  // tokens are below 2^31

  const TokenList& list_;
  int n_max_;
  int64_t min_frequency_;
  uint32_t now_ = 0;
  std::vector<uint32_t> birth_;  // of each token: when its n-grams were last indexed
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_, pool_;
  std::vector<Entry> heap_;
  std::unordered_set<std::string> used_;
  PairTable table_;
  std::vector<Seen> seen_;
};

}  // namespace tasc
