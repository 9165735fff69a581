#include "tasc/ngram_count.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "pair_table.h"

namespace tasc {
namespace {

constexpr uint32_t kNone = PairTable::kNone;

// Replaces the number of the k-gram at each position by the number of the (k + step)-gram there:
// two overlapping k-grams, step <= k apart, name it exactly. Returns how many are distinct.
size_t lengthen(std::vector<uint32_t>& number, std::span<const int64_t> offsets, int64_t step) {
  PairTable table;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) {
      const uint32_t head = number[i];
      const uint32_t tail = i + step < offsets[s + 1] ? number[i + step] : kNone;
      number[i] = head == kNone || tail == kNone ? kNone : table.insert(head, tail);
    }
  }
  return table.size();
}

}  // namespace

void check_offsets(std::span<const int64_t> offsets, size_t size) {
  if (size >= size_t{1} << 31) {
    throw std::invalid_argument("at most 2^31 - 1 tokens can be indexed, got " + std::to_string(size));
  }
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<int64_t>(size)) {
    throw std::invalid_argument("offsets must run from 0 to the number of tokens, " +
                                std::to_string(size));
  }
  if (!std::is_sorted(offsets.begin(), offsets.end())) {
    throw std::invalid_argument("offsets must not decrease");
  }
}

NgramCounts count_ngrams(std::span<const int32_t> tokens, std::span<const int64_t> offsets, int n) {
  check_offsets(offsets, tokens.size());
  if (n < 1) throw std::invalid_argument("n must be at least 1, got " + std::to_string(n));
  const auto negative = std::find_if(tokens.begin(), tokens.end(), [](int32_t t) { return t < 0; });
  if (negative != tokens.end()) {
    throw std::invalid_argument("token ids must not be negative, got " + std::to_string(*negative));
  }
  std::vector<uint32_t> number(tokens.begin(), tokens.end());
  size_t distinct = n == 1 ? lengthen(number, offsets, 0) : 0;  // step 0: numbers the tokens themselves
  for (int64_t length = 1; length < n;) {
    const int64_t step = std::min<int64_t>(length, n - length);
    distinct = lengthen(number, offsets, step);
    length += step;
  }

  std::vector<int64_t> counts(distinct);
  std::vector<int64_t> first(distinct, -1);
  for (size_t i = number.size(); i-- > 0;) {
    if (number[i] == kNone) continue;
    ++counts[number[i]];
    first[number[i]] = static_cast<int64_t>(i);
  }
  std::vector<uint32_t> order;
  for (size_t k = 0; k < distinct; ++k) {
    if (counts[k] > 0) order.push_back(static_cast<uint32_t>(k));
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (counts[a] != counts[b]) return counts[a] > counts[b];
    const auto x = tokens.begin() + first[a], y = tokens.begin() + first[b];
    return std::lexicographical_compare(x, x + n, y, y + n);
  });

  NgramCounts result;
  result.counts.reserve(order.size());
  result.ids.reserve(order.size() * static_cast<size_t>(n));
  for (const uint32_t k : order) {
    result.counts.push_back(counts[k]);
    result.ids.insert(result.ids.end(), tokens.begin() + first[k], tokens.begin() + first[k] + n);
  }
  return result;
}

}  // namespace tasc
