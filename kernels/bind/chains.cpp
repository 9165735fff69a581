#include "tasc/chains.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bind.h"
#include "tasc/context_match.h"
#include "tasc/suffix_draft.h"

namespace {

template <class Drafter>
void bind_kind(nb::module_& m) {
  m.def(
      "observe_chains",
      [](const std::vector<Drafter*>& drafters, const Input<int32_t>& tokens, const Input<int64_t>& offsets) {
        tasc::observe_chains<Drafter>(drafters, view(tokens), view(offsets));
      },
      nb::arg("drafters"), nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert());
  m.def(
      "draft_chains",
      [](const std::vector<Drafter*>& drafters, const Input<int32_t>& budgets, double least) {
        tasc::Chains chains = tasc::draft_chains<Drafter>(drafters, view(budgets), least);
        return std::pair(to_numpy(std::move(chains.tokens)), to_numpy(std::move(chains.offsets)));
      },
      nb::arg("drafters"), nb::arg("budgets").noconvert(), nb::arg("least"));
}

}  // namespace

void bind_chains(nb::module_& m) {
  bind_kind<tasc::NgramDrafter>(m);
  bind_kind<tasc::SuffixDrafter>(m);
  bind_kind<tasc::LookupDrafter>(m);
}
