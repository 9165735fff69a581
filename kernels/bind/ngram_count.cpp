#include "tasc/ngram_count.h"

#include <nanobind/stl/pair.h>

#include <utility>

#include "bind.h"

void bind_ngram_count(nb::module_& m) {
  m.def(
      "count_ngrams",
      [](const Input<int32_t>& tokens, const Input<int64_t>& offsets, int n) {
        tasc::NgramCounts counts;
        {
          nb::gil_scoped_release nogil;
          counts = tasc::count_ngrams(view(tokens), view(offsets), n);
        }
        return std::pair(to_numpy(std::move(counts.ids)), to_numpy(std::move(counts.counts)));
      },
      nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert(), nb::arg("n"));
}
