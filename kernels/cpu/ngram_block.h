// The layout of an n-gram index in memory and on disk. Private to the index and its builder.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tasc/ngram_index.h"

namespace tasc {

static_assert(std::endian::native == std::endian::little, "the index format is little-endian");

struct NgramHeader {
  uint64_t contexts, entries, text_tokens;
  int64_t min_count;
  double discount, strength;
  int32_t n_max, end, mark, vocabulary;
};
static_assert(sizeof(NgramHeader) == 64);

// Arrays in order: text, entries, nodes; each begins on a multiple of 8 bytes.
struct NgramLayout {
  explicit NgramLayout(const NgramHeader& h) {
    size_t at = sizeof(NgramHeader);
    const auto position = [&](size_t bytes) {
      const size_t begin = at;
      at += (bytes + 7) / 8 * 8;
      return begin;
    };
    text = position(3 * h.text_tokens + 1);  // one byte to spare: reads take four
    entries = position(8 * h.entries);
    nodes = position(8 * (h.contexts + 1));  // the last one ends the list before it
    bytes = at;
  }
  size_t text, entries, nodes, bytes;
};

// Throws std::invalid_argument for a value outside its range, asked for or read.
void check_options(const NgramOptions& options);

}  // namespace tasc
