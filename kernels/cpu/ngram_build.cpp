#include "tasc/ngram_build.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "ngram_block.h"
#include "ngram_sort.h"

namespace tasc {
namespace {

constexpr uint32_t kDropped = 0xFFFFFFFF;  // seen less often than min_count
constexpr int kIdBits = 20, kIdsPerWord = 3;
constexpr size_t kCached = size_t{1} << 20;  // positions of a piece that is sorted in the caches

// -log2(value) in steps of 1 / steps; most stands for nothing and for all that is too small.
uint32_t quantum(double value, int steps, uint32_t most) {
  if (value <= 0) return most;
  return static_cast<uint32_t>(std::clamp(0.5f - static_cast<float>(steps) * std::log2(static_cast<float>(value)), 0.f,
                                          static_cast<float>(most)));
}

uint64_t pack(int32_t token, double probability, uint32_t child) {
  return uint64_t{child} << 32 | uint64_t{quantum(probability, 256, 4095)} << 20 | static_cast<uint64_t>(token);
}

bool better(uint64_t left, uint64_t right) {
  const NgramIndex::Entry a{left}, b{right};
  return a.quantum() != b.quantum() ? a.quantum() < b.quantum() : a.token() < b.token();
}

// A list stands by token from `first` on. A short one is put in order; of a long one the best are put in
// front. Marks, which come last, are never proposed.
void rank(std::vector<uint64_t>& entries, size_t first, size_t marks) {
  const auto begin = entries.begin() + static_cast<std::ptrdiff_t>(first);
  if (entries.size() - first <= NgramIndex::kRanked) return std::sort(begin, entries.end(), better);
  std::array<uint64_t, NgramIndex::kRanked> best;
  std::partial_sort_copy(begin, entries.end() - static_cast<std::ptrdiff_t>(marks), best.begin(), best.end(), better);
  entries.insert(begin, best.begin(), best.end());
}

void check_text_size(size_t size) {
  if (size >= NgramIndex::kSingle)
    throw std::invalid_argument("a corpus may have 2^31 tokens at most: split it into several indexes");
}

}  // namespace

// A position of the text: the tokens before it, the last one first, and the continuation of the shorter
// context that stands there.
template <size_t W>
struct Position {
  std::array<uint64_t, W> before;
  uint32_t entry, position;

  int32_t token(int k) const {  // the k-th before it, from 0
    const auto shift = kIdBits * (kIdsPerWord - 1 - k % kIdsPerWord);
    return static_cast<int32_t>(before[static_cast<size_t>(k / kIdsPerWord)] >> shift) & NgramIndex::kMark;
  }
  void append(uint64_t token) {  // to the tokens before it
    for (size_t w = W; w-- > 1;) before[w] = before[w] >> kIdBits | (before[w - 1] & NgramIndex::kMark) << 2 * kIdBits;
    before[0] = before[0] >> kIdBits | token << 2 * kIdBits;
  }
};

// Positions of one context are together, sorted by their continuations; sorting them by the token before
// it, and leaving equal ones as they are, gives the same for the contexts that are longer by one token.
template <size_t W>
class PieceBuilder {
 public:
  PieceBuilder(const NgramBuilder& whole, int32_t begin, int32_t end) : whole_(whole), options_(whole.options_) {
    made_.made.resize(static_cast<size_t>(whole.vocabulary_) + 1);
    gather(begin, end);
  }

  NgramPiece build() {
    size_t begin = 0;
    for (const size_t end : ends_) {
      if (begin < end) {
        sort(begin, end, [](const Position<W>& p) { return p.entry; });
        visit(begin, end, 1, 0, whole_.roots_);
      }
      begin = end;
    }
    return std::move(made_);
  }

 private:
  using Found = NgramBuilder::Found;

  void gather(int32_t begin, int32_t end) {
    std::vector<size_t> next;  // by token of the piece: where its next position goes
    size_t total = 0;
    for (int32_t z = begin; z < end; ++z) {
      next.push_back(total);
      if (const uint32_t count = whole_.counts_[static_cast<size_t>(z)]; z != options_.end && count >= whole_.least(z))
        total += count;
      ends_.push_back(total);
    }
    reserve_large(positions_, total);
    positions_.resize(total);
    reserve_large(made_.entries, 2 * total);
    reserve_large(made_.nodes, total / 2);
    Position<W> blank{};
    for (size_t k = 0; k < W * kIdsPerWord; ++k) blank.append(static_cast<uint64_t>(options_.end));
    Position<W> now = blank;
    int32_t before = options_.end;
    for (uint32_t i = 0; i < whole_.size_; ++i) {
      const int32_t token = whole_.token(i), slot = std::min(before, whole_.vocabulary_);
      if (slot >= begin && slot < end) {
        const auto z = static_cast<size_t>(slot - begin);
        if (const size_t from = z ? ends_[z - 1] : 0; ends_[z] > from) {
          now.position = i;
          now.entry = whole_.roots_[static_cast<size_t>(token)].token < 0 ? kDropped : static_cast<uint32_t>(token);
          positions_[next[z]++] = now;
        }
      }
      if (token == options_.end) now = blank;
      else now.append(static_cast<uint64_t>(token));
      before = token;
    }
  }

  template <class Key>
  void sort(size_t begin, size_t end, Key key) {
    Position<W>* const p = positions_.data() + begin;
    const size_t n = end - begin;
    if (n <= 16) {
      for (size_t i = 1; i < n; ++i) {
        const Position<W> moved = p[i];
        size_t j = i;
        for (; j > 0 && key(p[j - 1]) > key(moved); --j) p[j] = p[j - 1];
        if (j < i) p[j] = moved;
      }
      return;
    }
    if (spare_.size() < n) spare_.resize(n);
    const int bits = n < 1024 ? 7 : 10;
    const uint32_t digit = (1u << bits) - 1;
    Position<W>*from = p, *to = spare_.data();
    for (int shift = 0; shift < kIdBits; shift += bits) {
      uint32_t at[1025] = {};
      for (size_t i = 0; i < n; ++i) ++at[((static_cast<uint32_t>(key(from[i])) >> shift) & digit) + 1];
      if (std::find(at + 1, at + digit + 2, n) != at + digit + 2) continue;  // all agree
      for (uint32_t b = 0; b <= digit; ++b) at[b + 1] += at[b];
      for (size_t i = 0; i < n; ++i) to[at[(static_cast<uint32_t>(key(from[i])) >> shift) & digit]++] = from[i];
      std::swap(from, to);
    }
    if (from != p) std::copy(from, from + n, p);
  }

  void visit(size_t begin, size_t end, int depth, uint32_t shorter, const std::vector<Found>& below) {
    const auto node = static_cast<uint32_t>(made_.nodes.size());
    const uint32_t away = depth > 1 ? node - shorter : 0;
    if (away >> 26) throw std::length_error("a token ends more than 2^26 contexts: raise min_count or lower n_max");
    std::vector<Found>& found = found_[static_cast<size_t>(depth)];
    const double weight = list(begin, end, depth, below, found);
    made_.nodes[node] |= uint64_t{quantum(weight, 8, 63) << 26 | away} << 32;
    if (depth == options_.n_max) return;
    const auto least = static_cast<size_t>(std::max<int64_t>(2, options_.min_count));
    sort(begin, end, [&](const Position<W>& p) { return p.token(depth); });
    for (size_t next; begin < end; begin = next) {
      const int32_t token = positions_[begin].token(depth);
      for (next = begin + 1; next < end && positions_[next].token(depth) == token;) ++next;
      if (token != options_.end && next - begin >= least) visit(begin, next, depth + 1, node, found);
    }
  }

  // Writes the continuations of a context; returns what is left to the shorter one.
  double list(size_t begin, size_t end, int depth, const std::vector<Found>& below, std::vector<Found>& found) {
    const size_t first = made_.entries.size();
    if (first + (end - begin) + NgramIndex::kRanked >= NgramIndex::kNone)
      throw std::length_error("the corpus has more than 2^32 n-grams: raise min_count");
    made_.nodes.push_back(first);
    found.clear();
    uint32_t kept = 0, distinct = 0;
    runs_.clear();
    for (size_t i = begin, next; i < end; i = next) {
      const uint32_t entry = positions_[i].entry;
      for (next = i + 1; next < end && positions_[next].entry == entry;) ++next;
      const auto count = static_cast<uint32_t>(next - i);
      const bool dropped = entry == kDropped || count < options_.min_count;
      const uint32_t own = dropped ? kDropped : distinct++;
      for (size_t j = i; j < next; ++j) positions_[j].entry = own;
      if (dropped) continue;
      kept += count;
      runs_.push_back({entry, count, positions_[i].position});
    }
    const double total = kept + options_.strength;
    const double weight = kept ? (options_.strength + options_.discount * distinct) / total : 1;
    for (const Run& run : runs_) {
      const Found& shorter = below[run.entry];
      const double p = std::max(run.count - options_.discount, 0.0) / total + weight * shorter.probability;
      const uint32_t child = child_of(shorter, run, depth);
      found.push_back({static_cast<float>(p), child, shorter.token});
      made_.entries.push_back(pack(shorter.token, p, child));
    }
    rank(made_.entries, first, 0);
    return weight;
  }

  struct Run {  // positions with one continuation
    uint32_t entry, count, first;
  };

  uint32_t child_of(const Found& shorter, const Run& run, int depth) {
    if (shorter.token == options_.end) return NgramIndex::kNone;
    if (depth == options_.n_max) return shorter.child;
    if (run.count > 1) return ++made_.made[static_cast<size_t>(shorter.token)];
    return options_.min_count == 1 ? NgramIndex::kSingle | (run.first + 1) : NgramIndex::kNone;
  }

  const NgramBuilder& whole_;
  const NgramOptions options_;
  NgramPiece made_;
  std::vector<Position<W>> positions_, spare_;
  std::vector<size_t> ends_;                // of each token's positions
  std::array<std::vector<Found>, 16> found_;  // by length of the context
  std::vector<Run> runs_;                   // of one context, those that are kept
};

std::vector<uint8_t> pack_text(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
                               const NgramOptions& options) {
  check_options(options);
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != static_cast<int64_t>(tokens.size()) ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw std::invalid_argument("offsets must rise from 0 to the number of tokens (" +
                                std::to_string(tokens.size()) + ")");
  check_text_size(tokens.size() + 2 * offsets.size());
  const size_t more = options.mark ? 2 : 1;
  std::vector<uint8_t> text(3 * (tokens.size() + more * (offsets.size() - 1)));
  uint8_t* to = text.data();
  const auto put = [&](int32_t token) {
    std::memcpy(to, &token, 3);
    to += 3;
  };
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    if (options.mark) put(NgramIndex::kMark);
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) {
      const int32_t token = tokens[static_cast<size_t>(i)];
      if (token < 0 || token >= NgramIndex::kMark)
        throw std::invalid_argument("token ids must be in 0.." + std::to_string(NgramIndex::kMark - 1) + ", got " +
                                    std::to_string(token));
      put(token);
    }
    put(options.end);
  }
  return text;
}

NgramBuilder::NgramBuilder(std::span<const uint8_t> text, const NgramOptions& options)
    : text_(text), size_(text.size() / 3), options_(options) {
  check_options(options);
  check_text_size(size_);
  if (text.size() % 3) throw std::invalid_argument("a text has three bytes a token");
  count();
  list_root();
}

int32_t NgramBuilder::token(size_t position) const {
  const uint8_t* at = text_.data() + 3 * position;
  return at[0] | at[1] << 8 | at[2] << 16;
}

void NgramBuilder::count() {
  vocabulary_ = options_.end + 1;
  bool ended = true;
  for (size_t i = 0; i < size_; ++i) {
    const int32_t t = token(i);
    if (t > NgramIndex::kMark || (t == NgramIndex::kMark && !ended))
      throw std::invalid_argument("the text has tokens of 20 bits, and marks before samples");
    if (t != NgramIndex::kMark) vocabulary_ = std::max(vocabulary_, t + 1);
    ended = t == options_.end;
  }
  if (!ended) throw std::invalid_argument("the text's last sample ends");
  counts_.resize(static_cast<size_t>(vocabulary_) + 1);
  last_.resize(counts_.size());
  for (size_t i = 0; i < size_; ++i) {
    const auto slot = static_cast<size_t>(std::min(token(i), vocabulary_));
    ++counts_[slot];
    last_[slot] = static_cast<uint32_t>(i);
  }
}

uint32_t NgramBuilder::least(int32_t slot) const {
  const int64_t asked = slot == vocabulary_ ? 0 : options_.min_count;
  return static_cast<uint32_t>(std::clamp<int64_t>(asked, 2, 0xFFFFFFFF));
}

void NgramBuilder::list_root() {
  roots_.assign(counts_.size(), {0, NgramIndex::kNone, -1});
  const auto mark = static_cast<size_t>(vocabulary_);
  int64_t kept = 0, distinct = 0;
  for (size_t t = 0; t < mark; ++t)
    if (counts_[t] && counts_[t] >= options_.min_count) kept += counts_[t], ++distinct;
  const double total = static_cast<double>(kept) + options_.strength;
  const double weight =
      kept ? (options_.strength + options_.discount * static_cast<double>(distinct)) / total : 1;
  for (size_t t = 0; t <= mark; ++t) {
    if (counts_[t] == 0 || (t < mark && counts_[t] < options_.min_count)) continue;
    const double p = t < mark ? std::max(counts_[t] - options_.discount, 0.0) / total : 0;
    const bool once = counts_[t] == 1;
    uint32_t child = once && options_.min_count == 1 ? NgramIndex::kSingle | (last_[t] + 1) : NgramIndex::kNone;
    if (!once) child = 0;
    if (static_cast<int32_t>(t) == options_.end) child = NgramIndex::kNone;
    roots_[t] = {static_cast<float>(p), child, t < mark ? static_cast<int32_t>(t) : NgramIndex::kMark};
    root_.entries.push_back(pack(roots_[t].token, p, child));
  }
  rank(root_.entries, 0, counts_[mark] > 0);
  root_.nodes = {uint64_t{quantum(weight, 8, 63) << 26} << 32};
  root_.made.resize(counts_.size());
}

// Where it stands, room to sort it, and what natural text leaves of it: two entries, half a context.
size_t NgramBuilder::position_bytes() const {
  const int words = (options_.n_max + kIdsPerWord - 1) / kIdsPerWord;
  return 2 * (8 + 8 * static_cast<size_t>(words)) + 2 * 8 + 4;
}

std::vector<int32_t> NgramBuilder::borders(size_t positions) const {
  std::vector<int32_t> borders = {0};
  size_t held = 0;
  for (int32_t t = 0; t <= vocabulary_; ++t) {
    const size_t count = t == options_.end ? 0 : counts_[static_cast<size_t>(t)];
    if (held && held + count > positions) borders.push_back(t), held = 0;
    held += count;
  }
  borders.push_back(vocabulary_ + 1);
  return borders;
}

NgramPiece NgramBuilder::root() const { return root_; }

NgramPiece NgramBuilder::piece(int32_t begin, int32_t end) const {
  if (begin < 0 || begin > end || end > vocabulary_ + 1)
    throw std::invalid_argument("a piece has tokens of 0.." + std::to_string(vocabulary_));
  switch ((options_.n_max + kIdsPerWord - 1) / kIdsPerWord) {
    case 1: return PieceBuilder<1>(*this, begin, end).build();
    case 2: return PieceBuilder<2>(*this, begin, end).build();
    case 3: return PieceBuilder<3>(*this, begin, end).build();
    case 4: return PieceBuilder<4>(*this, begin, end).build();
    default: return PieceBuilder<5>(*this, begin, end).build();
  }
}

std::vector<uint32_t> NgramBuilder::starts(std::span<const uint32_t> made) const {
  if (made.size() != counts_.size()) throw std::invalid_argument("a token has one number");
  std::vector<uint32_t> starts(counts_.size());
  uint64_t next = 1;
  for (size_t t = 0; t < starts.size(); ++t) {
    starts[t] = static_cast<uint32_t>(next);
    const auto slot = static_cast<int32_t>(t);
    next += made[t] + uint64_t{slot != options_.end && counts_[t] >= least(slot)};
    if (next >= NgramIndex::kSingle)
      throw std::length_error("the corpus has more than 2^31 contexts: raise min_count or lower n_max");
  }
  return starts;
}

std::vector<uint64_t> NgramBuilder::header(uint64_t contexts, uint64_t entries) const {
  if (entries >= NgramIndex::kNone) throw std::length_error("the corpus has more than 2^32 n-grams: raise min_count");
  const NgramHeader header{contexts, entries, size_, options_.min_count, options_.discount, options_.strength,
                           options_.n_max, options_.end, options_.mark, vocabulary_};
  std::vector<uint64_t> words(sizeof header / 8);
  std::memcpy(words.data(), &header, sizeof header);
  return words;
}

void place_entries(std::span<uint64_t> entries, std::span<const uint32_t> starts, std::span<const uint32_t> before) {
  for (uint64_t& entry : entries) {
    const auto child = static_cast<uint32_t>(entry >> 32);
    if (child & NgramIndex::kSingle) continue;  // or none
    const auto slot = std::min<size_t>(entry & NgramIndex::kMark, starts.size() - 1);
    const uint32_t context = child == 0 ? starts[slot] : before[slot] + child;
    entry = (entry & 0xFFFFFFFF) | uint64_t{context} << 32;
  }
}

NgramIndex::NgramIndex(std::span<const int32_t> tokens, std::span<const int64_t> offsets, const NgramOptions& options) {
  const std::vector<uint8_t> text = pack_text(tokens, offsets, options);
  const NgramBuilder builder(text, options);
  std::vector<NgramPiece> pieces = {builder.root()};
  const std::vector<int32_t> borders = builder.borders(kCached);
  for (size_t i = 0; i + 1 < borders.size(); ++i) pieces.push_back(builder.piece(borders[i], borders[i + 1]));
  std::vector<uint32_t> made(pieces[0].made.size());
  uint64_t contexts = 0, entries = 0;
  for (const NgramPiece& piece : pieces) {
    std::transform(made.begin(), made.end(), piece.made.begin(), made.begin(), std::plus<>());
    contexts += piece.nodes.size();
    entries += piece.entries.size();
  }
  const std::vector<uint32_t> starts = builder.starts(made);
  const std::vector<uint64_t> header = builder.header(contexts, entries);
  NgramHeader read;
  std::memcpy(&read, header.data(), sizeof read);
  const NgramLayout at(read);
  reserve_large(owned_, at.bytes / 8);
  owned_.resize(at.bytes / 8);
  auto* bytes = reinterpret_cast<uint8_t*>(owned_.data());
  std::memcpy(bytes, header.data(), sizeof read);
  std::memcpy(bytes + at.text, text.data(), text.size());
  auto* entry = owned_.data() + at.entries / 8;
  auto* node = owned_.data() + at.nodes / 8;
  std::vector<uint32_t> before = starts;
  uint64_t first = 0;
  for (NgramPiece& piece : pieces) {
    place_entries(piece.entries, starts, before);
    std::transform(before.begin(), before.end(), piece.made.begin(), before.begin(), std::plus<>());
    entry = std::copy(piece.entries.begin(), piece.entries.end(), entry);
    for (const uint64_t own : piece.nodes) *node++ = own + first;
    first += piece.entries.size();
    piece = {};
  }
  *node = first;
  block_ = owned_;
  attach();
}

}  // namespace tasc
