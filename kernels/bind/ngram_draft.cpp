#include "tasc/ngram_draft.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bind.h"
#include "tasc/ngram_build.h"

namespace {

template <class T>
std::optional<std::string> broken(const T& self) {
  const char* condition = self.check_integrity();
  return condition ? std::optional<std::string>(condition) : std::nullopt;
}

void bind_index(nb::module_& m) {
  nb::class_<tasc::NgramIndex>(m, "NgramIndex")
      .def(
          "__init__",
          [](tasc::NgramIndex* self, const Input<int32_t>& tokens, const Input<int64_t>& offsets,
             int32_t end, int n_max, double discount, double strength, int64_t min_count, bool mark) {
            nb::gil_scoped_release nogil;
            new (self) tasc::NgramIndex(view(tokens), view(offsets),
                                        {n_max, discount, strength, min_count, end, mark});
          },
          nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert(), nb::arg("end"),
          nb::arg("n_max"), nb::arg("discount"), nb::arg("strength"), nb::arg("min_count"),
          nb::arg("mark"))
      .def(
          "__init__",
          [](tasc::NgramIndex* self, const Input<uint64_t>& block) {
            nb::gil_scoped_release nogil;
            new (self) tasc::NgramIndex(view(block));
          },
          nb::arg("block").noconvert(), nb::keep_alive<1, 2>())
      .def_prop_ro("n_max", &tasc::NgramIndex::n_max)
      .def_prop_ro("end", [](const tasc::NgramIndex& self) { return self.options().end; })
      .def_prop_ro("discount", [](const tasc::NgramIndex& self) { return self.options().discount; })
      .def_prop_ro("strength", [](const tasc::NgramIndex& self) { return self.options().strength; })
      .def_prop_ro("min_count", [](const tasc::NgramIndex& self) { return self.options().min_count; })
      .def_prop_ro("mark", [](const tasc::NgramIndex& self) { return self.options().mark; })
      .def_prop_ro("tokens", &tasc::NgramIndex::tokens)
      .def_prop_ro("contexts", &tasc::NgramIndex::contexts)
      .def_prop_ro("entries", &tasc::NgramIndex::entries)
      .def_prop_ro("vocabulary", &tasc::NgramIndex::vocabulary)
      .def("text",
           [](const tasc::NgramIndex& self) {
             std::vector<int32_t> text(self.tokens());
             for (size_t i = 0; i < text.size(); ++i) text[i] = self.text(static_cast<uint32_t>(i));
             return to_numpy(std::move(text));
           })
      .def_prop_ro(
          "block",
          [](const tasc::NgramIndex& self) {
            return nb::ndarray<nb::numpy, const uint64_t, nb::ndim<1>>(self.block().data(),
                                                                      {self.block().size()}, nb::find(&self));
          })
      .def("check_integrity", &broken<tasc::NgramIndex>);
}

std::tuple<nb::object, nb::object, nb::object> arrays(tasc::NgramPiece piece) {
  return {nb::cast(to_numpy(std::move(piece.entries))), nb::cast(to_numpy(std::move(piece.nodes))),
          nb::cast(to_numpy(std::move(piece.made)))};
}

void bind_builder(nb::module_& m) {
  m.def(
      "pack_text",
      [](const Input<int32_t>& tokens, const Input<int64_t>& offsets, int32_t end, bool mark) {
        return to_numpy(tasc::pack_text(view(tokens), view(offsets), {.end = end, .mark = mark}));
      },
      nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert(), nb::arg("end"), nb::arg("mark"));
  nb::class_<tasc::NgramBuilder>(m, "NgramBuilder")
      .def(
          "__init__",
          [](tasc::NgramBuilder* self, const Input<uint8_t>& text, int32_t end, int n_max, double discount,
             double strength, int64_t min_count, bool mark) {
            nb::gil_scoped_release nogil;
            new (self) tasc::NgramBuilder(view(text), {n_max, discount, strength, min_count, end, mark});
          },
          nb::arg("text").noconvert(), nb::arg("end"), nb::arg("n_max"), nb::arg("discount"), nb::arg("strength"),
          nb::arg("min_count"), nb::arg("mark"), nb::keep_alive<1, 2>())
      .def_prop_ro("vocabulary", &tasc::NgramBuilder::vocabulary)
      .def_prop_ro("position_bytes", &tasc::NgramBuilder::position_bytes)
      .def("borders", &tasc::NgramBuilder::borders, nb::arg("positions"))
      .def("root", [](const tasc::NgramBuilder& self) { return arrays(self.root()); })
      .def(
          "piece",
          [](const tasc::NgramBuilder& self, int32_t begin, int32_t end) {
            tasc::NgramPiece piece;
            {
              nb::gil_scoped_release nogil;
              piece = self.piece(begin, end);
            }
            return arrays(std::move(piece));
          },
          nb::arg("begin"), nb::arg("end"))
      .def("starts", [](const tasc::NgramBuilder& self,
                        const Input<uint32_t>& made) { return to_numpy(self.starts(view(made))); },
           nb::arg("made").noconvert())
      .def("header", [](const tasc::NgramBuilder& self, uint64_t contexts,
                        uint64_t entries) { return to_numpy(self.header(contexts, entries)); },
           nb::arg("contexts"), nb::arg("entries"));
  m.def(
      "place_entries",
      [](const nb::ndarray<nb::numpy, uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& entries,
         const Input<uint32_t>& starts, const Input<uint32_t>& before) {
        nb::gil_scoped_release nogil;
        tasc::place_entries({entries.data(), entries.size()}, view(starts), view(before));
      },
      nb::arg("entries").noconvert(), nb::arg("starts").noconvert(), nb::arg("before").noconvert());
}

void bind_table(nb::module_& m) {
  nb::class_<tasc::NgramTable>(m, "NgramTable")
      .def(nb::init<int>(), nb::arg("n_max"))
      .def("clear", &tasc::NgramTable::clear)
      .def(
          "add_output",
          [](tasc::NgramTable& self, const Input<int32_t>& tokens) {
            self.begin();
            self.append(-2);
            for (const int32_t token : view(tokens)) self.append(token);
          },
          nb::arg("tokens").noconvert())
      .def("__len__", &tasc::NgramTable::nodes)
      .def("check_integrity", &broken<tasc::NgramTable>);
}

void bind_drafter(nb::module_& m) {
  nb::class_<tasc::SourceWeights>(m, "SourceWeights")
      .def(nb::init<size_t, bool, bool, double, double, bool>(), nb::arg("corpora"), nb::arg("memory"), nb::arg("prompt"),
           nb::arg("lambda_"), nb::arg("gain"), nb::arg("match"))
      .def("weight", &tasc::SourceWeights::weight, nb::arg("source"), nb::arg("bucket"))
      .def_static("bucket", &tasc::SourceWeights::bucket, nb::arg("length"));
  nb::class_<tasc::NgramDrafter>(m, "NgramDrafter")
      .def(
          "__init__",
          [](tasc::NgramDrafter* self, std::vector<const tasc::NgramIndex*> corpora,
             const tasc::NgramTable* memory, tasc::SourceWeights* weights, bool prompt, int n_max, double lambda,
             double gain, double discount, int width, double min_probability, bool match, bool fallback, int32_t end) {
            new (self) tasc::NgramDrafter(std::move(corpora), memory, weights, prompt, n_max,
                                          {lambda, gain, discount, width, min_probability, match, fallback, end});
          },
          nb::arg("corpora"), nb::arg("memory").none(), nb::arg("weights").none(), nb::arg("prompt"), nb::arg("n_max"),
          nb::arg("lambda_"), nb::arg("gain"), nb::arg("discount"), nb::arg("width"),
          nb::arg("min_probability"), nb::arg("match"), nb::arg("fallback"), nb::arg("end"), nb::keep_alive<1, 2>(),
          nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
      .def("recycle", &tasc::NgramDrafter::recycle, nb::arg("logits"), nb::keep_alive<1, 2>())
      .def(
          "guess",
          [](tasc::NgramDrafter& self, const Input<int32_t>& tokens, const Input<int32_t>& parents,
             const Input<float>& probabilities) { self.guess(view(tokens), view(parents), view(probabilities)); },
          nb::arg("tokens").noconvert(), nb::arg("parents").noconvert(), nb::arg("probabilities").noconvert())
      .def(
          "start",
          [](tasc::NgramDrafter& self, const Input<int32_t>& prompt, bool mark) {
            self.start(view(prompt), mark);
          },
          nb::arg("prompt").noconvert(), nb::arg("mark"))
      .def(
          "observe",
          [](tasc::NgramDrafter& self, const Input<int32_t>& tokens) {
            for (const int32_t token : view(tokens)) self.append(token);
          },
          nb::arg("tokens").noconvert())
      .def("defer_updates", &tasc::NgramDrafter::defer_updates)
      .def("apply_updates", &tasc::NgramDrafter::apply_updates)
      .def(
          "draft",
          [](tasc::NgramDrafter& self, int budget) {
            tasc::DraftTree tree = self.draft(budget);
            return std::tuple(to_numpy(std::move(tree.tokens)), to_numpy(std::move(tree.parents)),
                              to_numpy(std::move(tree.probabilities)));
          },
          nb::arg("budget"))
      .def("distribution",
           [](tasc::NgramDrafter& self) {
             std::vector<std::pair<int32_t, double>> distribution;
             for (const tasc::Proposal& p : self.distribution()) distribution.emplace_back(p.token, p.probability);
             return distribution;
           })
      .def("sources", [](const tasc::NgramDrafter& self) { return to_numpy(std::vector<uint8_t>(self.sources())); })
      .def("take_output", [](tasc::NgramDrafter& self) { return to_numpy(self.take_output()); })
      .def("check_integrity", [](const tasc::NgramDrafter& self) { return broken(self.local()); });
}

}  // namespace

void bind_ngram_draft(nb::module_& m) {
  bind_index(m);
  bind_builder(m);
  bind_table(m);
  bind_drafter(m);
}
