// Sorted runs on disk, a block at a time, and several of them as one sorted sequence.
#pragma once
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tasc/ngram_count.h"

namespace tasc {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Counts are exact as doubles below it, and no sum of them overflows.
constexpr int64_t kMostCounted = int64_t{1} << 53;

// A record in a file is its tail, and then its head and its count where they are not those of the
// record before and 1. Ids + 1 stay below 2^31, so the tail has two bits to spare, which say so.
constexpr uint64_t kNewHead = uint64_t{1} << 63, kCounted = uint64_t{1} << 31;
constexpr uint64_t kFlags = kNewHead | kCounted;
constexpr size_t kWords = 3;       // of a record, at most
constexpr size_t kBlock = 8192;    // words read or written at a time

class RunWriter {
 public:
  explicit RunWriter(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
    if (!file_) fail();
    block_.reserve(kBlock + kWords);
  }

  void add(const RunRecord& record) {
    const bool new_head = record.head != head_, counted = record.count != 1;
    block_.push_back(record.tail | (new_head ? kNewHead : 0) | (counted ? kCounted : 0));
    if (new_head) block_.push_back(head_ = record.head);
    if (counted) block_.push_back(static_cast<uint64_t>(record.count));
    if (block_.size() >= kBlock) flush();
  }

  // Throws when something could not be written; without it the file may be cut short.
  void close() {
    flush();
    if (std::fclose(file_.release()) != 0) fail();
  }

 private:
  void flush() {
    if (std::fwrite(block_.data(), sizeof(uint64_t), block_.size(), file_.get()) != block_.size()) fail();
    block_.clear();
  }

  [[noreturn]] void fail() const { throw std::runtime_error(path_ + ": cannot be written"); }

  std::string path_;
  File file_;
  std::vector<uint64_t> block_;
  uint64_t head_ = 0;  // of no record
};

class RunReader {
 public:
  explicit RunReader(std::string path)
      : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb")), block_(kBlock) {
    if (!file_) fail();
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // blocks are buffer enough
    next();
  }

  bool done() const { return record_.count == 0; }
  const RunRecord& record() const { return record_; }  // the count is 0 after the last one
  void next() {
    if (end_ - at_ < kWords) refill();
    if (at_ == end_) {
      record_.count = 0;
      return;
    }
    const RunRecord last = record_;
    const uint64_t word = block_[at_++];
    record_.tail = word & ~kFlags;
    if (word & kNewHead) record_.head = block_[at_++];
    record_.count = word & kCounted ? static_cast<int64_t>(block_[at_++]) : 1;
    if (at_ > end_ || !follows(last)) fail();  // the file ends within a record, or is no run
    // Of hundreds of streams no processor foresees what is read next.
    __builtin_prefetch(block_.data() + std::min(at_ + 2 * kWords, kBlock - 1));
  }

 private:
  // What the merge relies on, whatever the file holds.
  bool follows(const RunRecord& last) const {
    const RunRecord& now = record_;
    const bool rises = now.head > last.head || (now.head == last.head && now.tail > last.tail);
    const bool ends_once = now.tail == 0 || (static_cast<uint32_t>(now.head) && now.tail >> 32);
    return rises && ends_once && now.head >> 32 && (now.head & kFlags) == 0 && now.count > 0;
  }

  void refill() {
    std::copy(block_.begin() + static_cast<std::ptrdiff_t>(at_),
              block_.begin() + static_cast<std::ptrdiff_t>(end_), block_.begin());
    end_ -= std::exchange(at_, 0);
    constexpr size_t word = sizeof(uint64_t);
    const size_t bytes = std::fread(block_.data() + end_, 1, (kBlock - end_) * word, file_.get());
    end_ += bytes / word;
    if (std::ferror(file_.get()) || bytes % word) fail();
  }

  [[noreturn]] void fail() const { throw std::runtime_error(path_ + ": cannot be read, or is not what was written"); }

  std::string path_;
  File file_;
  std::vector<uint64_t> block_;
  size_t at_ = 0, end_ = 0;
  RunRecord record_{0, 0, 0};
};

// A tournament tree: each inner node keeps the loser of its match, so taking a record replays one
// path of log2(runs) matches.
class MergedRuns {
 public:
  explicit MergedRuns(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) readers_.push_back(std::make_unique<RunReader>(path));
    losers_.resize(readers_.size());
    heads_.resize(readers_.size());
    for (size_t i = 0; i < readers_.size(); ++i) look(i);
    if (!readers_.empty()) winner_ = play(1);
  }

  bool done() const { return readers_.empty() || heads_[winner_].head == kEnded; }
  const RunRecord& record() const { return readers_[winner_]->record(); }

  void next() {
    readers_[winner_]->next();
    look(winner_);
    // Who wins cannot be foreseen: choices, no branches.
    size_t winner = winner_;
    Head best = heads_[winner];
    for (size_t node = (winner_ + readers_.size()) / 2; node > 0; node /= 2) {
      const size_t loser = losers_[node];
      const Head other = heads_[loser];
      const bool lost = less(other, best);
      losers_[node] = lost ? winner : loser;
      winner = lost ? loser : winner;
      best.head = lost ? other.head : best.head;
      best.tail = lost ? other.tail : best.tail;
    }
    winner_ = winner;
  }

 private:
  static constexpr uint64_t kEnded = ~uint64_t{0};  // after every record: ids + 1 are below 2^32 - 1
  struct Head {
    uint64_t head, tail;
  };

  void look(size_t i) {
    const bool ended = readers_[i]->done();
    const int64_t count = readers_[i]->record().count;  // 0 at the end
    if (count > kMostCounted - total_) throw std::runtime_error("runs count more than 2^53 n-grams");
    total_ += count;
    heads_[i] = ended ? Head{kEnded, kEnded} : Head{readers_[i]->record().head, readers_[i]->record().tail};
  }

  static bool less(const Head& x, const Head& y) {
    return (x.head < y.head) | ((x.head == y.head) & (x.tail < y.tail));
  }

  // Node k has the children 2k and 2k + 1; those from the number of runs on are the runs.
  size_t play(size_t node) {
    if (node >= readers_.size()) return node - readers_.size();
    const size_t left = play(2 * node), right = play(2 * node + 1);
    losers_[node] = less(heads_[left], heads_[right]) ? right : left;
    return losers_[node] == left ? right : left;
  }

  std::vector<std::unique_ptr<RunReader>> readers_;
  std::vector<size_t> losers_;  // [1, runs)
  std::vector<Head> heads_;
  size_t winner_ = 0;
  int64_t total_ = 0;  // counted by the records seen
};

}  // namespace tasc
