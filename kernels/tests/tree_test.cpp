#include "tasc/tree.h"

#include <cassert>
#include <random>
#include <vector>

int main() {
  {  // 0 -> {1, 2}, 2 -> 3; a second root 4
    const int32_t parents[] = {-1, 0, 0, 2, -1};
    assert(tasc::first_bad_parent(parents, 5) == -1);
    uint64_t bits[5];
    int32_t depths[5];
    tasc::ancestor_bits(parents, 5, 1, bits, depths);
    assert(bits[3] == 0b1101 && bits[4] == 0b10000 && depths[3] == 2 && depths[4] == 0);

    const int32_t tokens[] = {7, 8, 9, 5, 6};
    const int32_t best[] = {7, 9, 1, 5, 3, 2};  // after the context, then after each node
    int32_t path[5];
    assert(tasc::greedy_path(tokens, parents, best, 5, path) == 3);
    assert(path[0] == 0 && path[1] == 2 && path[2] == 3);
  }
  {
    const int32_t own[] = {0}, later[] = {-1, 2, 0}, low[] = {-2};
    assert(tasc::first_bad_parent(own, 1) == 0);
    assert(tasc::first_bad_parent(later, 3) == 1);
    assert(tasc::first_bad_parent(low, 1) == 0);
    assert(tasc::first_bad_parent(nullptr, 0) == -1);
  }
  std::mt19937 random(0);
  for (int round = 0; round < 200; ++round) {  // more than one word: bits agree with the parents
    const int n = 1 + static_cast<int>(random() % 150);
    std::vector<int32_t> parents(n), depths(n);
    for (int i = 0; i < n; ++i) parents[i] = static_cast<int32_t>(random() % (i + 1)) - 1;
    const int words = tasc::words_for(n);
    std::vector<uint64_t> bits(static_cast<size_t>(n) * words);
    tasc::ancestor_bits(parents.data(), n, words, bits.data(), depths.data());
    for (int i = 0; i < n; ++i) {
      int levels = -1;
      std::vector<bool> expected(n, false);
      for (int at = i; at >= 0; at = parents[at], ++levels) expected[at] = true;
      assert(depths[i] == levels);
      for (int j = 0; j < n; ++j)
        assert(((bits[i * words + j / 64] >> (j % 64)) & 1) == static_cast<uint64_t>(expected[j]));
    }
  }
}
