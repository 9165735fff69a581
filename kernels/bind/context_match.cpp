#include "tasc/context_match.h"

#include <nanobind/stl/tuple.h>

#include <tuple>
#include <utility>

#include "bind.h"

void bind_context_match(nb::module_& m) {
  nb::class_<tasc::LookupDrafter>(m, "LookupDrafter")
      .def(nb::init<int, int, int32_t>(), nb::arg("n_max"), nb::arg("chain"), nb::arg("end"))
      .def(
          "start",
          [](tasc::LookupDrafter& self, const Input<int32_t>& prompt) { self.start(view(prompt)); },
          nb::arg("prompt").noconvert())
      .def(
          "observe",
          [](tasc::LookupDrafter& self, const Input<int32_t>& tokens) {
            for (const int32_t token : view(tokens)) self.append(token);
          },
          nb::arg("tokens").noconvert())
      .def(
          "draft",
          [](const tasc::LookupDrafter& self, int budget) {
            tasc::DraftTree tree = self.draft(budget);
            return std::tuple(to_numpy(std::move(tree.tokens)), to_numpy(std::move(tree.parents)),
                              to_numpy(std::move(tree.probabilities)));
          },
          nb::arg("budget"));

  nb::class_<tasc::NgramTrie>(m, "NgramTrie")
      .def(nb::init<int, int>(), nb::arg("n"), nb::arg("prefix"))
      .def(
          "build", [](tasc::NgramTrie& self, const Input<int32_t>& context) { self.build(view(context)); },
          nb::arg("context").noconvert())
      .def(
          "draft",
          [](const tasc::NgramTrie& self, const Input<int32_t>& sequence, int num_draft, int budget) {
            tasc::DraftTree tree = self.draft(view(sequence), num_draft, budget);
            return std::tuple(to_numpy(std::move(tree.tokens)), to_numpy(std::move(tree.parents)),
                              to_numpy(std::move(tree.probabilities)));
          },
          nb::arg("sequence").noconvert(), nb::arg("num_draft"), nb::arg("budget"))
      .def("__len__", &tasc::NgramTrie::nodes);
}
