#include "tasc/ngram_model.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>

#include "bind.h"

void bind_ngram_model(nb::module_& m) {
  nb::class_<tasc::NgramIndex>(m, "NgramIndex")
      .def(
          "__init__",
          [](tasc::NgramIndex* self, const Input<int32_t>& tokens, const Input<int64_t>& offsets,
             const Input<int64_t>& weights, int n_max, int64_t min_count) {
            nb::gil_scoped_release nogil;
            new (self) tasc::NgramIndex(view(tokens), view(offsets), view(weights), n_max, min_count);
          },
          nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert(),
          nb::arg("weights").noconvert(), nb::arg("n_max"), nb::arg("min_count"))
      .def_prop_ro("n_max", &tasc::NgramIndex::n_max)
      .def_prop_ro("tokens", &tasc::NgramIndex::tokens)
      .def_prop_ro("contexts", &tasc::NgramIndex::contexts)
      .def_prop_ro("bytes", &tasc::NgramIndex::bytes)
      .def("check_integrity", [](const tasc::NgramIndex& self) -> std::optional<std::string> {
        const char* broken = self.check_integrity();
        return broken ? std::optional<std::string>(broken) : std::nullopt;
      });

  nb::class_<tasc::LocalTable>(m, "LocalTable")
      .def(nb::init<int>(), nb::arg("n_max"))
      .def("clear", &tasc::LocalTable::clear)
      .def(
          "extend",
          [](tasc::LocalTable& self, const Input<int32_t>& tokens) {
            for (const int32_t token : view(tokens)) self.append(token);
          },
          nb::arg("tokens").noconvert())
      .def("__len__", [](const tasc::LocalTable& self) { return self.sequence().size(); });

  m.def(
      "mixture",
      [](const tasc::NgramIndex& corpus, const tasc::LocalTable& local,
         const Input<int32_t>& context, double lambda, size_t limit) {
        std::vector<std::pair<int32_t, double>> law;
        tasc::mixture(corpus, local, view(context), lambda, limit, law);
        return law;
      },
      nb::arg("corpus"), nb::arg("local"), nb::arg("context").noconvert(), nb::arg("lambda_"),
      nb::arg("limit"));

  m.def(
      "draft_tree",
      [](const tasc::NgramIndex& corpus, const tasc::LocalTable& local, double lambda, int budget,
         int width, double min_probability, int32_t end) {
        tasc::DraftTree tree =
            tasc::draft_tree(corpus, local, {lambda, budget, width, min_probability, end});
        return std::tuple(to_numpy(std::move(tree.tokens)), to_numpy(std::move(tree.parents)),
                          to_numpy(std::move(tree.probabilities)));
      },
      nb::arg("corpus"), nb::arg("local"), nb::arg("lambda_"), nb::arg("budget"), nb::arg("width"),
      nb::arg("min_probability"), nb::arg("end"));
}
