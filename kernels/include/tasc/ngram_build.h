// Building an n-gram index from a text that may be larger than memory: the contexts that end with some
// tokens are a piece, made from a scan of the text alone, and pieces in order are the index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tasc/ngram_index.h"

namespace tasc {

// Samples as an index keeps them: three bytes a token, a mark (with options.mark) before and an end behind each.
// Throws std::invalid_argument for token ids that do not fit.
std::vector<uint8_t> pack_text(std::span<const int32_t> tokens, std::span<const int64_t> offsets,
                               const NgramOptions& options);

struct NgramPiece {
  // A continuation leads to a context by number: 0 is that of the token alone, others that end with it
  // count from 1 in the order of this piece. See place_entries.
  std::vector<uint64_t> entries;
  std::vector<uint64_t> nodes;          // NgramIndex::Node, whose lists begin among these entries
  std::vector<uint32_t> made;           // (V + 1,): contexts of two tokens and more that end with a token
};

// Contexts are in order of their last token, then of the one before it, and so on; a shorter context
// precedes those that it ends. Continuations of all contexts, in that order, with one token lead to the
// contexts that end with it, in that order (as the columns of a Burrows-Wheeler transform do): so what a
// continuation leads to is known by counting, and no context is ever looked up.
class NgramBuilder {
 public:
  // text: of pack_text, one or several, which outlives this; the mark's number below is V, the vocabulary's
  // size. Throws std::invalid_argument where it is no such text.
  NgramBuilder(std::span<const uint8_t> text, const NgramOptions& options);

  int32_t vocabulary() const { return vocabulary_; }  // V: every token but the mark is below it
  size_t position_bytes() const;  // that a position of a piece takes, about
  // Borders of pieces of at most so many positions each, or of one token that has more: 0, …, V + 1.
  std::vector<int32_t> borders(size_t positions) const;
  NgramPiece root() const;                             // the empty context, which comes first
  NgramPiece piece(int32_t begin, int32_t end) const;  // contexts that end with a token of [begin, end)
  // By token: the number of its own context, where pieces have made so many (V + 1,) in all.
  std::vector<uint32_t> starts(std::span<const uint32_t> made) const;
  // The block's header, where all pieces have so many.
  std::vector<uint64_t> header(uint64_t contexts, uint64_t entries) const;

 private:
  template <size_t>
  friend class PieceBuilder;
  struct Found {
    float probability;
    uint32_t child;
    int32_t token;
  };

  int32_t token(size_t position) const;
  uint32_t least(int32_t slot) const;  // occurrences that make a context of the token
  void count();
  void list_root();

  std::span<const uint8_t> text_;
  size_t size_;
  NgramOptions options_;
  int32_t vocabulary_ = 0;
  std::vector<uint32_t> counts_, last_;  // (V + 1,): occurrences; the position of the last one
  std::vector<Found> roots_;             // (V + 1,)
  NgramPiece root_;
};

// Gives the continuations of a piece their contexts: starts (V + 1,), and before (V + 1,) with what
// earlier pieces have made added to it.
void place_entries(std::span<uint64_t> entries, std::span<const uint32_t> starts, std::span<const uint32_t> before);

}  // namespace tasc
