#undef NDEBUG
#include "tasc/ngram_count.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using Ids = std::vector<int32_t>;
using Offsets = std::vector<int64_t>;

template <class Error, class Call>
bool refused(Call call) {
  try {
    call();
  } catch (const Error&) {
    return true;
  }
  return false;
}

std::string scratch(int i) {
  return (std::filesystem::temp_directory_path() / ("ngram_count_test-" + std::to_string(i))).string();
}

void agrees_with_a_map_on_random_corpora_in_parts() {
  std::mt19937 rng(7);
  for (int round = 0; round < 100; ++round) {
    std::map<Ids, int64_t> wanted;
    std::vector<std::string> paths;
    const int32_t base = round % 2 ? 0 : 2'000'000'000;  // more than two digits of the sort
    for (int part = 0, parts = 1 + static_cast<int>(rng() % 5); part < parts; ++part) {
      Ids tokens;
      Offsets offsets{0}, weights;
      for (unsigned s = rng() % 5; s-- > 0;) {
        weights.push_back(round % 3 ? 1 + rng() % 3 : 1);
        for (unsigned k = rng() % 40; k-- > 0;) tokens.push_back(base + static_cast<int32_t>(rng() % 3));
        offsets.push_back(static_cast<int64_t>(tokens.size()));
        for (int64_t i = offsets[offsets.size() - 2]; i < offsets.back(); ++i) {
          for (int64_t n = 1; n <= tasc::kRunLength && i + n <= offsets.back(); ++n) {
            wanted[Ids(tokens.begin() + i, tokens.begin() + i + n)] += weights.back();
          }
        }
      }
      paths.push_back(scratch(part));
      tasc::write_counts(tokens, offsets, weights, paths.back());
    }
    tasc::join_runs(paths, scratch(99));
    for (const auto& from : {paths, {scratch(99)}}) {
      const tasc::Counted found = tasc::merge_runs(from, wanted.size() + 1);
      size_t seen = 0;
      for (size_t n = 1; n <= tasc::kRunLength; ++n) {
        const tasc::Spectrum& s = found.spectra[n - 1];
        int64_t total = 0;
        for (size_t k = 0; k < s.top_counts.size(); ++k, ++seen) {
          const auto first = s.top_ids.begin() + static_cast<std::ptrdiff_t>(k * n);
          assert(wanted.at(Ids(first, first + static_cast<std::ptrdiff_t>(n))) == s.top_counts[k]);
          assert(k == 0 || s.top_counts[k - 1] >= s.top_counts[k]);
          total += s.top_counts[k];
        }
        for (size_t k = 0; k < s.counts.size(); ++k) total -= s.counts[k] * s.times[k];
        assert(total == 0);
      }
      assert(seen == wanted.size());
    }
    for (const std::string& path : paths) std::filesystem::remove(path);
  }
  std::filesystem::remove(scratch(99));
}

void refuses_arrays_that_do_not_fit() {
  const auto count = [](const Ids& ids, Offsets offsets, Offsets weights) {
    return refused<std::invalid_argument>([&] { tasc::write_counts(ids, offsets, weights, scratch(0)); });
  };
  assert(!count({1, 2, 3}, {0, 3}, {1}));
  assert(count({1, 2, 3}, {}, {}));
  assert(count({1, 2, 3}, {0, 2}, {1}));
  assert(count({1, 2, 3}, {1, 3}, {1}));
  assert(count({1, 2, 3}, {0, 4, 3}, {1, 1}));
  assert(count({1, 2, 3}, {0, 3}, {}));
  assert(count({1, 2, 3}, {0, 3}, {0}) && count({1, 2, 3}, {0, 3}, {-1}));
  assert(count({1, 1, 1}, {0, 2, 3}, {INT32_MAX, int64_t{1} << 62}));
  assert(count({1, -2, 3}, {0, 3}, {1}));
  assert(refused<std::runtime_error>([] {
    const Ids ids{1};
    const Offsets offsets{0, 1}, weights{1};
    tasc::write_counts(ids, offsets, weights, "/none/run");
  }));
  assert(refused<std::runtime_error>([] { tasc::merge_runs({"/none/run"}, 0); }));
}

void write_words(const std::vector<uint64_t>& words, size_t left_out = 0) {
  std::FILE* const file = std::fopen(scratch(0).c_str(), "wb");
  assert(file && std::fwrite(words.data(), 1, 8 * words.size() - left_out, file) == 8 * words.size() - left_out);
  std::fclose(file);
}

void files_that_are_no_runs_are_refused() {
  constexpr uint64_t head = uint64_t{1} << 63, counted = uint64_t{1} << 31, one = uint64_t{1} << 32, most = uint64_t{1} << 53;
  const auto no_run = [](const std::vector<uint64_t>& words, size_t left_out = 0, size_t times = 1) {
    write_words(words, left_out);
    const std::vector<std::string> paths(times, scratch(0));
    const bool merged = !refused<std::runtime_error>([&] { tasc::merge_runs(paths, 1); });
    assert(merged != refused<std::runtime_error>([&] { tasc::join_runs(paths, scratch(1)); }));
    return !merged;
  };
  const uint64_t two = one | 1;  // two ids, of which more may follow
  assert(!no_run({head, one, head, two, counted | one, 5, two, head, 2 * one}));
  assert(!no_run({head | counted, one, most}));
  assert(no_run({head | counted, one, most}, 0, 2));
  assert(no_run({head | counted, one, most + 1}));
  assert(no_run({head | counted, one, ~uint64_t{0}}));  // -1
  assert(no_run({head | counted, one, 0}));
  assert(no_run({head | counted, one}));                                  // cut within a record
  assert(no_run({head, one, head, two}, 3));                              // cut within a word
  assert(no_run({head, two, 0}) && no_run({head | two, two, one}));       // does not rise
  assert(no_run({head, 1}) && no_run({head | one, one}) && no_run({head | 1, two}));  // goes on behind its end
  assert(no_run({head, ~uint64_t{0}}) && no_run({0}));
  for (const int i : {0, 1}) std::filesystem::remove(scratch(i));
}

}  // namespace

int main() {
  files_that_are_no_runs_are_refused();
  agrees_with_a_map_on_random_corpora_in_parts();
  refuses_arrays_that_do_not_fit();
}
