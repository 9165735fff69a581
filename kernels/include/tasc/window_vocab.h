// The vocabulary of a sliding window: the tokens in the last `size` entries of a stream, and the row of each
// in a packed buffer. MicroSpec (arXiv:2605.26444), section 3.2, equation 4.
//
// All arrays are on the model's device, and the host never waits for a push. The lanes of one CUDA block,
// or one lane on the CPU, run this code; results do not depend on their number.
#pragma once
#include "tasc/lanes.h"

namespace tasc {

constexpr int32_t kNobody = INT32_MAX;  // value of an unset mark

enum WindowState { kStart, kLength, kActive, kHigh, kWindowStates };

struct WindowVocab {
  int32_t vocabulary, size;
  int32_t* ring;    // (size,) the window; its oldest entry at state[kStart]
  int32_t* counts;  // (vocabulary,) number of times each token is in the window
  int32_t* slots;   // (vocabulary,) the slot of each token in the window, else -1
  int32_t* marks;   // (vocabulary,) scratch, kNobody between pushes
  int32_t* ids;     // (size,) the token of each slot, -1 if free
  int32_t* free;    // (size,) scratch
  int32_t* state;   // (kWindowStates,) start, entries, slots in use, slots up to the last used one

  TASC_HD bool holds(int32_t token) const { return token >= 0 && token < vocabulary; }
  TASC_HD int32_t position(int64_t i) const { return static_cast<int32_t>(i % size); }
};

// One lane's part of a push: entries begin..end - 1 and slots slot_begin..slot_end - 1, so that ranks over
// lanes are ranks over entries and slots.
template <class Lanes>
struct Push {
  Lanes lanes;
  WindowVocab window;
  const int32_t* tokens;
  bool unique;
  Ranks& shared;
  int32_t begin, end, slot_begin, slot_end;

  TASC_HD Push(const Lanes& those, const WindowVocab& into, const int32_t* pushed, int32_t count,
               bool only_first, Ranks& ranks)
      : lanes(those), window(into), tokens(pushed), unique(only_first), shared(ranks) {
    const int64_t me = lanes.index(), all = lanes.count();
    begin = static_cast<int32_t>(count * me / all);
    end = static_cast<int32_t>(count * (me + 1) / all);
    slot_begin = static_cast<int32_t>(window.size * me / all);
    slot_end = static_cast<int32_t>(window.size * (me + 1) / all);
  }

  TASC_HD bool is_first(int32_t i) const {
    return window.holds(tokens[i]) && window.marks[tokens[i]] == i;
  }
  TASC_HD bool counts(int32_t i) const { return unique ? is_first(i) : window.holds(tokens[i]); }
  TASC_HD bool enters(int32_t i) const {
    return is_first(i) && window.counts[tokens[i]] > 0 && window.slots[tokens[i]] < 0;
  }

  TASC_HD void mark_first() const {
    for (int32_t i = begin; i < end; ++i)
      if (window.holds(tokens[i])) atomic_min(window.marks + tokens[i], i);
    lanes.sync();
  }

  // Append to the stream, and uncount the entries that leave the window.
  TASC_HD void slide() const {
    int32_t mine = 0, all = 0;
    for (int32_t i = begin; i < end; ++i) mine += counts(i);
    int32_t rank = rank_of(lanes, mine, shared, &all);
    const int64_t start = window.state[kStart], length = window.state[kLength];
    const int64_t over = length + all - window.size, left = over < length ? over : length;
    for (int64_t i = lanes.index(); i < left; i += lanes.count())
      atomic_add(window.counts + window.ring[window.position(start + i)], -1);
    lanes.sync();
    for (int32_t i = begin; i < end; ++i) {
      if (!counts(i)) continue;
      if (rank >= all - window.size) {
        window.ring[window.position(start + length + rank)] = tokens[i];
        atomic_add(window.counts + tokens[i], 1);
      }
      ++rank;
    }
    lanes.sync();
    if (lanes.index() != 0) return;
    window.state[kStart] = window.position(over > 0 ? start + over : start);
    window.state[kLength] = static_cast<int32_t>(over > 0 ? window.size : length + all);
  }

  // Free the slots of tokens that left. free[0], free[1], … are then all free slots in ascending order.
  TASC_HD int32_t release() const {
    int32_t mine = 0, all = 0;
    for (int32_t s = slot_begin; s < slot_end; ++s) {
      const int32_t token = window.ids[s];
      if (token >= 0 && window.counts[token] == 0) window.ids[s] = window.slots[token] = -1;
      mine += window.ids[s] < 0;
    }
    int32_t rank = rank_of(lanes, mine, shared, &all);
    for (int32_t s = slot_begin; s < slot_end; ++s)
      if (window.ids[s] < 0) window.free[rank++] = s;
    lanes.sync();
    return all;
  }

  // New tokens take the first free slots in order.
  TASC_HD int32_t enter() const {
    int32_t mine = 0, all = 0;
    for (int32_t i = begin; i < end; ++i) mine += enters(i);
    int32_t rank = rank_of(lanes, mine, shared, &all);
    for (int32_t i = begin; i < end; ++i) {
      if (!enters(i)) continue;
      const int32_t slot = window.free[rank++];
      window.ids[slot] = tokens[i];
      window.slots[tokens[i]] = slot;
    }
    lanes.sync();
    return all;
  }

  TASC_HD void finish(int32_t active) const {
    for (int32_t i = begin; i < end; ++i)
      if (window.holds(tokens[i])) atomic_store(window.marks + tokens[i], kNobody);
    int32_t high = 0;
    for (int32_t s = slot_begin; s < slot_end; ++s)
      if (window.ids[s] >= 0) high = s + 1;
    if (lanes.index() == 0) window.state[kActive] = active, window.state[kHigh] = 0;
    lanes.sync();
    atomic_max(window.state + kHigh, high);
    lanes.sync();
  }
};

// Appends tokens (count,) to the stream, or with `unique` only the first of equal ones. Skips entries
// outside 0..vocabulary - 1, which allows padding.
template <class Lanes>
TASC_HD void push(const Lanes& lanes, const WindowVocab& window, const int32_t* tokens,
                  int32_t count, bool unique, Ranks& shared) {
  const Push<Lanes> step(lanes, window, tokens, count, unique, shared);
  step.mark_first();
  step.slide();
  const int32_t open = step.release();
  const int32_t entered = step.enter();
  step.finish(window.size - open + entered);
}

// Updates the packed buffer (size, words): copies row ids[s] of weight (vocabulary, words) to each slot s
// that lacks it. held[s] is the token whose row is in slot s, -1 for none. Each group of lanes has slots
// first, first + groups, …; returns the number of rows copied.
template <class Word, class Lanes>
TASC_HD int32_t gather(const Lanes& lanes, int32_t first, int32_t groups, const Word* weight,
                       int64_t words, const int32_t* ids, int32_t* held, int32_t size,
                       Word* buffer) {
  int32_t copied = 0;
  for (int32_t s = first; s < size; s += groups) {
    const int32_t token = ids[s];
    if (token < 0 || token == held[s]) continue;
    copy_words(lanes, weight + token * words, buffer + s * words, words);
    lanes.sync();  // every lane has read held[s]
    if (lanes.index() == 0) held[s] = token;
    ++copied;
  }
  return copied;
}

}  // namespace tasc
