#include "tasc/ngram_count.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bind.h"
#include "tasc/word_count.h"

namespace {

using Paths = std::vector<std::string>;

void write_counts(const Input<int32_t>& tokens, const Input<int64_t>& offsets,
                  const Input<int64_t>& weights, const std::string& path) {
  nb::gil_scoped_release nogil;
  tasc::write_counts(view(tokens), view(offsets), view(weights), path);
}

nb::tuple merge_runs(const Paths& paths, size_t top) {
  tasc::Counted found;
  {
    nb::gil_scoped_release nogil;
    found = tasc::merge_runs(paths, top);
  }
  nb::list spectra;
  for (tasc::Spectrum& s : found.spectra) {
    spectra.append(nb::make_tuple(to_numpy(std::move(s.counts)), to_numpy(std::move(s.times)),
                                  to_numpy(std::move(s.top_ids)), to_numpy(std::move(s.top_counts))));
  }
  return nb::make_tuple(spectra, to_numpy(std::move(found.ids)), to_numpy(std::move(found.counts)));
}

// The strings' own UTF-8, which lives as long as they do.
std::vector<std::string_view> letters(const nb::list& texts) {
  std::vector<std::string_view> views;
  views.reserve(nb::len(texts));
  for (const nb::handle text : texts) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!data) throw nb::python_error();
    views.emplace_back(data, static_cast<size_t>(size));
  }
  return views;
}

int64_t add_texts(tasc::WordCounter& counter, const nb::list& texts) {
  const auto views = letters(texts);
  nb::gil_scoped_release nogil;
  int64_t words = 0;
  for (const std::string_view text : views) words += counter.add_text(text);
  return words;
}

void add_words(tasc::WordCounter& counter, const nb::list& words) {
  const auto views = letters(words);
  nb::gil_scoped_release nogil;
  for (const std::string_view word : views) counter.add_word(word);
}

void take(tasc::WordCounter& counter, const Input<uint8_t>& letters, const Input<int64_t>& ends,
          const Input<int32_t>& first, const Input<int32_t>& last, const Paths& runs) {
  nb::gil_scoped_release nogil;
  const std::string_view words(reinterpret_cast<const char*>(letters.data()), letters.size());
  counter.take(words, view(ends), view(first), view(last), runs);
}

}  // namespace

void bind_ngram_count(nb::module_& m) {
  m.def("write_counts", &write_counts, nb::arg("tokens").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("path"));
  m.def("merge_runs", &merge_runs, nb::arg("paths"), nb::arg("top"));
  m.def("join_runs", &tasc::join_runs, nb::arg("paths"), nb::arg("path"),
        nb::call_guard<nb::gil_scoped_release>());
  nb::class_<tasc::WordCounter>(m, "WordCounter")
      .def(nb::init<std::string, size_t>(), nb::arg("prefix"), nb::arg("batch"))
      .def("add_texts", &add_texts, nb::arg("texts"))
      .def("add_words", &add_words, nb::arg("words"))
      .def("leave", [](tasc::WordCounter& counter) {
        tasc::CountedWords left = counter.leave();
        std::vector<uint8_t> letters(left.letters.begin(), left.letters.end());
        return nb::make_tuple(to_numpy(std::move(letters)), to_numpy(std::move(left.ends)),
                              to_numpy(std::move(left.first)), to_numpy(std::move(left.last)), left.runs);
      })
      .def("take", &take, nb::arg("letters").noconvert(), nb::arg("ends").noconvert(),
           nb::arg("first").noconvert(), nb::arg("last").noconvert(), nb::arg("runs"))
      .def("finish", &tasc::WordCounter::finish, nb::call_guard<nb::gil_scoped_release>())
      .def("word", [](const tasc::WordCounter& counter, int32_t id) {
        if (id < 0 || static_cast<size_t>(id) >= counter.words().size()) throw nb::index_error();
        const std::string_view text = counter.words().text(id);
        return nb::bytes(text.data(), text.size());
      });
}
