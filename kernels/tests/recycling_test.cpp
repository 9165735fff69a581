#include "tasc/recycling.h"

#undef NDEBUG
#include <cassert>
#include <cmath>
#include <vector>

#include "tasc/top_softmax.h"

using tasc::RecentTokens;
using tasc::RecycledLogits;

int main() {
  RecycledLogits logits(64, 0.5);
  RecentTokens recent;
  recent.append(4);
  recent.append(5);
  const std::vector<int32_t> tokens{7}, parents{-1}, successors{7, 8, 9, -1};
  const std::vector<float> probabilities{0.5f, 0.25f, 1.f, 0.f};
  logits.add_tree(recent, tokens, parents, successors, probabilities);
  assert(logits.rows() == 5);  // after 5, 4 5; 7, 5 7, 4 5 7
  assert(logits.find(recent, 2)->probability(8) == 0.25f);
  assert(!logits.find(recent, 3));
  recent.append(7);
  for (int length = 1; length <= 3; ++length) assert(logits.find(recent, length)->tokens[0] == 9);
  assert(!logits.check_integrity());

  const std::vector<int32_t> others{10};
  const std::vector<float> sure{0.75f};
  logits.add(recent, others, sure);  // a mean with what was said before
  assert(logits.find(recent, 3)->probability(9) == 0.5f);
  assert(logits.find(recent, 3)->probability(10) == 0.375f);

  for (int32_t token = 100; token < 1000; ++token) {
    RecentTokens alone;
    alone.append(token);
    logits.add(alone, others, sure);
    assert(logits.rows() <= 64 && logits.find(alone, 1));
  }
  assert(!logits.check_integrity());

  const std::vector<float> row{0.f, 2.f, -INFINITY, 2.f};
  int32_t ids[4];
  float found[4];
  tasc::top_softmax(row.data(), 4, 4, 1.f, ids, found);
  assert(ids[0] == 1 && ids[1] == 3 && ids[2] == 0 && ids[3] == -1);
  assert(std::abs(found[0] - 0.4683f) < 0.005f && found[3] == 0);
  return 0;
}
