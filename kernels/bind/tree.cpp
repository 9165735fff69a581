#include "tasc/tree.h"

#include <nanobind/stl/pair.h>

#include <stdexcept>
#include <string>

#include "bind.h"

namespace {

void check(const Input<int32_t>& parents) {
  if (parents.size() > static_cast<size_t>(tasc::kMaxNodes))
    throw std::invalid_argument("draft tree of " + std::to_string(parents.size()) +
                                " nodes: at most " + std::to_string(tasc::kMaxNodes) +
                                " fit in a step");
  const int bad = tasc::first_bad_parent(parents.data(), static_cast<int>(parents.size()));
  if (bad >= 0)
    throw std::invalid_argument("draft tree: node " + std::to_string(bad) + " has parent " +
                                std::to_string(parents.data()[bad]) +
                                "; a parent must be -1 or an earlier node");
}

}  // namespace

void bind_tree(nb::module_& m) {
  m.def(
      "ancestor_bits",
      [](const Input<int32_t>& parents) {
        check(parents);
        const int n = static_cast<int>(parents.size());
        const int words = tasc::words_for(n);
        std::vector<uint64_t> bits(static_cast<size_t>(n) * words);
        std::vector<int32_t> depths(n);
        tasc::ancestor_bits(parents.data(), n, words, bits.data(), depths.data());
        return std::pair(to_numpy(std::move(bits)), to_numpy(std::move(depths)));
      },
      nb::arg("parents").noconvert());

  m.def(
      "tree_inputs",
      [](const Input<int32_t>& parents) {
        // Row 0 and column 0 are the last accepted token, which every node follows.
        check(parents);
        const int n = static_cast<int>(parents.size());
        const size_t side = static_cast<size_t>(n) + 1;
        std::vector<uint8_t> mask(side * side, 0);
        std::vector<int64_t> positions(side, 0);
        mask[0] = 1;
        for (int i = 0; i < n; ++i) {
          const size_t row = static_cast<size_t>(i) + 1;
          const size_t up = static_cast<size_t>(parents.data()[i] + 1);
          for (size_t j = 0; j <= up; ++j) mask[row * side + j] = mask[up * side + j];
          mask[row * side + row] = 1;
          positions[row] = positions[up] + 1;
        }
        return std::pair(to_numpy(std::move(mask)), to_numpy(std::move(positions)));
      },
      nb::arg("parents").noconvert());

  m.def(
      "greedy_path",
      [](const Input<int32_t>& tokens, const Input<int32_t>& parents, const Input<int32_t>& best) {
        check(parents);
        const size_t n = parents.size();
        if (tokens.size() != n || best.size() != n + 1)
          throw std::invalid_argument("greedy_path: " + std::to_string(n) + " parents need " +
                                      std::to_string(n) + " tokens and " + std::to_string(n + 1) +
                                      " arg-max ids, got " + std::to_string(tokens.size()) +
                                      " and " + std::to_string(best.size()));
        std::vector<int32_t> path(n);
        path.resize(tasc::greedy_path(tokens.data(), parents.data(), best.data(),
                                      static_cast<int>(n), path.data()));
        return to_numpy(std::move(path));
      },
      nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(), nb::arg("best").noconvert());
}
