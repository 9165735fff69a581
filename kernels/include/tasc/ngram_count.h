// Counts n-grams of 1 to 4 ids in corpora of any size: sorted runs on disk, merged once at the end.
//
// Every position of a sample gives one record, its next four ids. Sorted records hold the n-grams of
// all shorter lengths in order, too, so one run and one merge serve n = 1 to 4. Runs may come from any
// number of processes in any order: the result depends on what was counted and on nothing else.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tasc {

constexpr int kRunLength = 4;  // longest n-gram
constexpr int32_t kLargestId = INT32_MAX - 1;

// head = first << 32 | second, tail = third << 32 | fourth; id + 1 each, 0 beyond the sample's end.
struct RunRecord {
  uint64_t head, tail;
  int64_t count;
};
using Run = std::vector<RunRecord>;

// Counts, sorts by radix and writes a run: O(T).
//
// tokens (T), ids from 0 to kLargestId; offsets (S + 1): sample s is tokens[offsets[s], offsets[s + 1]); weights (S).
// Throws std::invalid_argument when the arrays do not fit together, std::runtime_error when the file
// cannot be written.
void write_counts(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
                  std::span<const int64_t> weights, const std::string& path);

// The same for one sample of which only the first `positions` n-grams are counted.
void write_stream(std::span<const int32_t> tokens, size_t positions, const std::string& path);

// The distribution of n-grams of one length: how many of them occur how often.
struct Spectrum {
  std::vector<int64_t> counts;      // descending, distinct
  std::vector<int64_t> times;       // how many n-grams have that count
  std::vector<int32_t> top_ids;     // (K * n): the most frequent ones; ties by ascending ids
  std::vector<int64_t> top_counts;  // (K)
};

struct Counted {
  std::array<Spectrum, kRunLength> spectra;
  std::vector<int32_t> ids;     // every id that occurs, ascending
  std::vector<int64_t> counts;  // and how often
};

// Merges runs and describes each length, keeping the `top` most frequent n-grams.
// Throws std::runtime_error when a file cannot be read or is no run: out of order, cut within a
// record, without counts. Nothing else is relied on, so no file leads outside of memory.
Counted merge_runs(const std::vector<std::string>& paths, size_t top);

// Merges runs into one, so that no merge has too many files open.
void join_runs(const std::vector<std::string>& paths, const std::string& path);

// Throws std::runtime_error where a run has an id of ``ids`` or above.
void check_run(const std::string& path, size_t ids);

// Writes a run again with ids[id] (I) for each id, which changes the order: as sorted runs of
// bounded length, prefix-0, prefix-1, …, whose paths it returns.
// Throws std::runtime_error when a file cannot be read or written, is no run, or has an id from I on.
std::vector<std::string> renumber_run(const std::string& path, std::span<const int32_t> ids,
                                      const std::string& prefix);

// Throws std::invalid_argument unless offsets begin at 0, never fall, and end at size < 2^31.
void check_offsets(std::span<const int64_t> offsets, size_t size);

// Throws std::invalid_argument unless each sample has a weight (S) of 1 to 2^31 - 1, and weighted
// tokens are 2^53 at most.
void check_weights(std::span<const int64_t> weights, std::span<const int64_t> offsets);

}  // namespace tasc
