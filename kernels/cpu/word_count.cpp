#include "tasc/word_count.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace tasc {
namespace {

constexpr size_t kHead = 8;  // bytes of a word of memory
constexpr size_t kOpen = kRunLength - 1;  // words whose n-grams need what follows

template <class Word>
uint64_t load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// The first bytes, eight at most, with zeros behind them. Loads overlap: no length is a branch of
// its own.
uint64_t load_some(const char* from, size_t bytes) {
  if (bytes >= 8) return load<uint64_t>(from);
  if (bytes >= 4) return load<uint32_t>(from) | load<uint32_t>(from + bytes - 4) << 8 * (bytes - 4);
  if (bytes >= 2) return load<uint16_t>(from) | load<uint16_t>(from + bytes - 2) << 8 * (bytes - 2);
  return bytes ? load<uint8_t>(from) : 0;
}

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xD6E8FEB86659FD93ull;
  return hash ^ hash >> 32;
}

// Which bytes are white space, and which may begin a longer white-space character.
constexpr std::array<uint8_t, 256> kinds() {
  std::array<uint8_t, 256> kind{};
  for (const int byte : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0x1F, 0x20}) kind[byte] = 1;
  for (const int byte : {0xC2, 0xE1, 0xE2, 0xE3}) kind[byte] = 2;
  return kind;
}
constexpr auto kKind = kinds();

// The high bit of each byte of `word` that is below 0x21 or above 0x7F; a byte after such a one may
// be marked, too.
uint64_t suspects(uint64_t word) {
  constexpr uint64_t ones = 0x0101010101010101ull, highs = 0x80 * ones;
  return (((word - 0x21 * ones) & ~word) | word) & highs;
}

// Bytes of the white-space character that text begins with, 0 for none. The characters are those of
// Python's str.isspace(): U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F,
// U+3000.
size_t wide_space(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) == 0xC2) return text.size() > 1 && (byte(1) == 0x85 || byte(1) == 0xA0) ? 2 : 0;
  if (text.size() < 3) return 0;
  const int rest = byte(1) << 8 | byte(2);
  bool space = false;
  if (byte(0) == 0xE1) space = rest == 0x9A80;
  if (byte(0) == 0xE3) space = rest == 0x8080;
  if (byte(0) == 0xE2) {
    space = (rest >= 0x8080 && rest <= 0x808A) || rest == 0x80A8 || rest == 0x80A9 || rest == 0x80AF ||
            rest == 0x819F;
  }
  return space ? 3 : 0;
}

}  // namespace

// What a slot of `text` holds but for the id, and where it would lie.
Interner::Slot Interner::slot_of(std::string_view text, size_t& at) const {
  Slot slot;
  slot.head = load_some(text.data(), text.size());
  uint64_t hash = mix(text.size() * 0x9E3779B97F4A7C15ull, slot.head);
  for (size_t i = kHead; i < text.size(); i += kHead) {
    hash = mix(hash, load_some(text.data() + i, text.size() - i));
  }
  const bool whole = text.size() <= kHead;
  slot.rest = static_cast<uint32_t>(whole ? text.size() : (hash >> 32 & ~uint64_t{15}) | (kHead + 1));
  at = hash & (slots_.size() - 1);
  return slot;
}

int32_t Interner::number(std::string_view text) {
  if ((ends_.size() + 1) * 2 > slots_.size()) grow();
  size_t at = 0;
  Slot slot = slot_of(text, at);
  for (; slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& other = slots_[at];
    if (other.head != slot.head || other.rest != slot.rest) continue;
    if (slot.rest <= kHead || this->text(other.id) == text) return other.id;
  }
  slot.id = static_cast<int32_t>(ends_.size());
  slots_[at] = slot;
  letters_ += text;
  ends_.push_back(letters_.size());
  return slot.id;
}

std::string_view Interner::text(int32_t id) const {
  const size_t begin = id ? ends_[id - 1] : 0;
  return std::string_view(letters_).substr(begin, ends_[id] - begin);
}

void Interner::grow() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, Slot{});
  for (size_t id = 0, at = 0; id < ends_.size(); ++id) {
    Slot slot = slot_of(text(static_cast<int32_t>(id)), at);
    while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
    slot.id = static_cast<int32_t>(id);
    slots_[at] = slot;
  }
}

WordCounter::WordCounter(std::string folder_and_prefix, size_t batch)
    : prefix_(std::move(folder_and_prefix)), batch_(batch) {
  if (batch < kRunLength) throw std::invalid_argument("a batch of words must hold an n-gram");
}

int64_t WordCounter::add_text(std::string_view text) {
  int64_t words = 0;
  size_t begin = 0, at = 0;
  const auto close = [&] {
    if (at == begin) return;
    add_word(text.substr(begin, at - begin));
    ++words;
  };
  while (at < text.size()) {
    if (at + kHead <= text.size()) {  // skip what is surely none, most often a word at once
      const uint64_t some = suspects(load<uint64_t>(text.data() + at));
      if (!some) {
        at += kHead;
        continue;
      }
      at += static_cast<size_t>(std::countr_zero(some)) / 8;
    }
    const uint8_t kind = kKind[static_cast<uint8_t>(text[at])];
    const size_t space = kind == 2 ? wide_space(text.substr(at)) : kind;
    if (!space) {
      ++at;
      continue;
    }
    close();
    begin = at += space;
  }
  close();
  return words;
}

void WordCounter::add_word(std::string_view word) {
  pending_.push_back(words_.number(word));
  if (first_.size() < kOpen) first_.push_back(pending_.back());
  if (pending_.size() >= batch_) spill(false);
}

std::vector<std::string> WordCounter::finish() {
  if (!pending_.empty()) spill(true);
  return paths_;
}

CountedWords WordCounter::leave() {
  if (pending_.size() > kOpen) spill(false);
  CountedWords left{words_.letters(), {}, first_, pending_, paths_};
  for (size_t id = 0, end = 0; id < words_.size(); ++id) {
    left.ends.push_back(static_cast<int64_t>(end += words_.text(static_cast<int32_t>(id)).size()));
  }
  return left;
}

void WordCounter::take(std::string_view letters, std::span<const int64_t> ends, std::span<const int32_t> first,
                       std::span<const int32_t> last, const std::vector<std::string>& runs) {
  const auto refuse = [] { throw std::runtime_error("counted words are not what was written"); };
  if (first.size() > kOpen || last.size() > kOpen || (!runs.empty() && first.size() + last.size() < 2 * kOpen)) refuse();
  std::vector<int32_t> ids;  // here, of each id there
  size_t begin = 0;
  for (const int64_t end : ends) {
    if (end < static_cast<int64_t>(begin) || end > static_cast<int64_t>(letters.size())) refuse();
    ids.push_back(words_.number(letters.substr(begin, static_cast<size_t>(end) - begin)));
    begin = static_cast<size_t>(end);
  }
  const auto append = [&](std::span<const int32_t> words, std::vector<int32_t>& to) {
    for (const int32_t id : words) {
      if (id < 0 || static_cast<size_t>(id) >= ids.size()) refuse();
      to.push_back(ids[static_cast<size_t>(id)]);
    }
  };
  if (first_.size() < kOpen) {
    append(first, first_);
    first_.resize(std::min(first_.size(), kOpen));
  }
  if (!runs.empty()) {
    // N-grams that begin before these words end among the first of them.
    const size_t before = pending_.size();
    append(first, pending_);
    if (before) write_stream(pending_, before, next_path());
    pending_.clear();
  }
  append(last, pending_);
  bool same = true;
  for (size_t id = 0; id < ids.size(); ++id) same &= ids[id] == static_cast<int32_t>(id);
  for (const std::string& run : runs) {
    if (same) {
      check_run(run, ids.size());
      paths_.push_back(run);
      continue;
    }
    const auto written = renumber_run(run, ids, next_path());
    paths_.pop_back();
    paths_.insert(paths_.end(), written.begin(), written.end());
  }
  if (pending_.size() >= batch_) spill(false);
}

std::string WordCounter::next_path() {
  return paths_.emplace_back(prefix_ + "-" + std::to_string(paths_.size()));
}

void WordCounter::spill(bool last) {
  // The last words wait for what follows them, unless nothing does.
  const size_t positions = last ? pending_.size() : pending_.size() - kOpen;
  write_stream(pending_, positions, next_path());
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(positions));
}

}  // namespace tasc
