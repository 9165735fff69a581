// Counting words and ids in any bytes: every word is found again, every count adds up.
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz.h"
#include "tasc/ngram_count.h"
#include "tasc/word_count.h"

namespace {

const MemoryFile file;

// One batch holds every word: the run that is written is the only one, and lies where it is named.
void count_ids(FuzzedDataProvider& from) {
  const int32_t largest = from.ConsumeBool() ? 5 : tasc::kLargestId;
  const auto tokens = numbers<int32_t>(from, from.ConsumeIntegralInRange<size_t>(0, 40), 0, largest);
  const auto offsets = offsets_over(from, tokens.size(), from.ConsumeIntegralInRange<size_t>(1, 4));
  const auto weights = numbers<int64_t>(from, offsets.size() - 1, -1, 3);
  int64_t expected = 0;
  for (size_t s = 0; s < weights.size(); ++s) expected += weights[s] * (offsets[s + 1] - offsets[s]);
  try {
    tasc::write_counts(tokens, offsets, weights, file.path());
  } catch (const std::invalid_argument&) {
    return;
  }
  for (const int64_t count : tasc::merge_runs({file.path()}, 2).counts) expected -= count;
  hold(expected == 0);
}

void count_words(const std::string& text) {
  tasc::WordCounter counter("/dev/null/none", size_t{1} << 20);  // nothing is spilled
  const int64_t words = counter.add_text(text);
  hold(words >= 0 && counter.words().size() <= static_cast<size_t>(words));
  size_t letters = 0;
  tasc::Interner again;
  for (size_t id = 0; id < counter.words().size(); ++id) {
    const std::string_view word = counter.words().text(static_cast<int32_t>(id));
    letters += word.size();
    hold(!word.empty() && text.find(word) != std::string::npos);
    hold(again.number(word) == static_cast<int32_t>(id));  // no two are alike
  }
  hold(letters <= text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider from(data, size);
  if (from.ConsumeBool()) count_ids(from);
  else count_words(from.ConsumeRemainingBytesAsString());
  return 0;
}
