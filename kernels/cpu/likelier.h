// How proposals are ordered by probability. Private to drafting.
#pragma once

namespace tasc {

constexpr double kCut = 1.0 / 16;    // what is left of a source's weight: less is not followed further
constexpr double kBelow = 1 - 1e-6;  // what is rounded is compared with so much room

template <class T>
bool better(const T& a, const T& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

}  // namespace tasc
