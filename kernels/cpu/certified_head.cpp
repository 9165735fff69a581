#include "tasc/certified_head.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>

#include "dense.h"
#include "tasc/float16.h"

namespace tasc {
namespace {

constexpr int64_t kRows = 64;             // states at a time, which bounds the memory for their bounds
constexpr int kLargest = 127;             // whole number of a row, and of the low part of a state
constexpr double kLargestWhole = 32000;   // of a state: low and high part
constexpr double kLargestSum = 1.6e7;     // of a state's whole numbers: times kLargest it is below 2^31
constexpr double kUp = 1 + 1e-6;          // more than rounding can take from a norm
constexpr double kTiny = 0x1p-90;         // more than what is lost where a processor flushes to 0
constexpr double kOverflow = 1e38;
constexpr int64_t kShareOfHigh = 8;       // of the steps, one in so many may need a high part
constexpr uint32_t kOffset = 128;         // of the rows

// Rounds up.
float above(double x) { return std::nextafter(static_cast<float>(x * kUp), INFINITY); }

// The root of the sum of squares of value(i). Four sums side by side take a quarter of the time.
template <class Value>
double root_of_squares(size_t size, const Value& value) {
  double sums[4] = {};
  for (size_t i = 0; i < size; ++i) sums[i % 4] += value(i) * value(i);
  return std::sqrt(sums[0] + sums[1] + sums[2] + sums[3]);
}

double norm(std::span<const float> x) {
  return root_of_squares(x.size(), [&](size_t i) { return static_cast<double>(x[i]); });
}

// |scale * whole|
template <class T>
double length_of(const std::vector<T>& whole, double scale) {
  return root_of_squares(whole.size(), [&](size_t i) { return scale * whole[i]; });
}

// |x - scale * whole|
template <class T>
double distance(std::span<const float> x, const std::vector<T>& whole, double scale) {
  return root_of_squares(x.size(), [&](size_t i) { return x[i] - scale * whole[i]; });
}

int32_t rounded(float x) { return static_cast<int32_t>(x + std::copysign(0.5f, x)); }

std::vector<float> wide(const char* row, int64_t k, Element element) {
  std::vector<float> made(static_cast<size_t>(k));
  if (element == Element::kFloat32) {
    std::memcpy(made.data(), row, made.size() * sizeof(float));
  } else {
    const auto* halves = reinterpret_cast<const BFloat16*>(row);
    for (size_t i = 0; i < made.size(); ++i) made[i] = to_float(halves[i]);
  }
  return made;
}

int64_t size_of(Element element) { return element == Element::kFloat32 ? 4 : 2; }

// One state in whole numbers.
struct Whole {
  std::vector<int8_t> low, high;  // padded to whole steps
  std::vector<int32_t> high_steps;
  WholeState state{};
  double slack = 0;  // add to each bound
  bool certified = false;

  Whole(std::span<const float> h, int64_t steps, double largest_norm) : low(steps * kQuad), high(low.size()) {
    const double length = norm(h), k = static_cast<double>(h.size());
    if (!(length * std::max(largest_norm, 1.) < kOverflow)) return;  // NaN too
    certified = true;
    const float scale = scale_of(h, steps);
    std::vector<int32_t> whole(h.size());
    for (size_t i = 0; scale > 0 && i < h.size(); ++i) whole[i] = rounded(h[i] / scale);
    split(whole, steps);
    const double error = distance(h, whole, scale), own = length_of(whole, scale);
    // The exact kernels round each product and sum at most twice, and finish() in head_kernel.cpp fewer than
    // sixteen times; both errors are a share of the norms.
    const double exact = (2 * k + 8) * 0x1p-24 * 1.01, bounds = 0x1p-20;
    state.scale = scale;
    state.rows_error = above(length * (1 + exact) * (1 + bounds));
    state.rows_norm = above((error + length * exact + (own + length) * bounds) * (1 + bounds));
    slack = kTiny * (k + std::sqrt(k) * (length + largest_norm) + 1);
  }

  // So that whole numbers fit, and that few steps have one above kLargest.
  static float scale_of(std::span<const float> h, int64_t steps) {
    std::vector<float> most(static_cast<size_t>(steps));
    double sum = 0;
    for (size_t i = 0; i < h.size(); ++i) {
      const float size = std::abs(h[i]);
      most[i / kQuad] = std::max(most[i / kQuad], size);
      sum += size;
    }
    const float largest = *std::ranges::max_element(most);
    const auto nth = most.begin() + steps / kShareOfHigh;
    std::ranges::nth_element(most, nth, std::greater());
    const double scale = std::max({*nth / double{kLargest}, largest / kLargestWhole, sum / kLargestSum});
    return scale > kTiny ? static_cast<float>(scale) : 0;
  }

  void split(const std::vector<int32_t>& whole, int64_t steps) {
    int32_t low_sum = 0, high_sum = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      low[i] = static_cast<int8_t>(static_cast<uint8_t>(whole[i]));
      high[i] = static_cast<int8_t>((whole[i] - low[i]) / 256);
      low_sum += low[i], high_sum += high[i];
    }
    for (int64_t step = 0; step < steps; ++step) {
      const auto* own = &high[static_cast<size_t>(step * kQuad)];
      if (std::any_of(own, own + kQuad, [](int8_t x) { return x != 0; }))
        high_steps.push_back(static_cast<int32_t>(step));
    }
    state.base_low = -kOffset * static_cast<uint32_t>(low_sum);
    state.base_high = -kOffset * static_cast<uint32_t>(high_sum);
    state.low = low.data(), state.high = high.data();
    state.high_steps = high_steps.data(), state.highs = static_cast<int64_t>(high_steps.size());
  }
};

// The k largest so far, smaller ids first on ties. NaN is never among them.
struct Largest {
  int k;
  int32_t* ids;
  float* values;

  Largest(int count, int32_t* to_ids, float* to_values) : k(count), ids(to_ids), values(to_values) {
    for (int i = 0; i < k; ++i) ids[i] = -1, values[i] = -INFINITY;
  }
  float last() const { return values[k - 1]; }
  bool before(float value, int32_t id, int i) const {
    return value > values[i] || (value == values[i] && (ids[i] < 0 || id < ids[i]));
  }
  void add(float value, int32_t id) {
    int at = k - 1;
    if (!before(value, id, at)) return;
    for (; at > 0 && before(value, id, at - 1); --at) values[at] = values[at - 1], ids[at] = ids[at - 1];
    values[at] = value, ids[at] = id;
  }
};

// The `count` entries of `upper` that are largest, by their index.
std::vector<int64_t> most_promising(std::span<const float> upper, int count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::vector<float> values(ids.size());
  Largest largest(count, ids.data(), values.data());
  for (size_t i = 0; i < upper.size(); ++i)
    if (upper[i] > largest.last()) largest.add(upper[i], static_cast<int32_t>(i));
  std::erase(ids, -1);
  return {ids.begin(), ids.end()};
}

float log_of_sum(std::span<const float> most, std::span<const float> sums) {
  const float largest = *std::ranges::max_element(most);
  float total = 0;
  for (size_t i = 0; i < most.size(); ++i) {
    const float below = most[i] - largest;
    if (below > -20) total += sums[i] * std::exp(below);
  }
  return largest + std::log(total);
}

template <class Work>
void share(ThreadPool* pool, int64_t count, const Work& work) {
  const auto shares = pool ? std::min<int64_t>(count, static_cast<int64_t>(pool->size())) : 1;
  if (shares <= 1) return work(0, count);
  pool->for_each(static_cast<size_t>(shares), [&](size_t i) {
    const auto own = static_cast<int64_t>(i);
    work(count * own / shares, count * (own + 1) / shares);
  });
}

}  // namespace

CertifiedHead::CertifiedHead(const PackedMatrix& matrix)
    : matrix_(matrix), steps_((matrix.k() + kQuad - 1) / kQuad), panels_((matrix.n() + kPanel - 1) / kPanel),
      groups_((panels_ + kGroup - 1) / kGroup) {
  if (matrix.has_bias() || matrix.has_scales() || matrix.k() > kMostElements)
    throw std::invalid_argument("a certified head has no bias, no scales and at most 65536 elements per row");
  const auto bytes = static_cast<size_t>(panels_ * steps_ * kLine);
  lines_ = matrix_memory(bytes);
  std::memset(lines_.get(), static_cast<int>(kOffset), bytes);
  for (auto* each : {&scales_, &errors_, &norms_}) each->resize(static_cast<size_t>(panels_ * kPanel));
  std::vector<char> row(static_cast<size_t>(matrix.k() * size_of(matrix.element())));
  for (int64_t i = 0; i < matrix.n(); ++i) {
    matrix.unpack(row.data(), i, i + 1);
    quantise(i, wide(row.data(), matrix.k(), matrix.element()).data());
  }
}

void CertifiedHead::quantise(int64_t row, const float* weights) {
  const std::span<const float> w(weights, static_cast<size_t>(matrix_.k()));
  const double length = norm(w);
  if (!(length < kOverflow)) throw std::invalid_argument("a row of the head is not finite, or too large");
  largest_norm_ = std::max(largest_norm_, length * kUp);
  float most = 0;
  for (const float each : w) most = std::max(most, std::abs(each));
  const float scale = most / kLargest > kTiny ? most / kLargest : 0;
  std::vector<int8_t> whole(static_cast<size_t>(steps_ * kQuad));
  const int64_t panel = row / kPanel, first = panel / kGroup * kGroup;
  const int64_t width = std::min(kGroup, panels_ - first);
  char* lane = lines_.get() + (first * steps_ + panel - first) * kLine + row % kPanel * kQuad;
  for (size_t i = 0; scale > 0 && i < w.size(); ++i)
    whole[i] = static_cast<int8_t>(std::clamp(rounded(w[i] / scale), -kLargest, kLargest));
  for (int64_t step = 0; step < steps_; ++step, lane += width * kLine) {
    uint32_t quad;
    std::memcpy(&quad, &whole[static_cast<size_t>(step * kQuad)], sizeof quad);
    quad ^= 0x80808080u;  // adds kOffset to each byte
    std::memcpy(lane, &quad, sizeof quad);
  }
  const auto at = static_cast<size_t>(row);
  errors_[at] = above(distance(w, whole, scale));
  norms_[at] = above(length_of(whole, scale));
  scales_[at] = scale;
}

int64_t CertifiedHead::top(const void* x, int64_t rows, int k, int32_t* ids, float* logits, float* totals,
                           ThreadPool* pool) const {
  int64_t multiplied = 0;
  const auto* from = static_cast<const char*>(x);
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(rows - first, kRows);
    multiplied += some(from + first * matrix_.k() * size_of(matrix_.element()), count, k, ids + first * k,
                       logits + first * k, totals ? totals + first : nullptr, pool);
  }
  return multiplied;
}

int64_t CertifiedHead::some(const char* x, int64_t rows, int k, int32_t* ids, float* logits, float* totals,
                            ThreadPool* pool) const {
  const int64_t row_bytes = matrix_.k() * size_of(matrix_.element());
  std::vector<Whole> whole;
  std::vector<WholeState> states;
  for (int64_t i = 0; i < rows; ++i) {
    whole.emplace_back(wide(x + i * row_bytes, matrix_.k(), matrix_.element()), steps_, largest_norm_);
    if (whole.back().certified) states.push_back(whole.back().state);
  }
  const auto certified = static_cast<int64_t>(states.size());
  const auto scratch = [&](int64_t width) {
    return std::unique_ptr<float[]>(new float[static_cast<size_t>(certified * width)]);  // not set to 0
  };
  const auto upper = scratch(panels_), most = scratch(totals ? groups_ : 0), sums = scratch(totals ? groups_ : 0);
  const BoundCall call{lines_.get(),  scales_.data(), errors_.data(), norms_.data(), states.data(), upper.get(),
                       totals ? most.get() : nullptr, totals ? sums.get() : nullptr, certified,     steps_,
                       matrix_.n()};
  if (certified)
    share(pool, groups_, [&](int64_t begin, int64_t end) { head_kernels(false).bound(call, begin, end); });
  std::vector<int64_t> place(whole.size()), multiplied(whole.size());
  for (size_t i = 1; i < whole.size(); ++i) place[i] = place[i - 1] + whole[i - 1].certified;
  share(pool, rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      if (!whole[at].certified) {
        Largest(k, ids + i * k, logits + i * k);
        continue;
      }
      multiplied[at] = decide(x + i * row_bytes, upper.get() + place[at] * panels_, whole[at].slack, k, ids + i * k,
                              logits + i * k);
      const auto own = [&](const float* of) {
        return std::span(of + place[at] * groups_, static_cast<size_t>(groups_));
      };
      if (totals) totals[i] = log_of_sum(own(most.get()), own(sums.get()));
    }
  });
  return std::accumulate(multiplied.begin(), multiplied.end(), int64_t{0});
}

// Multiplies panels by descending bounds, then any other that can have one of the k largest logits.
int64_t CertifiedHead::decide(const char* x, const float* upper, double slack, int k, int32_t* ids,
                              float* logits) const {
  Largest largest(k, ids, logits);
  const auto multiply = [&](std::span<const int64_t> panels) {
    float out[kPicked * kPanel];
    for (size_t i = 0; i < panels.size(); i += kPicked) {
      const auto some = panels.subspan(i, std::min<size_t>(kPicked, panels.size() - i));
      matrix_.pick(x, some.data(), static_cast<int64_t>(some.size()), out);
      for (size_t p = 0; p < some.size(); ++p)
        for (int64_t row = some[p] * kPanel; row < std::min((some[p] + 1) * kPanel, matrix_.n()); ++row)
          largest.add(out[static_cast<int64_t>(p) * kPanel + row % kPanel], static_cast<int32_t>(row));
    }
  };
  // The least bound of a panel that can have a logit as large as the last one; bfloat16 may round up to it.
  const auto least = [&] {
    const double last = largest.last(), ulp = matrix_.element() == Element::kFloat32 ? 0 : 0x1.01p-8;
    const double needed = last - std::abs(last) * ulp - slack;
    return std::isfinite(last) ? std::nextafter(static_cast<float>(needed), -INFINITY) : -INFINITY;
  };
  auto first = most_promising({upper, static_cast<size_t>(panels_)}, 2 * k + 2);
  multiply(first);
  auto done = static_cast<int64_t>(first.size());
  std::ranges::sort(first);
  auto next = first.begin();
  std::vector<int64_t> others;
  float needed = least();
  const auto flush = [&] {
    multiply(others);
    done += static_cast<int64_t>(others.size());
    others.clear();
    needed = least();
  };
  for (int64_t panel = 0; panel < panels_; ++panel) {
    if (next != first.end() && *next == panel) {
      ++next;
    } else if (!(upper[panel] < needed)) {
      others.push_back(panel);
      if (others.size() == kPicked) flush();
    }
  }
  flush();
  if (!std::isfinite(logits[k - 1]) || !std::isfinite(logits[0])) ids[0] = -1;
  return done;
}

}  // namespace tasc
