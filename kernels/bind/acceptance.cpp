#include "tasc/acceptance.h"

#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "bind.h"
#include "tasc/tree.h"

namespace {

using Claims = std::optional<Input<float>>;

tasc::DraftView draft(const Input<int32_t>& tokens, const Input<int32_t>& parents,
                      const Claims& probabilities) {
  const size_t n = parents.size();
  if (tokens.size() != n || (probabilities && probabilities->size() != n))
    throw std::invalid_argument("a draft has as many tokens, parents and probabilities, got " +
                                std::to_string(tokens.size()) + " tokens and " + std::to_string(n) +
                                " parents");
  if (tasc::first_bad_parent(parents.data(), static_cast<int>(n)) >= 0)
    throw std::invalid_argument("draft tree: a parent must be -1 or an earlier node");
  return {view(tokens), view(parents),
          probabilities ? view(*probabilities) : std::span<const float>()};
}

}  // namespace

void bind_acceptance(nb::module_& m) {
  nb::class_<tasc::Acceptance>(m, "Acceptance")
      .def(nb::init<>())
      .def(
          "estimate",
          [](const tasc::Acceptance& self, const Input<int32_t>& tokens,
             const Input<int32_t>& parents, const Claims& probabilities) {
            return to_numpy(self.estimate(draft(tokens, parents, probabilities)));
          },
          nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(),
          nb::arg("probabilities").noconvert().none())
      .def(
          "worthwhile",
          [](const tasc::Acceptance& self, const Input<int32_t>& tokens,
             const Input<int32_t>& parents, const Claims& probabilities,
             const Input<double>& extra, double pace, double per_node, double limit) {
            return to_numpy(self.worthwhile(draft(tokens, parents, probabilities),
                                            {view(extra), pace, per_node, limit}));
          },
          nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(),
          nb::arg("probabilities").noconvert().none(), nb::arg("extra").noconvert(), nb::arg("pace"),
          nb::arg("per_node"), nb::arg("limit"))
      .def(
          "learn",
          [](tasc::Acceptance& self, const Input<int32_t>& tokens, const Input<int32_t>& parents,
             const Claims& probabilities, const Input<int32_t>& committed) {
            self.learn(draft(tokens, parents, probabilities), view(committed));
          },
          nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(),
          nb::arg("probabilities").noconvert().none(), nb::arg("committed").noconvert());
}
