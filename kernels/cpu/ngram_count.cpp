#include "tasc/ngram_count.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "run_file.h"

namespace tasc {
namespace {

constexpr int kDigit = 13;  // bits sorted by at a time, at most: their counters fit the L1 cache

bool same(const RunRecord& a, const RunRecord& b) { return a.head == b.head && a.tail == b.tail; }

// One stable pass by `bits` of key(entry) from `shift`; false, and nothing moved, when all agree.
template <class Entry, class Key>
bool pass(const std::vector<Entry>& from, std::vector<Entry>& to, Key key, int shift, int bits) {
  std::array<uint32_t, size_t{1} << kDigit> starts{};
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const auto digit = [&](const Entry& entry) { return key(entry) >> shift & mask; };
  for (const Entry& entry : from) ++starts[digit(entry)];
  if (starts[digit(from.front())] == from.size()) return false;
  uint32_t sum = 0;
  for (uint32_t& start : starts) sum += std::exchange(start, sum);
  for (const Entry& entry : from) to[starts[digit(entry)]++] = entry;
  return true;
}

// Sorts by the lowest `width` bits of key(entry), in as few passes of at most kDigit bits as do.
template <class Entry, class Key>
void sort_by(std::vector<Entry>& entries, std::vector<Entry>& spare, Key key, int shift, int width) {
  const int passes = (width + kDigit - 1) / kDigit;
  for (int i = 0; i < passes; ++i) {
    const int from = width * i / passes, bits = width * (i + 1) / passes - from;
    if (pass(entries, spare, key, shift + from, bits)) entries.swap(spare);
  }
}

void radix_sort(Run& run) {
  if (run.empty()) return;
  uint64_t bits = 0;  // that occur in any lane
  for (const RunRecord& r : run) bits |= r.head | r.head >> 32 | r.tail | r.tail >> 32;
  const int width = std::bit_width(bits & 0xFFFFFFFFu);
  Run spare(run.size());
  const auto tail = [](const RunRecord& r) { return r.tail; };
  const auto head = [](const RunRecord& r) { return r.head; };
  for (const int lane : {0, 32}) sort_by(run, spare, tail, lane, width);
  for (const int lane : {0, 32}) sort_by(run, spare, head, lane, width);
}

// The ids of a batch renumbered 1, 2, … in ascending order, where that fits 16 bits: four of them
// are one word, and order stays.
struct Ranks {
  std::vector<uint32_t> ids;       // [rank - 1]: id
  std::vector<uint16_t> rank_of;   // [id]
  int width = 0;                   // bits of a rank
};

bool rank_ids(std::span<const int32_t> tokens, Ranks& ranks) {
  const int32_t largest = tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
  if (static_cast<size_t>(largest) > 8 * tokens.size() + 65536) return false;
  ranks.rank_of.assign(static_cast<size_t>(largest) + 1, 0);
  for (const int32_t token : tokens) ranks.rank_of[token] = 1;
  for (size_t id = 0; id < ranks.rank_of.size(); ++id) {
    if (!ranks.rank_of[id]) continue;
    ranks.ids.push_back(static_cast<uint32_t>(id));
    ranks.rank_of[id] = static_cast<uint16_t>(ranks.ids.size());
    if (ranks.ids.size() > 65535) return false;
  }
  ranks.width = std::bit_width(ranks.ids.size());
  return true;
}

// Writes the run of the first `positions` tokens of samples that all count once.
void write_ranked(std::span<const int32_t> tokens, std::span<const int64_t> offsets, size_t positions,
                  const Ranks& ranks, const std::string& path) {
  const int width = ranks.width;
  const uint64_t mask = width == 16 ? ~uint64_t{0} : (uint64_t{1} << kRunLength * width) - 1;
  std::vector<uint64_t> keys;
  keys.reserve(tokens.size());
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const auto end = static_cast<size_t>(offsets[s + 1]);
    const auto rank = [&](size_t i) { return i < end ? uint64_t{ranks.rank_of[tokens[i]]} : 0; };
    const auto begin = static_cast<size_t>(offsets[s]);
    uint64_t key = rank(begin) << 2 * width | rank(begin + 1) << width | rank(begin + 2);
    for (size_t i = begin; i < std::min(end, positions); ++i) {
      key = (key << width | rank(i + 3)) & mask;
      keys.push_back(key);
    }
  }
  if (!keys.empty()) {
    std::vector<uint64_t> spare(keys.size());
    sort_by(keys, spare, [](uint64_t key) { return key; }, 0, kRunLength * width);
  }
  RunWriter writer(path);
  const auto lane = [&](uint64_t key, int i) {
    const uint64_t rank = key >> (kRunLength - 1 - i) * width & ((uint64_t{1} << width) - 1);
    return rank ? uint64_t{ranks.ids[rank - 1]} + 1 : 0;
  };
  for (size_t i = 0, next; i < keys.size(); i = next) {
    for (next = i + 1; next < keys.size() && keys[next] == keys[i];) ++next;
    writer.add({lane(keys[i], 0) << 32 | lane(keys[i], 1), lane(keys[i], 2) << 32 | lane(keys[i], 3),
                static_cast<int64_t>(next - i)});
  }
  writer.close();
}

void append_positions(std::span<const int32_t> sample, size_t positions, int64_t weight, Run& run) {
  const auto lane = [&](size_t i) {
    return i < sample.size() ? uint64_t{static_cast<uint32_t>(sample[i])} + 1 : 0;
  };
  uint64_t head = lane(0) << 32 | lane(1), tail = lane(2) << 32 | lane(3);
  for (size_t i = 0; i < std::min(positions, sample.size()); ++i) {
    run.push_back({head, tail, weight});
    head = head << 32 | tail >> 32;
    tail = tail << 32 | lane(i + kRunLength);
  }
}

// Sorts, and writes equal records as one.
void write_records(Run& run, const std::string& path) {
  radix_sort(run);
  RunWriter writer(path);
  for (size_t i = 0, next; i < run.size(); i = next) {
    RunRecord sum = run[i];
    for (next = i + 1; next < run.size() && same(run[next], sum); ++next) sum.count += run[next].count;
    writer.add(sum);
  }
  writer.close();
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

void check_weights(std::span<const int64_t> weights, std::span<const int64_t> offsets) {
  if (weights.size() + 1 != offsets.size()) throw std::invalid_argument("weights must have one entry a sample");
  int64_t left = kMostCounted;
  for (size_t s = 0; s < weights.size(); ++s) {
    const int64_t weight = weights[s], length = offsets[s + 1] - offsets[s];
    if (weight < 1 || weight >= int64_t{1} << 31)
      throw std::invalid_argument("weights must lie in 1 .. 2^31 - 1, got " + std::to_string(weight));
    if (length > 0 && weight > left / length) throw std::invalid_argument("more than 2^53 weighted tokens");
    left -= weight * length;
  }
}

void write_stream(std::span<const int32_t> tokens, size_t positions, const std::string& path) {
  Ranks ranks;
  const std::array<int64_t, 2> whole{0, static_cast<int64_t>(tokens.size())};
  if (rank_ids(tokens, ranks)) return write_ranked(tokens, whole, positions, ranks, path);
  Run run;
  run.reserve(positions);
  append_positions(tokens, positions, 1, run);
  write_records(run, path);
}

void write_counts(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
                  std::span<const int64_t> weights, const std::string& path) {
  check_offsets(offsets, tokens.size());
  check_weights(weights, offsets);
  const auto outside = std::find_if(tokens.begin(), tokens.end(),
                                    [](int32_t t) { return t < 0 || t > kLargestId; });
  if (outside != tokens.end()) {
    throw std::invalid_argument("token ids must be from 0 to 2^31 - 2, got " + std::to_string(*outside));
  }
  Ranks ranks;
  const bool once = std::all_of(weights.begin(), weights.end(), [](int64_t w) { return w == 1; });
  if (once && rank_ids(tokens, ranks)) return write_ranked(tokens, offsets, tokens.size(), ranks, path);
  Run run;
  run.reserve(tokens.size());
  for (size_t s = 0; s < weights.size(); ++s) {
    const auto sample = tokens.subspan(offsets[s], offsets[s + 1] - offsets[s]);
    append_positions(sample, sample.size(), weights[s], run);
  }
  write_records(run, path);
}

void check_run(const std::string& path, size_t ids) {
  const auto fits = [&](uint64_t lanes) { return lanes >> 32 <= ids && (lanes & 0xFFFFFFFFu) <= ids; };
  for (RunReader reader(path); !reader.done(); reader.next())
    if (!fits(reader.record().head) || !fits(reader.record().tail))
      throw std::runtime_error(path + ": cannot be read, or is not what was written");
}

std::vector<std::string> renumber_run(const std::string& path, std::span<const int32_t> ids,
                                      const std::string& prefix) {
  constexpr size_t most = size_t{1} << 20;  // records sorted at a time: 24 MB
  const auto renumbered = [&](uint64_t lane) -> uint64_t {
    if (lane == 0) return 0;
    if (lane > ids.size()) throw std::runtime_error(path + ": cannot be read, or is not what was written");
    return uint64_t{static_cast<uint32_t>(ids[lane - 1])} + 1;
  };
  const auto both = [&](uint64_t lanes) { return renumbered(lanes >> 32) << 32 | renumbered(lanes & 0xFFFFFFFFu); };
  std::vector<std::string> written;
  int64_t left = kMostCounted;  // no sum overflows
  for (RunReader reader(path); !reader.done();) {
    Run run;
    for (; run.size() < most && !reader.done(); reader.next()) {
      const RunRecord& record = reader.record();
      if (record.count > left) throw std::runtime_error("runs count more than 2^53 n-grams");
      left -= record.count;
      run.push_back({both(record.head), both(record.tail), record.count});
    }
    written.push_back(prefix + "-" + std::to_string(written.size()));
    write_records(run, written.back());
  }
  return written;
}

}  // namespace tasc
