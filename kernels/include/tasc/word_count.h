// Counts word n-grams of one endless text: n-grams cross the borders of samples.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasc/ngram_count.h"

namespace tasc {

// Numbers strings in order of first sight. Exact: short strings lie in their slots, of long ones
// equal hashes are compared.
class Interner {
 public:
  int32_t number(std::string_view text);
  size_t size() const { return ends_.size(); }
  const std::string& letters() const { return letters_; }
  std::string_view text(int32_t id) const;

 private:
  struct Slot {
    uint64_t head = 0;  // the first eight bytes, zeros beyond the end
    uint32_t rest = 0;  // the size up to eight bytes, else upper bits of the hash and a nine
    int32_t id = -1;
  };
  Slot slot_of(std::string_view text, size_t& at) const;
  void grow();

  std::vector<Slot> slots_;
  std::string letters_;  // all strings, end to end
  std::vector<size_t> ends_;
};

// The words of one part of a text, counted by themselves: ids number them by appearance here.
struct CountedWords {
  std::string letters;             // of all words, end to end
  std::vector<int64_t> ends;       // (W) where each ends there
  std::vector<int32_t> first;      // ids of the first words: kRunLength - 1, or all there are
  std::vector<int32_t> last;       // of the last ones: n-grams that begin here are not counted
  std::vector<std::string> runs;   // of all other n-grams; none where all words are among the last
};

class WordCounter {
 public:
  // Writes a sorted run to folder/prefix-NUMBER for every `batch` words. Throws std::invalid_argument
  // when batch is below kRunLength.
  WordCounter(std::string folder_and_prefix, size_t batch);

  // Adds the words of a text, UTF-8, separated by what Python's str.split() takes for white space.
  // Returns their number. Throws std::runtime_error when a run cannot be written.
  int64_t add_text(std::string_view text);
  void add_word(std::string_view word);

  // Writes what is left and returns the paths of all runs.
  std::vector<std::string> finish();
  const Interner& words() const { return words_; }

  // The same, where another counter is to go on behind these words.
  CountedWords leave();

  // Goes on behind what another counter left, as if its words had been added here.
  // Throws std::runtime_error where a file cannot be read or written, or these are no such words.
  void take(std::string_view letters, std::span<const int64_t> ends, std::span<const int32_t> first,
            std::span<const int32_t> last, const std::vector<std::string>& runs);

 private:
  void spill(bool last);
  std::string next_path();

  std::string prefix_;
  size_t batch_;
  Interner words_;
  std::vector<int32_t> pending_;  // not counted yet: n-grams that begin here may go on
  std::vector<int32_t> first_;    // the first kRunLength - 1 words
  std::vector<std::string> paths_;
};

}  // namespace tasc
