// Numbers pairs of 32-bit ids densely. An n-gram is the pair (number of its prefix, next token), or
// (number of its prefix, number of its suffix), so keys are exact: there is no fingerprint to collide.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace tasc {

class PairTable {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // The number of (a, b): 0, 1, 2, ... in order of first sight.
  uint32_t insert(uint32_t a, uint32_t b) {
    if ((size_ + 1) * 2 > mask_ + 1) grow();
    const uint64_t key = uint64_t{a} << 32 | b;
    size_t at = hash(key);
    while (slots_[at].number != kNone) {
      if (slots_[at].key == key) return slots_[at].number;
      at = (at + 1) & mask_;
    }
    if (size_ == kNone) throw std::length_error("more than 2^32 - 1 distinct n-grams");
    slots_[at] = {key, static_cast<uint32_t>(size_)};
    return static_cast<uint32_t>(size_++);
  }

  size_t size() const { return size_; }

  // Forgets all pairs; small tables stay cheap to clear however large an earlier one was.
  void reset(size_t expected) {
    const size_t capacity = std::bit_ceil(expected * 2 + 16);
    size_ = 0;
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    slots_.assign(capacity, Slot{0, kNone});
  }

 private:
  struct Slot {
    uint64_t key;
    uint32_t number;
  };

  size_t hash(uint64_t key) const {
    return static_cast<size_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15ull >> shift_);
  }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    const size_t kept = size_;
    slots_ = {};
    reset(kept * 2 + 8);
    for (const Slot& slot : old) {
      if (slot.number == kNone) continue;
      size_t at = hash(slot.key);
      while (slots_[at].number != kNone) at = (at + 1) & mask_;
      slots_[at] = slot;
    }
    size_ = kept;
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
  size_t mask_ = 0;  // capacity - 1; 0 before the first use
  int shift_ = 63;
};

}  // namespace tasc
