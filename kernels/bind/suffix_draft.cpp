#include "tasc/suffix_draft.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bind.h"

void bind_suffix_draft(nb::module_& m) {
  nb::class_<tasc::SuffixArray>(m, "SuffixArray")
      .def(
          "__init__",
          [](tasc::SuffixArray* self, const Input<int32_t>& tokens, const Input<int64_t>& offsets, int32_t end) {
            nb::gil_scoped_release nogil;
            new (self) tasc::SuffixArray(view(tokens), view(offsets), end);
          },
          nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert(), nb::arg("end"))
      .def_prop_ro("tokens", &tasc::SuffixArray::tokens)
      .def("check_integrity", [](const tasc::SuffixArray& self) {
        const char* broken = self.check_integrity();
        return broken ? std::optional<std::string>(broken) : std::nullopt;
      });

  nb::class_<tasc::SuffixDrafter>(m, "SuffixDrafter")
      .def(nb::init<const tasc::SuffixArray&, int, double, int, int32_t>(), nb::arg("corpus"),
           nb::arg("longest"), nb::arg("min_probability"), nb::arg("width"), nb::arg("end"), nb::keep_alive<1, 2>())
      .def(
          "start",
          [](tasc::SuffixDrafter& self, const Input<int32_t>& prompt) { self.start(view(prompt)); },
          nb::arg("prompt").noconvert())
      .def(
          "observe",
          [](tasc::SuffixDrafter& self, const Input<int32_t>& tokens) {
            for (const int32_t token : view(tokens)) self.append(token);
          },
          nb::arg("tokens").noconvert())
      .def(
          "draft",
          [](const tasc::SuffixDrafter& self, int budget) {
            tasc::DraftTree tree = self.draft(budget);
            return std::tuple(to_numpy(std::move(tree.tokens)), to_numpy(std::move(tree.parents)),
                              to_numpy(std::move(tree.probabilities)));
          },
          nb::arg("budget"));
}
