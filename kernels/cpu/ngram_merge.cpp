#include <algorithm>
#include <map>

#include "run_file.h"
#include "tasc/ngram_count.h"

namespace tasc {
namespace {

using Ids = std::array<uint32_t, kRunLength>;  // id + 1; 0 beyond the sample's end

Ids lanes(const RunRecord& r) {
  return {static_cast<uint32_t>(r.head >> 32), static_cast<uint32_t>(r.head),
          static_cast<uint32_t>(r.tail >> 32), static_cast<uint32_t>(r.tail)};
}

// Collects the distribution of one length while its n-grams come by in order.
class Tally {
 public:
  Tally(int n, size_t top) : n_(n), top_(top), few_(kFew) {}

  void add(const Ids& ids, int64_t count) {
    if (count < kFew) {
      ++few_[static_cast<size_t>(count)];
    } else {
      ++many_[count];
    }
    if (top_ == 0 || (best_.size() == top_ && count <= best_.front().count)) return;
    if (best_.size() == top_) {
      std::pop_heap(best_.begin(), best_.end(), above);
      best_.pop_back();
    }
    best_.push_back({count, ids});
    std::push_heap(best_.begin(), best_.end(), above);
  }

  Spectrum finish() {
    Spectrum result;
    for (auto it = many_.rbegin(); it != many_.rend(); ++it) {
      result.counts.push_back(it->first);
      result.times.push_back(it->second);
    }
    for (int64_t count = kFew - 1; count > 0; --count) {
      if (!few_[static_cast<size_t>(count)]) continue;
      result.counts.push_back(count);
      result.times.push_back(few_[static_cast<size_t>(count)]);
    }
    std::sort(best_.begin(), best_.end(), above);
    for (const Best& best : best_) {
      result.top_counts.push_back(best.count);
      for (int i = 0; i < n_; ++i) result.top_ids.push_back(static_cast<int32_t>(best.ids[i] - 1));
    }
    return result;
  }

 private:
  static constexpr int64_t kFew = 1 << 12;
  struct Best {
    int64_t count;
    Ids ids;
  };

  // The least frequent one, and among equals the largest ids, lies at the front of the heap.
  static bool above(const Best& a, const Best& b) {
    return a.count != b.count ? a.count > b.count : a.ids < b.ids;
  }

  int n_;
  size_t top_;
  std::vector<int64_t> few_;         // [count]: n-grams that occur so often
  std::map<int64_t, int64_t> many_;  // the same where the count is large
  std::vector<Best> best_;
};

}  // namespace

Counted merge_runs(const std::vector<std::string>& paths, size_t top) {
  Counted result;
  std::vector<Tally> tallies;
  for (int n = 1; n <= kRunLength; ++n) tallies.emplace_back(n, top);
  Ids open{};  // the n-gram that is being added up, and so far:
  std::array<int64_t, kRunLength> sums{};

  // Ends the n-grams that hold lane `from`; those with a lane beyond the end are none.
  const auto end = [&](int from) {
    for (int i = from; i < kRunLength && open[i]; sums[i++] = 0) {
      tallies[i].add(open, sums[i]);
      if (i > 0) continue;
      result.ids.push_back(static_cast<int32_t>(open[0] - 1));
      result.counts.push_back(sums[0]);
    }
  };
  for (MergedRuns runs(paths); !runs.done(); runs.next()) {
    const Ids ids = lanes(runs.record());
    const auto differ = std::mismatch(ids.begin(), ids.end(), open.begin()).first - ids.begin();
    if (differ < kRunLength) {
      end(static_cast<int>(differ));
      open = ids;
    }
    for (int i = 0; i < kRunLength && open[i]; ++i) sums[i] += runs.record().count;
  }
  end(0);
  for (int i = 0; i < kRunLength; ++i) result.spectra[i] = tallies[i].finish();
  return result;
}

void join_runs(const std::vector<std::string>& paths, const std::string& path) {
  RunWriter writer(path);
  RunRecord open{0, 0, 0};
  for (MergedRuns runs(paths); !runs.done(); runs.next()) {
    const RunRecord& record = runs.record();
    if (record.head != open.head || record.tail != open.tail) {
      if (open.count) writer.add(open);
      open = {record.head, record.tail, 0};
    }
    open.count += record.count;
  }
  if (open.count) writer.add(open);
  writer.close();
}

}  // namespace tasc
