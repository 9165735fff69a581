#undef NDEBUG
#include <algorithm>
#include <cassert>
#include <random>
#include <set>
#include <vector>

#include "tasc/window_vocab.h"
#include "thread_lanes.h"

namespace {

struct Window {
  int vocabulary, size;
  std::vector<int32_t> ring, counts, slots, marks, ids, free, state;

  Window(int v, int w)
      : vocabulary(v), size(w), ring(w), counts(v), slots(v, -1), marks(v, tasc::kNobody),
        ids(w, -1), free(w), state(tasc::kWindowStates) {}
  tasc::WindowVocab view() {
    return {vocabulary,  size,       ring.data(), counts.data(), slots.data(),
            marks.data(), ids.data(), free.data(), state.data()};
  }
  template <class Lanes>
  void push(const Lanes& lanes, const std::vector<int32_t>& tokens, bool unique,
            tasc::Ranks& ranks) {
    tasc::push(lanes, view(), tokens.data(), static_cast<int32_t>(tokens.size()), unique, ranks);
  }
  bool operator==(const Window& other) const {
    return ring == other.ring && counts == other.counts && slots == other.slots &&
           marks == other.marks && ids == other.ids && state == other.state;
  }
};

// The definition: the set of the last `size` entries of the stream.
struct Definition {
  std::vector<int32_t> stream;
  void push(const std::vector<int32_t>& tokens, bool unique, int vocabulary) {
    std::set<int32_t> seen;
    for (int32_t t : tokens)
      if (t >= 0 && t < vocabulary && (seen.insert(t).second || !unique)) stream.push_back(t);
  }
  std::set<int32_t> active(int size) const {
    const size_t n = std::min(stream.size(), static_cast<size_t>(size));
    return {stream.end() - static_cast<std::ptrdiff_t>(n), stream.end()};
  }
};

void holds_together(const Window& w, const Definition& definition) {
  const std::set<int32_t> expected = definition.active(w.size);
  std::set<int32_t> found;
  int high = 0;
  for (int s = 0; s < w.size; ++s) {
    if (w.ids[s] < 0) continue;
    assert(found.insert(w.ids[s]).second && w.slots[w.ids[s]] == s);
    high = s + 1;
  }
  assert(found == expected);
  assert(w.state[tasc::kActive] == static_cast<int>(expected.size()));
  assert(w.state[tasc::kHigh] == high);
  for (int t = 0; t < w.vocabulary; ++t) {
    assert((w.counts[t] > 0) == expected.contains(t) && (w.slots[t] >= 0) == expected.contains(t));
    assert(w.marks[t] == tasc::kNobody);
  }
}

std::vector<int32_t> tokens_of(std::mt19937& random, int vocabulary, int most) {
  std::vector<int32_t> tokens(random() % (most + 1));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % (vocabulary + 2)) - 1;
  return tokens;
}

void a_window_is_what_its_definition_says_on_any_number_of_lanes() {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const int vocabulary = 1 + static_cast<int>(random() % 50);
    const int size = 1 + static_cast<int>(random() % 40), lanes = 2 + static_cast<int>(random() % 6);
    Window one(vocabulary, size), many(vocabulary, size);
    Definition definition;
    tasc::Ranks ranks, shared;
    for (int step = 0; step < 8; ++step) {
      const bool unique = random() % 2;
      const std::vector<int32_t> tokens = tokens_of(random, vocabulary, 60);
      definition.push(tokens, unique, vocabulary);
      one.push(tasc::OneLane{}, tokens, unique, ranks);
      on_lanes(lanes, [&](const ThreadLanes& l) { many.push(l, tokens, unique, shared); });
      holds_together(one, definition);
      assert(one == many);
    }
  }
}

void only_rows_that_entered_are_copied() {
  constexpr int kVocabulary = 30, kSize = 12, kWords = 11;
  std::vector<int32_t> weight(kVocabulary * kWords), buffer(kSize * kWords), held(kSize, -1);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<int32_t>(i);
  std::mt19937 random(2);
  Window w(kVocabulary, kSize);
  tasc::Ranks ranks;
  for (int step = 0; step < 50; ++step) {
    const std::vector<int32_t> before = w.ids, holding = held;
    w.push(tasc::OneLane{}, tokens_of(random, kVocabulary, 6), true, ranks);
    int copied = 0, due = 0;
    for (int s = 0; s < kSize; ++s) due += w.ids[s] >= 0 && w.ids[s] != holding[s];
    if (step % 2)
      copied = tasc::gather(tasc::OneLane{}, 0, 1, weight.data(), kWords, w.ids.data(), held.data(),
                            kSize, buffer.data());
    else  // three warps of two lanes
      for (int warp = 0; warp < 3; ++warp) {
        int each[2];
        on_lanes(2, [&](const ThreadLanes& lanes) {
          each[lanes.index()] = tasc::gather(lanes, warp, 3, weight.data(), kWords, w.ids.data(),
                                             held.data(), kSize, buffer.data());
        });
        copied += each[0];
      }
    assert(copied == due);
    for (int s = 0; s < kSize; ++s)
      for (int i = 0; w.ids[s] >= 0 && i < kWords; ++i)
        assert(buffer[s * kWords + i] == weight[w.ids[s] * kWords + i]);
  }
}

}  // namespace

int main() {
  a_window_is_what_its_definition_says_on_any_number_of_lanes();
  only_rows_that_entered_are_copied();
}
