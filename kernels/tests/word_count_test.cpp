#undef NDEBUG
#include "tasc/word_count.h"

#include <cassert>
#include <filesystem>
#include <random>
#include <stdexcept>

namespace {

const std::string kPrefix = (std::filesystem::temp_directory_path() / "word_count_test").string();

void numbers_words_by_appearance_however_many() {
  tasc::Interner words;
  for (int round = 0; round < 2; ++round) {
    for (int32_t i = 0; i < 20000; ++i) assert(words.number("word " + std::to_string(i)) == i);
  }
  assert(words.number("") == 20000 && words.text(20000).empty() && words.text(7) == "word 7");
}

void batches_do_not_cut_ngrams() {
  std::mt19937 rng(3);
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::string(1, static_cast<char>('a' + rng() % 3)) + " ";
  tasc::Counted whole;
  for (const size_t batch : {1000, 4, 5, 97}) {
    tasc::WordCounter counter(kPrefix, batch);
    assert(counter.add_text(text) == 500);
    const auto paths = counter.finish();
    assert(batch > 500 || paths.size() > 1);
    tasc::Counted found = tasc::merge_runs(paths, 100);
    for (const auto& path : paths) std::filesystem::remove(path);
    if (batch == 1000) whole = found;
    for (int i = 0; i < tasc::kRunLength; ++i) {
      assert(found.spectra[i].top_ids == whole.spectra[i].top_ids);
      assert(found.spectra[i].top_counts == whole.spectra[i].top_counts);
    }
  }
}

void splits_at_the_white_space_of_unicode() {
  tasc::WordCounter counter(kPrefix, 100);
  assert(counter.add_text("") == 0 && counter.add_text(" \n\x1f ") == 0);
  assert(counter.add_text("a\xC2\xA0" "b\xE3\x80\x80" "c\xE2\x80\x8B" "d") == 3);  // U+200B is none
  assert(counter.add_text("\xC3\xA9\xE2\x80\x8A\xE2") == 2);  // cut short: a byte of a word
  assert(counter.words().text(2) == "c\xE2\x80\x8B" "d");
}

void refuses_batches_without_room_for_an_ngram() {
  try {
    tasc::WordCounter counter(kPrefix, 3);
    assert(false);
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

int main() {
  numbers_words_by_appearance_however_many();
  batches_do_not_cut_ngrams();
  splits_at_the_white_space_of_unicode();
  refuses_batches_without_room_for_an_ngram();
}
