// A position in a text that goes on from the end of a sequence.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tasc {

// length tokens before the position are the sequence's last ones, at least; 0: the token before it is
// another one, and those before that agreed.
struct Match {
  static constexpr uint32_t kNowhere = 0xFFFFFFFF;
  static constexpr uint32_t kResumed = 4;  // a match of so many tokens outlives one that disagrees
  static constexpr uint32_t kLongest = 255;

  uint32_t position = kNowhere;
  uint32_t length = 0;

  bool is_there() const { return position != kNowhere; }
  Match next() const { return {position + 1, std::min(length + 1, kLongest)}; }
  // What is left of it where the sequence goes on otherwise than the text.
  Match behind_disagreement() const {
    return is_there() && length >= kResumed ? Match{position + 1, 0} : Match{};
  }
};

}  // namespace tasc
