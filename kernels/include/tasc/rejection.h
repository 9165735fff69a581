// Multi-branch rejection sampling on a tree (Miao et al., SpecInfer, section 4.3; on a chain,
// Leviathan et al., algorithm 1). Shared by the C++ and the CUDA build, see verify.h.
#pragma once
#include "tasc/verify.h"

namespace tasc {

constexpr int32_t kBadDistribution = -3;  // a node p whose distribution row is missing: result[1] = p + 1

// A smaller mass is rounding error, and its normalised distribution means nothing.
constexpr double kNothing = 1e-9;

// The distributions that children were drawn from. distributions (rows, size); of[p + 1] is the row for the children
// of node p, -1 if they were chosen without randomness.
struct Proposals {
  const float* distributions;
  int rows;
  const int32_t* of;
  bool replacement;  // siblings drawn independently; else without replacement

  TASC_HD int first_bad_distribution(int n) const {
    for (int i = 0; i <= n; ++i)
      if (of[i] < -1 || of[i] >= rows) return i;
    return -1;
  }
};

// The distribution q_k of one child: a row divided by the mass that earlier siblings left, or all mass on one
// token. Tokens of earlier siblings need no exclusion, since their target mass is zero after rejection.
struct Proposal {
  const float* distribution;  // null: all mass on `token`
  int64_t token;
  double left;
  TASC_HD double operator()(int64_t i) const {
    if (distribution == nullptr) return i == token ? 1.0 : 0.0;
    const float q = distribution[i];
    return q > 0 ? q / left : 0.0;
  }
};

// The target's distribution at one node as children are rejected: first the row's own distribution, then
// the residuals, stored in scratch (size,).
template <class T>
struct Remaining {
  RowMass<T> row;
  double total;
  float* scratch;
  bool changed;
  TASC_HD double operator()(int64_t i) const { return (changed ? scratch[i] : row(i)) / total; }
};

template <class T>
struct Residual {  // max(p - q, 0)
  const Remaining<T>& p;
  const Proposal& q;
  TASC_HD double operator()(int64_t i) const {
    const double left = p(i) - q(i);
    return left > 0 ? left : 0;
  }
};

// Replaces p by the normalised residual. If nothing remains, p and q are equal except for rounding and
// p stays.
template <class T, class Lanes>
TASC_HD void turn_down(const Lanes& lanes, int64_t size, Remaining<T>& p, const Proposal& q,
                       Workspace& shared) {
  const Residual<T> residual{p, q};
  const double left = sum_slices(lanes, size, residual, shared);
  if (!(left > kNothing)) return;
  for (int s = lanes.index(); s < kSlices; s += lanes.count())
    for (int64_t i = slice_begin(s, size), end = slice_begin(s + 1, size); i < end; ++i)
      p.scratch[i] = static_cast<float>(residual(i));
  lanes.sync();
  p.changed = true;
  p.total = left;
}

// Tries the children of `at` in order; returns the accepted one, or -1 and the residual of p.
template <class T, class Lanes>
TASC_HD int try_children(const Lanes& lanes, int64_t size, const Tree& tree, int at,
                         const Proposals& proposals, const double* uniforms, Remaining<T>& p,
                         Workspace& shared) {
  const int row = proposals.of[at + 1];
  const float* distribution = row < 0 ? nullptr : proposals.distributions + row * size;
  double left = 1;  // of the mass of q, for siblings drawn without replacement
  bool drawn = false;
  for (int k = at + 1; k < tree.n; ++k) {
    if (tree.parents[k] != at) continue;
    drawn = true;
    const int32_t token = tree.tokens[k];
    const bool again = distribution != nullptr && !proposals.replacement && tree.child(at, token) != k;
    if (token < 0 || token >= size || again || !(left > kNothing)) continue;
    const Proposal q{distribution, token, left};
    const double proposed = q(token);
    if (!(proposed > 0)) continue;  // its own distribution cannot have drawn it
    if (uniforms[k] * proposed < p(token)) return k;
    turn_down(lanes, size, p, q, shared);
    if (distribution != nullptr && !proposals.replacement) left -= distribution[token];
  }
  if (distribution != nullptr && !drawn)  // the draw was not a token of the target
    turn_down(lanes, size, p, Proposal{distribution, 0, 1.0}, shared);
  return -1;
}

// uniforms[k] decides node k, uniforms[n] draws the bonus token, all in [0, 1).
// logits (n + 1, size); scratch (size,).
template <class T, class Lanes>
TASC_HD void verify_rejection(const Lanes& lanes, const T* logits, int64_t size, const Tree& tree,
                              const Proposals& proposals, float inverse_temperature,
                              const double* uniforms, float* scratch, Workspace& shared,
                              int32_t* result) {
  if (refuse_bad_tree(lanes, tree, result)) return;
  const int unknown = proposals.first_bad_distribution(tree.n);
  if (unknown >= 0) return finish(lanes, kBadDistribution, unknown, tree.n, result);
  int at = -1, accepted = 0;
  while (true) {
    const T* row = logits + static_cast<int64_t>(at + 1) * size;
    const float max = row_max(lanes, row, size, shared);
    if (!(max > -INFINITY && max < INFINITY)) return finish(lanes, kBadRow, at + 1, tree.n, result);
    const RowMass<T> mass{row, max, inverse_temperature};
    Remaining<T> p{mass, sum_slices(lanes, size, mass, shared), scratch, false};
    const int next = try_children(lanes, size, tree, at, proposals, uniforms, p, shared);
    if (next < 0) {
      const double total = sum_slices(lanes, size, p, shared);
      const int32_t bonus = draw(lanes, size, p, total, uniforms[tree.n], shared);
      return finish(lanes, accepted, bonus, tree.n, result);
    }
    if (lanes.index() == 0) result[2 + accepted] = next;
    ++accepted;
    at = next;
  }
}

}  // namespace tasc
