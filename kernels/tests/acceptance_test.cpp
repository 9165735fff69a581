#include "tasc/acceptance.h"

#include <cassert>
#include <cmath>
#include <random>
#include <vector>

int main() {
  const std::vector<double> extra(80, 0.0);
  {  // a failed root teaches one claim, not two
    const int32_t tokens[] = {5, 6}, parents[] = {-1, 0};
    const float claimed[] = {0.8f, 0.4f};
    tasc::Acceptance acceptance;
    const tasc::DraftView draft{tokens, parents, claimed};
    const int32_t committed[] = {3};
    acceptance.learn(draft, committed);
    const auto after = acceptance.estimate(draft);
    assert(std::abs(after[0] - 1.6 / 3) < 1e-6);
    assert(std::abs(after[1] - 0.5 * after[0]) < 1e-6);
    assert(acceptance.worthwhile({}, {extra, 1, 0, 1}).empty());
  }
  {  // what is not a number claims nothing
    const int32_t tokens[] = {5, 6}, parents[] = {-1, 0};
    const float claimed[] = {NAN, NAN};
    tasc::Acceptance acceptance;
    for (const double p : acceptance.estimate({tokens, parents, claimed})) assert(p >= 0 && p <= 1);
  }
  std::mt19937 random(1);
  tasc::Acceptance acceptance;
  for (int turn = 0; turn < 3000; ++turn) {  // any tree: what is chosen holds its parents
    const int n = 1 + static_cast<int>(random() % 70);
    std::vector<int32_t> tokens(n), parents(n), committed(1 + random() % 4);
    std::vector<float> path(n);
    for (int i = 0; i < n; ++i) {
      tokens[i] = static_cast<int32_t>(random() % 3);
      parents[i] = static_cast<int32_t>(random() % (i + 1)) - 1;
      path[i] = (parents[i] < 0 ? 1.0f : path[parents[i]]) * static_cast<float>(random() % 9) / 8;
    }
    for (auto& token : committed) token = static_cast<int32_t>(random() % 3);
    tasc::DraftView draft{tokens, parents, path};
    if (turn % 2) draft.probabilities = {};
    const auto probable = acceptance.estimate(draft);
    for (int i = 0; i < n; ++i)
      assert(probable[i] <= (parents[i] < 0 ? 1.0 : probable[parents[i]]) + 1e-12);
    std::vector<bool> kept(n);
    for (const int32_t node : acceptance.worthwhile(draft, {extra, 1, 0.05, 1})) {
      assert(parents[node] < 0 || kept[parents[node]]);
      kept[node] = true;
    }
    acceptance.learn(draft, committed);
  }
}
