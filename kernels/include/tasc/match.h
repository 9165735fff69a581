// A position in a text that continues the end of a sequence.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tasc {

// At least the `length` tokens before the position equal the sequence's last ones. 0: the token before
// the position differs, but the ones before it agree.
struct Match {
  static constexpr uint32_t kNowhere = 0xFFFFFFFF;
  static constexpr uint32_t kResumed = 4;  // shortest match that survives one different token
  static constexpr uint32_t kLongest = 255;

  uint32_t position = kNowhere;
  uint32_t length = 0;

  bool is_there() const { return position != kNowhere; }
  Match next() const { return {position + 1, std::min(length + 1, kLongest)}; }
  // The match that remains after a token that differs from the text.
  Match behind_disagreement() const {
    return is_there() && length >= kResumed ? Match{position + 1, 0} : Match{};
  }
};

}  // namespace tasc
