#undef NDEBUG
#include <algorithm>
#include <cassert>
#include <cmath>
#include <random>
#include <vector>

#include "tasc/argmax.h"
#include "tasc/compact.h"
#include "tasc/rejection.h"
#include "thread_lanes.h"

namespace {

struct Case {  // a random tree whose children are likely tokens, over rows of a few clear peaks
  int n, size;
  std::vector<int32_t> tokens, parents, distribution_of;
  std::vector<float> logits, distributions;
  std::vector<double> uniforms;

  Case(std::mt19937& random, int nodes, int vocabulary) : n(nodes), size(vocabulary) {
    std::normal_distribution<float> normal(0, 3);
    std::uniform_real_distribution<double> uniform;
    for (int i = 0; i < (n + 1) * size; ++i) logits.push_back(normal(random));
    for (int i = 0; i < n; ++i) {
      parents.push_back(static_cast<int32_t>(random() % (i + 1)) - 1);
      tokens.push_back(static_cast<int32_t>(random() % std::min(size, 6)));
    }
    for (int row = 0; row <= n; ++row) {
      distribution_of.push_back(random() % 4 ? row : -1);
      double total = 0;
      std::vector<double> masses;
      for (int i = 0; i < size; ++i) masses.push_back(std::exp(normal(random) / 3));
      for (double mass : masses) total += mass;
      for (double mass : masses) distributions.push_back(static_cast<float>(mass / total));
      uniforms.push_back(uniform(random));
    }
  }
  tasc::Tree tree() const { return {tokens.data(), parents.data(), n}; }
  tasc::Proposals proposals(bool replacement) const {
    return {distributions.data(), n + 1, distribution_of.data(), replacement};
  }
};

void lanes_change_nothing() {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const Case c(random, static_cast<int>(random() % 12), 5 + static_cast<int>(random() % 2000));
    const bool replacement = round % 2;
    std::vector<int32_t> one(c.n + 2, 99), many(c.n + 2, 99), sampled(c.n + 2), again(c.n + 2);
    std::vector<float> scratch(c.size);
    tasc::Workspace work, shared;
    tasc::verify_rejection(tasc::OneLane{}, c.logits.data(), c.size, c.tree(),
                           c.proposals(replacement), 0.7f, c.uniforms.data(), scratch.data(), work,
                           one.data());
    tasc::verify_sampled(tasc::OneLane{}, c.logits.data(), c.size, c.tree(), 0.7f,
                         c.uniforms.data(), work, sampled.data());
    assert(one[0] >= 0 && one[1] >= 0 && one[1] < c.size);
    on_lanes(5, [&](const ThreadLanes& lanes) {
      tasc::verify_rejection(lanes, c.logits.data(), c.size, c.tree(), c.proposals(replacement),
                             0.7f, c.uniforms.data(), scratch.data(), shared, many.data());
      lanes.sync();
      tasc::verify_sampled(lanes, c.logits.data(), c.size, c.tree(), 0.7f, c.uniforms.data(),
                           shared, again.data());
    });
    assert(one == many);
    assert(sampled == again);
  }
}

void greedy_follows_the_arg_max() {
  // 0 -> {1, 2}, 2 -> 3; rows of 20 so that vectors and the rest are both used
  const int32_t tokens[] = {7, 8, 19, 5}, parents[] = {-1, 0, 0, 2};
  std::vector<float> logits(5 * 20, -1.0f);
  const int32_t best[] = {7, 19, 1, 5, 16};
  for (int row = 0; row < 5; ++row) logits[row * 20 + best[row]] = 2;
  logits[10] = 2;            // a tie: the smaller id wins
  logits[0 * 20 + 3] = NAN;  // never the largest
  int32_t result[6];
  tasc::verify_greedy(logits.data(), 20, {tokens, parents, 4}, result);
  assert(result[0] == 3 && result[1] == 16);
  assert(result[2] == 0 && result[3] == 2 && result[4] == 3 && result[5] == -1);

  tasc::verify_greedy(logits.data(), 20, {nullptr, nullptr, 0}, result);
  assert(result[0] == 0 && result[1] == 7);

  for (int i = 0; i < 20; ++i) logits[20 + i] = i % 2 ? -INFINITY : NAN;
  tasc::verify_greedy(logits.data(), 20, {tokens, parents, 4}, result);
  assert(result[0] == tasc::kBadRow && result[1] == 1);
}

void the_best_of_a_row_come_in_order() {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> row(1 + random() % 4000);
    for (float& x : row) x = static_cast<float>(random() % 50);  // many ties
    for (int i = 0; i < 5; ++i) row[random() % row.size()] = i % 2 ? NAN : -INFINITY;
    std::vector<int32_t> order, best(1 + random() % 9);
    for (size_t i = 0; i < row.size(); ++i)
      if (row[i] > -INFINITY) order.push_back(static_cast<int32_t>(i));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
    order.resize(best.size(), -1);
    tasc::top(row.data(), static_cast<int64_t>(row.size()), static_cast<int>(best.size()),
              best.data());
    assert(best == order);
  }
}

void what_cannot_be_verified_is_refused() {
  const int32_t tokens[] = {1, 1}, cycle[] = {1, 0}, chain[] = {-1, 0}, distribution_of[] = {-1, 3, -1};
  const float logits[6] = {}, distributions[2] = {0.5f, 0.5f};
  const float empty[6] = {-INFINITY, -INFINITY, 0, 0, 0, 0};
  const double uniforms[3] = {};
  float scratch[2];
  int32_t result[4];
  tasc::Workspace work;
  const tasc::OneLane lane;
  tasc::verify_greedy(logits, 2, {tokens, cycle, 2}, result);
  assert(result[0] == tasc::kBadTree && result[1] == 0);
  tasc::verify_sampled(lane, logits, 2, {tokens, cycle, 2}, 1, uniforms, work, result);
  assert(result[0] == tasc::kBadTree);
  tasc::verify_sampled(lane, empty, 2, {tokens, chain, 2}, 1, uniforms, work, result);
  assert(result[0] == tasc::kBadRow && result[1] == 0);
  tasc::verify_rejection(lane, logits, 2, {tokens, chain, 2}, {distributions, 1, distribution_of, true}, 1, uniforms,
                         scratch, work, result);
  assert(result[0] == tasc::kBadDistribution && result[1] == 1);
}

void a_residual_of_nothing_keeps_the_distribution() {
  // p and q are equal, and the trial is lost by rounding: the bonus token is still drawn from p.
  const int32_t tokens[] = {0}, parents[] = {-1}, distribution_of[] = {0, -1};
  const float logits[4] = {0, 0, 0, 0}, distributions[2] = {0.5f, 0.5f};
  const double uniforms[2] = {1.0, 0.75};  // 1 is outside [0, 1): it forces the loss
  float scratch[2];
  int32_t result[3];
  tasc::Workspace work;
  tasc::verify_rejection(tasc::OneLane{}, logits, 2, {tokens, parents, 1}, {distributions, 1, distribution_of, true},
                         1, uniforms, scratch, work, result);
  assert(result[0] == 0 && result[1] == 1);
}

void a_temperature_without_an_inverse_is_refused() {
  assert(tasc::divides(1) && tasc::divides(1e-30f) && tasc::divides(3e38f));
  for (const float bad : {0.0f, -1.0f, 1e-42f, INFINITY, NAN}) assert(!tasc::divides(bad));
}

void sixteen_bit_floats_mean_what_they_say() {
  assert(tasc::to_float(tasc::BFloat16{0x3f80}) == 1 && tasc::to_float(tasc::BFloat16{0xc000}) == -2);
  assert(tasc::to_float(tasc::Float16{0x3c00}) == 1 && tasc::to_float(tasc::Float16{0xc000}) == -2);
  assert(tasc::to_float(tasc::Float16{0x7bff}) == 65504);
  assert(tasc::to_float(tasc::Float16{0x0001}) == std::ldexp(1.0f, -24));
  assert(tasc::to_float(tasc::Float16{0x8001}) == -std::ldexp(1.0f, -24));
  assert(std::isinf(tasc::to_float(tasc::Float16{0xfc00})));
  assert(std::isnan(tasc::to_float(tasc::Float16{0x7e00})));
}

void compaction_moves_rows_in_place() {
  // Row 0 keeps its nodes 0, 2, 3 and 7 behind position 2; row 1 goes on at position 1.
  const std::vector<tasc::Move> moves = {{0, 4, 3}, {0, 5, 4}, {0, 9, 5}, {1, 2, 1}, {1, 6, 2}};
  const int count = static_cast<int>(moves.size());
  assert(tasc::first_bad_move(moves.data(), count, 2, 10) == -1);
  assert(tasc::first_bad_move(moves.data(), count, 2, 9) == 2);   // out of the cache
  assert(tasc::first_bad_move(moves.data(), count, 1, 10) == 3);  // no such row
  for (const tasc::Move bad : {tasc::Move{0, 3, 4}, {0, 3, -1}, {-1, 3, 2}})
    assert(tasc::first_bad_move(&bad, 1, 2, 10) == 0);
  for (const tasc::Move bad : {tasc::Move{1, 6, 3}, {1, 7, 2}, {0, 9, 6}}) {
    const tasc::Move two[] = {{1, 6, 2}, bad};
    assert(tasc::first_bad_move(two, 2, 2, 10) == 1);
  }
  for (int row = 0; row < 2; ++row) {
    std::vector<int> block;
    for (int position = 0; position < 10; ++position)
      for (int word = 0; word < 3; ++word) block.push_back(10 * position + word);
    tasc::compact(tasc::OneLane{}, block.data(), 3, row, moves.data(), count);
    const int expected[2][6] = {{0, 1, 2, 4, 5, 9}, {0, 2, 6, 3, 4, 5}};
    for (int position = 0; position < 6; ++position)
      for (int word = 0; word < 3; ++word)
        assert(block[3 * position + word] == 10 * expected[row][position] + word);
  }
}

}  // namespace

int main() {
  greedy_follows_the_arg_max();
  the_best_of_a_row_come_in_order();
  what_cannot_be_verified_is_refused();
  a_residual_of_nothing_keeps_the_distribution();
  sixteen_bit_floats_mean_what_they_say();
  a_temperature_without_an_inverse_is_refused();
  compaction_moves_rows_in_place();
  lanes_change_nothing();
}
