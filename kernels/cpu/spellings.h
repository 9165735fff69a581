// What tokens spell, and how much of the corpus spells more than a given string: the mass of PCS.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tasc {

// Base strings lie sorted under a Fenwick tree of their counts; added ones in a sorted map.
class Spellings {
 public:
  // texts (V): "" for tokens that spell nothing. counts (V): weighted frequency in the corpus.
  Spellings(std::vector<std::string_view> texts, std::span<const int64_t> counts)
      : texts_(std::move(texts)), order_(texts_.size()), rank_(texts_.size()),
        tree_(texts_.size() + 1) {
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
      return texts_[a] != texts_[b] ? texts_[a] < texts_[b] : a < b;
    });
    for (size_t r = 0; r < order_.size(); ++r) rank_[order_[r]] = static_cast<int32_t>(r);
    for (size_t id = 0; id < texts_.size(); ++id) change(static_cast<int32_t>(id), counts[id]);
  }

  // The returned view lives as long as this object.
  std::string_view text(int32_t id) const {
    const auto base = static_cast<int32_t>(texts_.size());
    return id < base ? texts_[id] : std::string_view(added_[id - base]->first);
  }

  bool is_base(std::string_view text) const {
    const auto at = lower(text, 0);
    return at < order_.size() && texts_[order_[at]] == text;
  }

  // The added token that spells text, or -1.
  int32_t find_added(std::string_view text) const {
    const auto it = by_text_.find(text);
    return it == by_text_.end() ? -1 : it->second.id;
  }

  int32_t add(const std::string& text) {
    const auto id = static_cast<int32_t>(texts_.size() + added_.size());
    added_.push_back(by_text_.emplace(text, Added{id, 0}).first);
    return id;
  }

  // The corpus holds delta more (weighted) occurrences of the token.
  void change(int32_t id, int64_t delta) {
    const auto base = static_cast<int32_t>(texts_.size());
    if (id >= base) {
      added_[id - base]->second.count += delta;
      return;
    }
    for (size_t i = size_t(rank_[id]) + 1; i < tree_.size(); i += i & -i) tree_[i] += delta;
  }

  // Occurrences in the corpus of tokens whose string strictly extends text: O(log V + matches).
  int64_t extending(std::string_view text) const {
    const size_t begin = lower(text, 1);
    const size_t end = std::partition_point(order_.begin() + begin, order_.end(),
                                            [&](int32_t id) { return texts_[id].starts_with(text); }) -
                       order_.begin();
    int64_t total = sum(end) - sum(begin);
    for (auto it = by_text_.upper_bound(text); it != by_text_.end() && it->first.starts_with(text); ++it) {
      total += it->second.count;
    }
    return total;
  }

 private:
  struct Added {
    int32_t id;
    int64_t count;
  };
  using Map = std::map<std::string, Added, std::less<>>;

  // The number of base strings below text, or with inclusive = 1 not above it.
  size_t lower(std::string_view text, int inclusive) const {
    return std::partition_point(order_.begin(), order_.end(), [&](int32_t id) {
             return texts_[id].compare(text) < inclusive;
           }) - order_.begin();
  }

  int64_t sum(size_t ranks) const {
    int64_t total = 0;
    for (size_t i = ranks; i > 0; i -= i & -i) total += tree_[i];
    return total;
  }

  std::vector<std::string_view> texts_;
  std::vector<int32_t> order_, rank_;
  std::vector<int64_t> tree_;
  Map by_text_;
  std::vector<Map::iterator> added_;
};

}  // namespace tasc
