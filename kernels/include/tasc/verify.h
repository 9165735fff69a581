// Verification of a draft tree: the accepted nodes and the token after them. The C++ and the CUDA
// build share these routines; a reference in torch (tasc/decoding/verify) defines the results.
//
// Lanes share the work on a row: index(), count(), and sync(), which all of them must reach. A row
// has kSlices parts for any number of lanes, and sums are added part by part, so that the number of
// lanes does not change the result.
#pragma once
#include <math.h>

#include "tasc/float16.h"
#include "tasc/lanes.h"
#include "tasc/tree.h"

namespace tasc {

constexpr int kSlices = 512;

// A verification writes result (n + 2,): the number of accepted nodes, the bonus token, the path, then
// -1. On an error, result[0] is one of these codes and result[1] the node or row.
constexpr int32_t kBadTree = -1;  // a parent that does not precede its child
constexpr int32_t kBadRow = -2;   // a row without a finite maximum, so without a distribution

struct Tree {
  const int32_t* tokens;
  const int32_t* parents;
  int n;

  // The first child of node `at` with this token; -1 if there is none.
  TASC_HD int child(int at, int32_t token) const {
    for (int i = at + 1; i < n; ++i)
      if (parents[i] == at && tokens[i] == token) return i;
    return -1;
  }
};

struct Workspace {  // shared by the lanes
  float maxima[kSlices];
  double sums[kSlices];
  int32_t token;
};

TASC_HD inline int64_t slice_begin(int slice, int64_t size) { return size * slice / kSlices; }

// Sums mass(id) over each slice into workspace.sums; returns the total to every lane.
template <class Lanes, class Mass>
TASC_HD double sum_slices(const Lanes& lanes, int64_t size, const Mass& mass, Workspace& shared) {
  lanes.sync();  // other lanes may still read the sums of the last call
  for (int s = lanes.index(); s < kSlices; s += lanes.count()) {
    double sum = 0;
    for (int64_t i = slice_begin(s, size), end = slice_begin(s + 1, size); i < end; ++i)
      sum += mass(i);
    shared.sums[s] = sum;
  }
  lanes.sync();
  double total = 0;
  TASC_UNROLL(8)  // full unrolling would take all registers
  for (int s = 0; s < kSlices; ++s) total += shared.sums[s];
  return total;
}

// The first id whose cumulative mass exceeds uniform * total; needs the sums of sum_slices. If rounding
// leads past the end, the last id with any mass.
template <class Lanes, class Mass>
TASC_HD int32_t draw(const Lanes& lanes, int64_t size, const Mass& mass, double total,
                     double uniform, Workspace& shared) {
  if (lanes.index() == 0) {
    const double goal = uniform * total;
    double before = 0;
    int slice = -1;
    TASC_UNROLL(1)
    for (int s = 0; s < kSlices; ++s) {
      if (!(shared.sums[s] > 0)) continue;
      if (slice >= 0) before += shared.sums[slice];
      slice = s;
      if (before + shared.sums[s] > goal) break;
    }
    shared.token = -1;
    for (int64_t i = slice_begin(slice, size), end = slice_begin(slice + 1, size); i < end; ++i) {
      const double here = mass(i);
      if (!(here > 0)) continue;
      shared.token = static_cast<int32_t>(i);
      before += here;
      if (before > goal) break;
    }
  }
  lanes.sync();
  return shared.token;
}

// Whether logits can be divided by it: its inverse must also be a finite number above 0.
TASC_HD inline bool divides(float temperature) {
  const float inverse = 1 / temperature;
  return inverse > 0 && inverse < INFINITY;
}

// exp((logit - max) / temperature): the distribution of a row before normalisation. NaN has no mass.
template <class T>
struct RowMass {
  const T* row;
  float max;
  float inverse_temperature;
  TASC_HD double operator()(int64_t i) const {
    const float x = to_float(row[i]);
    return x > -INFINITY ? expf((x - max) * inverse_temperature) : 0.0f;
  }
};

template <class T, class Lanes>
TASC_HD float row_max(const Lanes& lanes, const T* row, int64_t size, Workspace& shared) {
  lanes.sync();
  for (int s = lanes.index(); s < kSlices; s += lanes.count()) {
    float most = -INFINITY;
    for (int64_t i = slice_begin(s, size), end = slice_begin(s + 1, size); i < end; ++i) {
      const float x = to_float(row[i]);
      most = x > most ? x : most;
    }
    shared.maxima[s] = most;
  }
  lanes.sync();
  float most = -INFINITY;
  TASC_UNROLL(8)
  for (int s = 0; s < kSlices; ++s) most = shared.maxima[s] > most ? shared.maxima[s] : most;
  return most;
}

template <class Lanes>
TASC_HD void finish(const Lanes& lanes, int accepted, int32_t bonus, int n, int32_t* result) {
  if (lanes.index() != 0) return;
  result[0] = accepted;
  result[1] = bonus;
  for (int i = accepted < 0 ? 0 : accepted; i < n; ++i) result[2 + i] = -1;
}

template <class Lanes>
TASC_HD bool refuse_bad_tree(const Lanes& lanes, const Tree& tree, int32_t* result) {
  const int bad = first_bad_parent(tree.parents, tree.n);
  if (bad >= 0) finish(lanes, kBadTree, bad, tree.n, result);
  return bad >= 0;
}

// Drafts without probabilities: sample the target and follow the child with the same token.
// Row r is sampled with uniforms[r] in [0, 1); logits (n + 1, size).
template <class T, class Lanes>
TASC_HD void verify_sampled(const Lanes& lanes, const T* logits, int64_t size, const Tree& tree,
                            float inverse_temperature, const double* uniforms, Workspace& shared,
                            int32_t* result) {
  if (refuse_bad_tree(lanes, tree, result)) return;
  int at = -1, accepted = 0;
  while (true) {
    const T* row = logits + static_cast<int64_t>(at + 1) * size;
    const float max = row_max(lanes, row, size, shared);
    if (!(max > -INFINITY && max < INFINITY)) return finish(lanes, kBadRow, at + 1, tree.n, result);
    const RowMass<T> mass{row, max, inverse_temperature};
    const double total = sum_slices(lanes, size, mass, shared);
    const int32_t token = draw(lanes, size, mass, total, uniforms[at + 1], shared);
    const int next = tree.child(at, token);
    if (next < 0) return finish(lanes, accepted, token, tree.n, result);
    if (lanes.index() == 0) result[2 + accepted] = next;
    ++accepted;
    at = next;
  }
}

}  // namespace tasc
