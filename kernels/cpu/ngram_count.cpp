#include "tasc/ngram_count.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "run_file.h"

namespace tasc {
namespace {

constexpr int kDigit = 11;  // bits sorted by at a time, at most: 2,048 streams of writes

bool same(const RunRecord& a, const RunRecord& b) { return a.head == b.head && a.tail == b.tail; }

// One stable pass by `bits` of a key from `shift`; false, and nothing moved, when all agree.
bool pass(const Run& from, Run& to, uint64_t RunRecord::* key, int shift, int bits) {
  std::array<size_t, size_t{1} << kDigit> starts{};
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const auto digit = [&](const RunRecord& r) { return r.*key >> shift & mask; };
  for (const RunRecord& record : from) ++starts[digit(record)];
  if (starts[digit(from.front())] == from.size()) return false;
  size_t sum = 0;
  for (size_t& start : starts) sum += std::exchange(start, sum);
  for (const RunRecord& record : from) to[starts[digit(record)]++] = record;
  return true;
}

void radix_sort(Run& run) {
  if (run.empty()) return;
  uint64_t bits = 0;  // that occur in any lane
  for (const RunRecord& r : run) bits |= r.head | r.head >> 32 | r.tail | r.tail >> 32;
  const int width = std::bit_width(bits & 0xFFFFFFFFu);
  const int passes = (width + kDigit - 1) / kDigit, digit = (width + passes - 1) / passes;
  Run other(run.size());
  for (const auto key : {&RunRecord::tail, &RunRecord::head}) {
    for (const int lane : {0, 32}) {
      for (int shift = 0; shift < width; shift += digit) {
        if (pass(run, other, key, lane + shift, digit)) run.swap(other);
      }
    }
  }
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

void combine(Run& run) {
  radix_sort(run);
  size_t kept = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    if (kept && same(run[kept - 1], run[i])) {
      run[kept - 1].count += run[i].count;
    } else {
      run[kept++] = run[i];
    }
  }
  run.resize(kept);
}

Run count_run(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
              std::span<const int64_t> weights) {
  check_offsets(offsets, tokens.size());
  if (weights.size() + 1 != offsets.size()) {
    throw std::invalid_argument("weights must have one entry a sample");
  }
  const auto negative = std::find_if(tokens.begin(), tokens.end(), [](int32_t t) { return t < 0; });
  if (negative != tokens.end()) {
    throw std::invalid_argument("token ids must not be negative, got " + std::to_string(*negative));
  }
  Run run;
  run.reserve(tokens.size());
  for (size_t s = 0; s < weights.size(); ++s) {
    const auto sample = tokens.subspan(offsets[s], offsets[s + 1] - offsets[s]);
    append_positions(sample, sample.size(), weights[s], run);
  }
  combine(run);
  return run;
}

void write_run(const Run& run, const std::string& path) {
  RunWriter writer(path);
  for (const RunRecord& record : run) writer.add(record);
  writer.close();
}

}  // namespace tasc
