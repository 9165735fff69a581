#include "tasc/merge_search.h"

#include <nanobind/stl/string_view.h>

#include <string_view>
#include <vector>

#include "bind.h"

namespace {

nb::tuple to_tuple(const std::vector<int32_t>& ids) {
  nb::list list;
  for (const int32_t id : ids) list.append(id);
  return nb::tuple(list);
}

nb::dict to_dict(const tasc::MergeOutcome& outcome) {
  nb::list merges, aliases;
  for (const auto& m : outcome.merges) {
    merges.append(nb::make_tuple(to_tuple(m.ids), m.new_id, nb::bytes(m.text.data(), m.text.size()),
                                 m.frequency, m.inner, m.pcs, m.tokens, m.h2, m.h1));
  }
  for (const auto& a : outcome.aliases) {
    aliases.append(nb::make_tuple(to_tuple(a.ids), a.new_id, a.frequency, a.inner, a.after));
  }
  nb::dict result;
  result["merges"] = merges;
  result["aliases"] = aliases;
  result["tokens_before"] = outcome.tokens_before;
  result["h2_before"] = outcome.h2_before;
  result["h1_before"] = outcome.h1_before;
  result["rejected"] = outcome.rejected;
  result["refused"] = outcome.refused;
  return result;
}

// Both callbacks take the GIL back; what Python raises there ends the search.
tasc::Admit to_admit(const nb::object& admit) {
  if (admit.is_none()) return {};
  return [&admit](std::string_view text) {
    nb::gil_scoped_acquire gil;
    return nb::cast<bool>(admit(nb::bytes(text.data(), text.size())));
  };
}

tasc::Tick to_tick(const nb::object& tick) {
  return [&tick](int64_t accepted) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!tick.is_none()) tick(accepted);
  };
}

}  // namespace

void bind_merge_search(nb::module_& m) {
  m.def(
      "merge_search",
      [](const Input<int32_t>& tokens, const Input<int64_t>& offsets, const Input<int64_t>& weights,
         const Input<uint8_t>& strings, const Input<int64_t>& string_ends,
         const Input<int32_t>& special, const Input<uint8_t>& boundaries, int64_t budget, int n_max,
         double alpha, bool conditional, int64_t min_frequency, int64_t min_reward,
         const nb::object& admit, const nb::object& tick) {
        const tasc::MergeInput input{view(tokens),      view(offsets), view(weights),   view(strings),
                                     view(string_ends), view(special), view(boundaries)};
        const tasc::MergeOptions options{budget,      n_max,         alpha,
                                         conditional, min_frequency, min_reward};
        tasc::MergeOutcome outcome;
        {
          nb::gil_scoped_release nogil;
          outcome = tasc::merge_search(input, options, to_admit(admit), to_tick(tick));
        }
        return to_dict(outcome);
      },
      nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert(), nb::arg("weights").noconvert(),
      nb::arg("strings").noconvert(), nb::arg("string_ends").noconvert(),
      nb::arg("special").noconvert(), nb::arg("boundaries").noconvert(), nb::arg("budget"),
      nb::arg("n_max"), nb::arg("alpha"), nb::arg("conditional"), nb::arg("min_frequency"),
      nb::arg("min_reward"), nb::arg("admit").none(), nb::arg("tick").none());
}
