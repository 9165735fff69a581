#include "tasc/recycling.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "tasc/tree.h"

namespace tasc {
namespace {

// A 64-bit key per context. Contexts with equal keys would share drafts, and output stays lossless.
uint64_t key_of(const RecentTokens& recent, int length) {
  uint64_t key = static_cast<uint64_t>(length) * 0xD6E8FEB86659FD93ull;
  for (int i = 0; i < length; ++i) {
    key = (key ^ static_cast<uint32_t>(recent.tokens[static_cast<size_t>(i)])) * 0x9E3779B97F4A7C15ull;
    key ^= key >> 32;
  }
  return key == 0 ? 1 : key;
}

// The weighted mean of a row and its new values, which have the weight `share`.
void renew(RecycledLogits::Row& row, const RecycledLogits::Row& said, float share) {
  struct Entry {
    int32_t token;
    float probability;
  } entries[2 * RecycledLogits::kSuccessors];
  size_t count = 0;
  for (size_t i = 0; i < row.tokens.size() && row.tokens[i] >= 0; ++i)
    entries[count++] = {row.tokens[i], (1 - share) * row.probabilities[i]};
  const size_t before = count;
  for (size_t i = 0; i < said.tokens.size() && said.tokens[i] >= 0; ++i) {
    size_t at = 0;
    while (at < before && entries[at].token != said.tokens[i]) ++at;
    if (at == before) at = count++, entries[at] = {said.tokens[i], 0};
    entries[at].probability += share * said.probabilities[i];
  }
  const auto gone = std::remove_if(entries, entries + count, [](auto& e) { return e.probability <= 0; });
  count = static_cast<size_t>(gone - entries);
  std::stable_sort(entries, entries + count, [](auto& a, auto& b) { return a.probability > b.probability; });
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    row.tokens[i] = i < count ? entries[i].token : -1;
    row.probabilities[i] = i < count ? entries[i].probability : 0;
  }
}

}  // namespace

float RecycledLogits::Row::probability(int32_t token) const {
  for (size_t i = 0; i < tokens.size() && tokens[i] >= 0; ++i)
    if (tokens[i] == token) return probabilities[i];
  return 0;
}

RecycledLogits::RecycledLogits(size_t rows, double renewal) : renewal_(renewal) {
  if (rows > size_t{1} << 28) throw std::invalid_argument("at most 2^28 rows are kept, got " + std::to_string(rows));
  const size_t room = std::bit_ceil(std::max(rows, kWays));
  mask_ = room / kWays - 1;
  keys_.resize(room);
  written_.resize(room);
  rows_ = std::make_unique_for_overwrite<Row[]>(room);
}

const RecycledLogits::Row* RecycledLogits::find(const RecentTokens& recent, int length) const {
  if (recent.tokens[static_cast<size_t>(length - 1)] < 0) return nullptr;
  const uint64_t key = key_of(recent, length);
  const size_t set = set_of(key);
  for (size_t at = set; at < set + kWays; ++at)
    if (keys_[at] == key) return &rows_[at];
  return nullptr;
}

RecycledLogits::Row& RecycledLogits::claim(uint64_t key, bool& known) {
  const size_t set = set_of(key);
  size_t chosen = set;
  for (size_t at = set; at < set + kWays; ++at) {
    if (keys_[at] == key) {
      chosen = at;
      break;
    }
    const bool free = keys_[at] == 0;
    if (keys_[chosen] != 0 && (free || clock_ - written_[at] > clock_ - written_[chosen])) chosen = at;
  }
  known = keys_[chosen] == key;
  filled_ += keys_[chosen] == 0;
  keys_[chosen] = key;
  written_[chosen] = clock_;
  return rows_[chosen];
}

void RecycledLogits::add(const RecentTokens& recent, std::span<const int32_t> tokens,
                         std::span<const float> probabilities) {
  Row said;
  said.tokens.fill(-1);
  said.probabilities.fill(0);
  std::copy_n(tokens.begin(), std::min(tokens.size(), said.tokens.size()), said.tokens.begin());
  std::copy_n(probabilities.begin(), std::min(tokens.size(), said.tokens.size()), said.probabilities.begin());
  ++clock_;
  for (int length = 1; length <= RecentTokens::kLongest; ++length) {
    if (recent.tokens[static_cast<size_t>(length - 1)] < 0) return;
    bool known = false;
    Row& row = claim(key_of(recent, length), known);
    if (known) renew(row, said, static_cast<float>(renewal_));
    else row = said;
  }
}

void RecycledLogits::add_tree(const RecentTokens& recent, std::span<const int32_t> tokens,
                              std::span<const int32_t> parents, std::span<const int32_t> successors,
                              std::span<const float> probabilities) {
  const size_t n = tokens.size(), k = successors.size() / (n + 1);
  if (parents.size() != n || n > kMaxNodes || first_bad_parent(parents.data(), static_cast<int>(n)) >= 0)
    throw std::invalid_argument("draft tree: a node's parent must be -1 or an earlier node");
  if (successors.size() != k * (n + 1) || probabilities.size() != successors.size())
    throw std::invalid_argument("a tree of " + std::to_string(n) + " nodes needs as many successors after each of " +
                                std::to_string(n + 1) + " rows, got " + std::to_string(successors.size()));
  std::vector<RecentTokens> contexts(n + 1, recent);
  for (size_t i = 0; i <= n; ++i) {
    if (i > 0) {
      contexts[i] = contexts[static_cast<size_t>(parents[i - 1] + 1)];
      contexts[i].append(tokens[i - 1]);
    }
    add(contexts[i], successors.subspan(i * k, k), probabilities.subspan(i * k, k));
  }
}

const char* RecycledLogits::check_integrity() const {
  size_t filled = 0;
  for (size_t at = 0; at < keys_.size(); ++at) {
    if (keys_[at] == 0) continue;
    ++filled;
    if (set_of(keys_[at]) != at / kWays * kWays) return "a row lies in the set of its context";
    const Row& row = rows_[at];
    for (size_t i = 1; i < row.tokens.size(); ++i) {
      if (row.tokens[i] >= 0 && row.tokens[i - 1] < 0) return "no token stands behind the end of a row";
      if (row.tokens[i] >= 0 && row.probabilities[i] > row.probabilities[i - 1]) return "probabilities fall";
    }
  }
  return filled == filled_ ? nullptr : "rows in use are counted";
}

}  // namespace tasc
