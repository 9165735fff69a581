// The weight of each source of a draft by the length of its match, learnt from committed tokens.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tasc {

// A source starts with the weight share * e^(gain * length), relative to the other matching sources. Each
// committed token moves the logarithm of each weight along the gradient of its log-probability under the
// mixture: up if the source gave it more than the others did. Steps are AdaGrad's (Duchi et al., 2011),
// 1 / sqrt(1 + the sum of squared gradients), so that rare matches learn as fast.
class SourceWeights {
 public:
  static constexpr size_t kCorpora = 8, kMemory = 8, kLocal = 9;  // sources that count
  static constexpr size_t kMatches = 10;                          // the match in the text of each
  static constexpr size_t kLogits = 20;                           // after the last one, two and three tokens
  static constexpr size_t kGuess = 23;                            // another drafter's tree
  static constexpr size_t kSources = 24;
  static constexpr size_t kLengths = 16;

  SourceWeights(size_t corpora, bool memory, bool prompt, double lambda, double gain, bool match)
      : weights_{} {
    for (auto& row : squares_) row.fill(1);
    const auto sides = static_cast<double>(corpora + memory);
    const double known = sides == 0 ? 0 : prompt ? lambda : 1;
    for (size_t c = 0; c < std::min(corpora, kCorpora); ++c) begin(c, known / sides, gain, match);
    if (memory) begin(kMemory, known / sides, gain, match);
    if (prompt) begin(kLocal, sides == 0 ? 1 : 1 - lambda, gain, match);
    for (size_t length = 0; kLogits + length < kSources; ++length)
      begin(kLogits + length, kLogitsShare, gain, false);
    weights_[kGuess].fill(kGuessShare);
  }

  double weight(size_t source, size_t bucket) const { return weights_[source][bucket]; }
  void learn(size_t source, size_t bucket, double gradient) {
    double& weight = weights_[source][bucket];
    double& square = squares_[source][bucket];
    square += gradient * gradient;
    weight = std::clamp(weight * std::exp(gradient / std::sqrt(square)), kLeast, 1 / kLeast);
  }

  // Short matches have a bucket per length, long ones share buckets.
  static size_t bucket(uint32_t length) {
    if (length <= 8) return length;
    for (size_t b = 9; b < kLengths - 1; ++b)
      if (length <= kUpTo[b - 9]) return b;
    return kLengths - 1;
  }

 private:
  static constexpr double kMatchShare = 0.25, kLogitsShare = 0.25, kGuessShare = 2;
  static constexpr size_t kResumedAs = 2;  // a resumed match starts like one of this length
  static constexpr double kLeast = 1e-9;
  static constexpr std::array<uint32_t, 6> kUpTo{10, 12, 16, 24, 32, 64};

  void begin(size_t source, double share, double gain, bool match) {
    for (size_t b = 1; b < kLengths; ++b) {
      weights_[source][b] = share * std::exp(gain * static_cast<double>(b));
      if (match) weights_[kMatches + source][b] = kMatchShare * weights_[source][b];
    }
    if (match) weights_[kMatches + source][0] = weights_[kMatches + source][kResumedAs];
  }

  std::array<std::array<double, kLengths>, kSources> weights_, squares_;
};

}  // namespace tasc
