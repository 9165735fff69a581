#include "tasc/recycling.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "rows.h"
#include "tasc/argmax.h"
#include "tasc/top_softmax.h"

namespace {

using Successors = std::pair<Output<int32_t>, Output<float>>;

// The k likeliest tokens of each row and their probabilities, (rows * k,) each: see top_softmax.h.
template <class Rows>
Successors top_softmax(const Rows& rows, bool half, int k, float scale) {
  const auto size = static_cast<int64_t>(rows.shape(1));
  if (k < 1 || k > tasc::kMaxTop || size > INT32_MAX)
    throw std::invalid_argument("the likeliest tokens of a row are 1 to " + std::to_string(tasc::kMaxTop) + ", got " +
                                std::to_string(k));
  std::vector<int32_t> ids(rows.shape(0) * static_cast<size_t>(k));
  std::vector<float> probabilities(ids.size());
  {
    const nb::gil_scoped_release release;
    on_rows(rows, half, [&](const auto* logits) {
      for (size_t i = 0; i < rows.shape(0); ++i)
        tasc::top_softmax(logits + static_cast<int64_t>(i) * size, size, k, scale, ids.data() + i * k,
                          probabilities.data() + i * k);
    });
  }
  return {to_numpy(std::move(ids)), to_numpy(std::move(probabilities))};
}

tasc::RecentTokens recent_of(const Input<int32_t>& tokens) {
  tasc::RecentTokens recent;
  for (const int32_t token : view(tokens)) recent.append(token);
  return recent;
}

}  // namespace

void bind_recycling(nb::module_& m) {
  m.def("top_softmax", &top_softmax<Rows32>, nb::arg("rows").noconvert(), nb::arg("half"), nb::arg("k"),
        nb::arg("scale"));
  m.def("top_softmax", &top_softmax<Rows16>, nb::arg("rows").noconvert(), nb::arg("half"), nb::arg("k"),
        nb::arg("scale"));
  nb::class_<tasc::RecycledLogits>(m, "RecycledLogits")
      .def(nb::init<size_t, double>(), nb::arg("rows"), nb::arg("renewal"))
      .def(
          "add_tree",
          [](tasc::RecycledLogits& self, const Input<int32_t>& recent, const Input<int32_t>& tokens,
             const Input<int32_t>& parents, const Input<int32_t>& successors, const Input<float>& probabilities) {
            self.add_tree(recent_of(recent), view(tokens), view(parents), view(successors), view(probabilities));
          },
          nb::arg("recent").noconvert(), nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(),
          nb::arg("successors").noconvert(), nb::arg("probabilities").noconvert())
      .def(
          "row",
          [](const tasc::RecycledLogits& self, const Input<int32_t>& recent) {
            std::vector<std::pair<int32_t, float>> found;
            const auto length = static_cast<int>(recent.size());
            if (length < 1 || length > tasc::RecentTokens::kLongest) return found;
            if (const auto* row = self.find(recent_of(recent), length))
              for (size_t i = 0; i < row->tokens.size() && row->tokens[i] >= 0; ++i)
                found.emplace_back(row->tokens[i], row->probabilities[i]);
            return found;
          },
          nb::arg("recent").noconvert())
      .def("__len__", &tasc::RecycledLogits::rows)
      .def("check_integrity", [](const tasc::RecycledLogits& self) {
        const char* condition = self.check_integrity();
        return condition ? std::optional<std::string>(condition) : std::nullopt;
      });
}
