#undef NDEBUG
#include "tasc/ngram_count.h"

#include <cassert>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using Ids = std::vector<int32_t>;

template <class Call>
bool refused(Call call) {
  try {
    call();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

std::map<Ids, int64_t> slowly(const Ids& tokens, const std::vector<int64_t>& offsets, int n) {
  std::map<Ids, int64_t> counts;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (int64_t i = offsets[s]; i + n <= offsets[s + 1]; ++i) {
      ++counts[Ids(tokens.begin() + i, tokens.begin() + i + n)];
    }
  }
  return counts;
}

void agrees_with_a_map_on_random_corpora() {
  std::mt19937 rng(7);
  for (int round = 0; round < 200; ++round) {
    Ids tokens;
    std::vector<int64_t> offsets{0};
    for (unsigned s = rng() % 5; s-- > 0; offsets.push_back(static_cast<int64_t>(tokens.size()))) {
      for (unsigned k = rng() % 40; k-- > 0;) tokens.push_back(static_cast<int32_t>(rng() % 3));
    }
    for (int n = 1; n <= 9; ++n) {
      const auto found = tasc::count_ngrams(tokens, offsets, n);
      const auto wanted = slowly(tokens, offsets, n);
      assert(found.counts.size() == wanted.size() && found.ids.size() == wanted.size() * size_t(n));
      for (size_t k = 0; k < found.counts.size(); ++k) {
        const Ids ids(found.ids.begin() + k * n, found.ids.begin() + (k + 1) * n);
        assert(wanted.at(ids) == found.counts[k]);
        assert(k == 0 || found.counts[k - 1] >= found.counts[k]);
      }
    }
  }
}

void refuses_arrays_that_do_not_fit() {
  const Ids tokens{1, 2, 3}, negative{1, -2, 3};
  const auto count = [](const Ids& ids, std::vector<int64_t> offsets, int n) {
    return refused([&] { tasc::count_ngrams(ids, offsets, n); });
  };
  assert(!count(tokens, {0, 3}, 2));
  assert(count(tokens, {0, 3}, 0));
  assert(count(tokens, {}, 2));
  assert(count(tokens, {0, 2}, 2));
  assert(count(tokens, {1, 3}, 2));
  assert(count(tokens, {0, 4, 3}, 2));
  assert(count(negative, {0, 3}, 2));
}

}  // namespace

int main() {
  agrees_with_a_map_on_random_corpora();
  refuses_arrays_that_do_not_fit();
}
