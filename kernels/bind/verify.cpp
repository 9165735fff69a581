#include "tasc/argmax.h"
#include "tasc/compact.h"
#include "tasc/rejection.h"

#include <stdexcept>
#include <string>

#include "rows.h"

namespace {

// The tree, checked against the number of rows and the limit; its parents are checked by the walk.
tasc::Tree tree_of(const Input<int32_t>& tokens, const Input<int32_t>& parents, size_t rows,
                   size_t size) {
  const size_t n = parents.size();
  if (n > static_cast<size_t>(tasc::kMaxNodes))
    throw std::invalid_argument("draft tree of " + std::to_string(n) + " nodes: at most " +
                                std::to_string(tasc::kMaxNodes) + " fit in a step");
  if (tokens.size() != n || rows != n + 1 || size == 0 || size > INT32_MAX)
    throw std::invalid_argument("draft tree: " + std::to_string(n) + " parents need " +
                                std::to_string(n) + " tokens and " + std::to_string(n + 1) +
                                " rows of logits, got " + std::to_string(tokens.size()) + " and " +
                                std::to_string(rows) + " rows of " + std::to_string(size));
  return {tokens.data(), parents.data(), static_cast<int>(n)};
}

// Throws what a refused verification says.
void check(const std::vector<int32_t>& result, const tasc::Tree& tree) {
  if (result[0] >= 0) return;
  const std::string at = std::to_string(result[1]);
  if (result[0] == tasc::kBadTree)
    throw std::invalid_argument("draft tree: node " + at + " has parent " +
                                std::to_string(tree.parents[result[1]]) +
                                "; a parent must be -1 or an earlier node");
  if (result[0] == tasc::kBadRow)
    throw std::invalid_argument("row " + at + " of the logits has no finite maximum: the model " +
                                "or a logits processor leaves no token to choose");
  throw std::invalid_argument("draft tree: the children of node " +
                              std::to_string(result[1] - 1) + " name a distribution that is not there");
}

template <class Rows, class Verify>
Output<int32_t> verified(const Rows& rows, bool half, const tasc::Tree& tree, const Verify& verify) {
  std::vector<int32_t> result(static_cast<size_t>(tree.n) + 2);
  {
    const nb::gil_scoped_release release;
    on_rows(rows, half, [&](const auto* logits) { verify(logits, result.data()); });
  }
  check(result, tree);
  return to_numpy(std::move(result));
}

void check_uniforms(const Input<double>& uniforms, const tasc::Tree& tree, float temperature) {
  if (uniforms.size() != static_cast<size_t>(tree.n) + 1)
    throw std::invalid_argument("a draft of " + std::to_string(tree.n) + " nodes needs " +
                                std::to_string(tree.n + 1) + " uniform numbers, got " +
                                std::to_string(uniforms.size()));
  if (!tasc::divides(temperature))
    throw std::invalid_argument("the temperature must be above 0, and finite as its inverse is, got " +
                                std::to_string(temperature));
}

template <class Rows>
Output<int32_t> greedy(const Rows& rows, bool half, const Input<int32_t>& tokens,
                       const Input<int32_t>& parents) {
  const auto size = static_cast<int64_t>(rows.shape(1));
  const tasc::Tree tree = tree_of(tokens, parents, rows.shape(0), rows.shape(1));
  return verified(rows, half, tree, [&](const auto* logits, int32_t* result) {
    tasc::verify_greedy(logits, size, tree, result);
  });
}

template <class Rows>
Output<int32_t> sampled(const Rows& rows, bool half, const Input<int32_t>& tokens,
                        const Input<int32_t>& parents, float temperature,
                        const Input<double>& uniforms) {
  const auto size = static_cast<int64_t>(rows.shape(1));
  const tasc::Tree tree = tree_of(tokens, parents, rows.shape(0), rows.shape(1));
  check_uniforms(uniforms, tree, temperature);
  return verified(rows, half, tree, [&](const auto* logits, int32_t* result) {
    tasc::Workspace work;
    tasc::verify_sampled(tasc::OneLane{}, logits, size, tree, 1 / temperature, uniforms.data(),
                         work, result);
  });
}

template <class Rows>
Output<int32_t> rejection(const Rows& rows, bool half, const Input<int32_t>& tokens,
                          const Input<int32_t>& parents, const Rows32& distributions,
                          const Input<int32_t>& distribution_of, bool replacement, float temperature,
                          const Input<double>& uniforms) {
  const auto size = static_cast<int64_t>(rows.shape(1));
  const tasc::Tree tree = tree_of(tokens, parents, rows.shape(0), rows.shape(1));
  check_uniforms(uniforms, tree, temperature);
  if (distribution_of.size() != tokens.size() + 1 || distributions.shape(1) != rows.shape(1))
    throw std::invalid_argument("the distributions of a draft must be as wide as the logits, " +
                                std::to_string(size) + ", and be named for each node and the " +
                                "last token; got width " + std::to_string(distributions.shape(1)) + " and " +
                                std::to_string(distribution_of.size()) + " names");
  const tasc::Proposals proposals{distributions.data(), static_cast<int>(distributions.shape(0)), distribution_of.data(),
                                  replacement};
  return verified(rows, half, tree, [&](const auto* logits, int32_t* result) {
    tasc::Workspace work;
    std::vector<float> scratch(static_cast<size_t>(size));
    tasc::verify_rejection(tasc::OneLane{}, logits, size, tree, proposals, 1 / temperature,
                           uniforms.data(), scratch.data(), work, result);
  });
}

// The k best ids of each of the rows that `of` names, (of.size() * k,), see top in argmax.h.
template <class Rows>
Output<int32_t> top_ids(const Rows& rows, bool half, const Input<int64_t>& of, int k) {
  const auto size = static_cast<int64_t>(rows.shape(1));
  if (k < 1 || k > tasc::kMaxTop || size > INT32_MAX)
    throw std::invalid_argument("the best of a row are 1 to " + std::to_string(tasc::kMaxTop) +
                                ", got " + std::to_string(k));
  for (const int64_t row : view(of))
    if (row < 0 || row >= static_cast<int64_t>(rows.shape(0)))
      throw std::invalid_argument("row " + std::to_string(row) + " of " +
                                  std::to_string(rows.shape(0)) + " is not there");
  std::vector<int32_t> ids(of.size() * static_cast<size_t>(k));
  {
    const nb::gil_scoped_release release;
    on_rows(rows, half, [&](const auto* logits) {
      for (size_t i = 0; i < of.size(); ++i)
        tasc::top(logits + of.data()[i] * size, size, k, ids.data() + i * k);
    });
  }
  return to_numpy(std::move(ids));
}

struct Wide {
  uint64_t words[4];
};

// data (outer, rows, heads, positions, bytes of a position), changed in place; moves (m, 3).
void compact(nb::ndarray<uint8_t, nb::ndim<5>, nb::c_contig, nb::device::cpu> data,
             nb::ndarray<const int32_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu> moves) {
  const auto rows = static_cast<int64_t>(data.shape(1)), heads = static_cast<int64_t>(data.shape(2));
  const auto positions = static_cast<int64_t>(data.shape(3));
  const auto size = static_cast<int64_t>(data.shape(4));
  const auto count = static_cast<int>(moves.shape(0));
  const auto* listed = reinterpret_cast<const tasc::Move*>(moves.data());
  const int bad = tasc::first_bad_move(listed, count, rows, positions);
  if (bad >= 0)
    throw std::invalid_argument(
        "cannot move position " + std::to_string(listed[bad].from) + " to " +
        std::to_string(listed[bad].to) + " in row " + std::to_string(listed[bad].row) + " of " +
        std::to_string(rows) + " rows of " + std::to_string(positions) +
        " positions: moves go down, rise within their row, and stay inside");
  const nb::gil_scoped_release release;
  const auto blocks = static_cast<int64_t>(data.shape(0)) * rows * heads;
  const auto move = [&](auto* words, int64_t in_position) {
    for (int64_t block = 0; block < blocks; ++block)
      tasc::compact(tasc::OneLane{}, words + block * positions * in_position, in_position,
                    block / heads % rows, listed, count);
  };
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  if ((address | static_cast<uint64_t>(size)) % sizeof(Wide) == 0)
    move(reinterpret_cast<Wide*>(data.data()), size / static_cast<int64_t>(sizeof(Wide)));
  else
    move(data.data(), size);
}

template <class Rows>
void bind_rows(nb::module_& m) {
  m.def("top_ids", &top_ids<Rows>, nb::arg("rows").noconvert(), nb::arg("half"),
        nb::arg("of").noconvert(), nb::arg("k"));
  m.def("verify_greedy", &greedy<Rows>, nb::arg("rows").noconvert(), nb::arg("half"),
        nb::arg("tokens").noconvert(), nb::arg("parents").noconvert());
  m.def("verify_sampled", &sampled<Rows>, nb::arg("rows").noconvert(), nb::arg("half"),
        nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(), nb::arg("temperature"),
        nb::arg("uniforms").noconvert());
  m.def("verify_rejection", &rejection<Rows>, nb::arg("rows").noconvert(), nb::arg("half"),
        nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(), nb::arg("distributions").noconvert(),
        nb::arg("distribution_of").noconvert(), nb::arg("replacement"), nb::arg("temperature"),
        nb::arg("uniforms").noconvert());
}

}  // namespace

void bind_verify(nb::module_& m) {
  bind_rows<Rows32>(m);
  bind_rows<Rows16>(m);
  m.def("compact", &compact, nb::arg("data").noconvert(), nb::arg("moves").noconvert());
}
