#include "tasc/certified_head.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "elements.h"
#include "instructions.h"

namespace {

constexpr int64_t kStates = 67;

std::mt19937 rng(5);

// Normal numbers; each row repeats part of another one, and is smaller or larger by up to a thousand.
template <class T>
std::vector<T> some(int64_t rows, int64_t k) {
  std::vector<T> made(static_cast<size_t>(rows * k));
  std::normal_distribution<float> normal;
  for (int64_t row = 0; row < rows; ++row) {
    const float scale = std::pow(10.f, static_cast<float>(row % 4) * (row % 8 < 4 ? 1.f : -1.f));
    for (int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(row * k + i), above = at - static_cast<size_t>(4 * k);
      made[at] = row > 4 && i % 9 ? made[above] : element<T>(normal(rng) * scale * (i % 31 ? 1.f : 20.f));
    }
  }
  return made;
}

struct Found {
  std::vector<int32_t> ids;
  std::vector<float> logits, totals;
  int64_t panels;

  template <class T>
  Found(const tasc::CertifiedHead& head, const std::vector<T>& x, int64_t rows, int k, tasc::ThreadPool* pool)
      : ids(static_cast<size_t>(rows * k)), logits(ids.size()), totals(static_cast<size_t>(rows)),
        panels(head.top(x.data(), rows, k, ids.data(), logits.data(), totals.data(), pool)) {}

  bool operator==(const Found&) const = default;
};

// The k largest of each row, sorted: what a certified head finds. The totals are approximate, and
// tests/models/test_certified_head.py compares them.
template <class T>
void check_definition(const Found& found, const std::vector<T>& all, int64_t n, int k) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  for (int64_t row = 0; row < kStates; ++row) {
    const T* own = &all[static_cast<size_t>(row * n)];
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](int32_t id) { return wide(own[id]); });
    for (int i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(row * k + i), rank = static_cast<size_t>(i);
      assert(found.ids[at] == order[rank] && found.logits[at] == wide(own[order[rank]]));
    }
  }
}

template <class T>
void check(int64_t n, int64_t k, tasc::ThreadPool& pool) {
  const auto element_type = sizeof(T) == 4 ? tasc::Element::kFloat32 : tasc::Element::kBFloat16;
  const auto w = some<T>(n, k), x = some<T>(kStates, k);
  const tasc::PackedMatrix matrix(w.data(), element_type, n, k, nullptr);
  const tasc::CertifiedHead head(matrix);
  std::vector<T> all(static_cast<size_t>(kStates * n));
  matrix.multiply(x.data(), kStates, all.data(), nullptr);
  for (const int count : {1, 3, 8}) {
    if (count > n) continue;
    const Found found(head, x, kStates, count, nullptr);
    check_definition(found, all, n, count);
    assert(found == Found(head, x, kStates, count, &pool));
  }
}

template <class T>
bool refused(T value) {
  const std::vector<T> w{element<float>(1), value};
  const tasc::PackedMatrix matrix(w.data(), tasc::Element::kFloat32, 2, 1, nullptr);
  try {
    tasc::CertifiedHead head(matrix);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

// States that are not finite or too large have no certificate; others beside them do.
void check_refusals() {
  assert(refused(NAN) && refused(INFINITY) && !refused(2.f));
  const auto w = some<float>(40, 5);
  const tasc::PackedMatrix matrix(w.data(), tasc::Element::kFloat32, 40, 5, nullptr);
  const tasc::CertifiedHead head(matrix);
  std::vector<float> x(25, 1.f);
  x[0] = NAN, x[7] = -INFINITY, x[12] = 3e38f, x[15] = x[16] = x[17] = x[18] = x[19] = 0;
  const Found found(head, x, 5, 1, nullptr);
  assert((found.ids == std::vector<int32_t>{-1, -1, -1, 0, found.ids[4]}) && found.ids[4] >= 0);
}

}  // namespace

int main() {
  tasc::ThreadPool pool(3, std::chrono::microseconds(50));
  for (const auto* instructions : kInstructions) {
    if (!tasc::use_dense_instructions(instructions)) continue;
    for (const int64_t n : {1, 16, 65, 400})
      for (const int64_t k : {1, 5, 34, 96}) {
        check<float>(n, k, pool);
        check<uint16_t>(n, k, pool);
      }
    check_refusals();
  }
}
