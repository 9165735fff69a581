#include "tasc/chains.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bind.h"
#include "tasc/context_match.h"
#include "tasc/suffix_draft.h"

namespace {

template <class Drafter>
void bind_kind(nb::module_& m) {
  m.def(
      "step_chains",
      [](const std::vector<Drafter*>& drafters, const std::vector<tasc::Tokens>& tokens, const tasc::Tokens& budgets,
         double least, tasc::ThreadPool* pool) {
        return tasc::step_chains<Drafter>(drafters, tokens, budgets, least, pool);
      },
      nb::arg("drafters"), nb::arg("tokens"), nb::arg("budgets"), nb::arg("least"), nb::arg("pool").none());
}

// The last tokens, no more than most, of the first lengths[i] in row rows[i].
nb::list sequence_tails(const nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>& tokens,
                        const std::vector<size_t>& rows, const std::vector<size_t>& lengths, size_t most) {
  if (rows.size() != lengths.size()) throw std::invalid_argument("each row needs a length of its own");
  nb::list tails;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= tokens.shape(0) || lengths[i] > tokens.shape(1))
      throw std::invalid_argument("a sequence must lie within its row of tokens");
    const size_t size = std::min(most, lengths[i]);
    const int32_t* end = tokens.data() + rows[i] * tokens.shape(1) + lengths[i];
    tails.append(nb::bytes(end - size, size * sizeof *end));
  }
  return tails;
}

}  // namespace

void bind_chains(nb::module_& m) {
  m.def("sequence_tails", &sequence_tails, nb::arg("tokens").noconvert(), nb::arg("rows"), nb::arg("lengths"),
        nb::arg("most"));
  nb::class_<tasc::ThreadPool>(m, "ThreadPool")
      .def("__init__",
           [](tasc::ThreadPool* pool, size_t size, int64_t spin) {
             new (pool) tasc::ThreadPool(size, std::chrono::microseconds(spin));
           },
           nb::arg("size"), nb::arg("spin") = 0);
  bind_kind<tasc::NgramDrafter>(m);
  bind_kind<tasc::SuffixDrafter>(m);
  bind_kind<tasc::LookupDrafter>(m);
}
