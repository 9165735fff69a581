#include "tasc/window_vocab.h"

#include <stdexcept>
#include <string>

#include "bind.h"

namespace {

using Array = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstBytes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void window_push(const Input<int32_t>& tokens, bool unique, const Array& ring, const Array& counts,
                 const Array& slots, const Array& marks, const Array& ids, const Array& free,
                 const Array& state) {
  const size_t size = ring.size(), vocabulary = counts.size();
  if (size == 0 || vocabulary == 0 || slots.size() != vocabulary || marks.size() != vocabulary ||
      ids.size() != size || free.size() != size || state.size() != tasc::kWindowStates)
    throw std::invalid_argument("the arrays of a window of " + std::to_string(size) +
                                " entries over " + std::to_string(vocabulary) +
                                " tokens do not fit together");
  const tasc::WindowVocab window{static_cast<int32_t>(vocabulary), static_cast<int32_t>(size),
                                 ring.data(), counts.data(), slots.data(), marks.data(), ids.data(),
                                 free.data(), state.data()};
  const nb::gil_scoped_release release;
  tasc::Ranks ranks;
  tasc::push(tasc::OneLane{}, window, tokens.data(), static_cast<int32_t>(tokens.size()), unique,
             ranks);
}

int32_t window_gather(const ConstBytes& weight, const Input<int32_t>& ids, const Array& held,
                      const Bytes& buffer) {
  const size_t size = ids.size();
  if (held.size() != size || buffer.shape(0) != size || buffer.shape(1) != weight.shape(1))
    throw std::invalid_argument("a buffer for " + std::to_string(size) + " rows of " +
                                std::to_string(weight.shape(1)) + " bytes has shape (" +
                                std::to_string(buffer.shape(0)) + ", " +
                                std::to_string(buffer.shape(1)) + ")");
  const auto rows = static_cast<int32_t>(weight.shape(0));
  for (size_t s = 0; s < size; ++s)
    if (ids.data()[s] >= rows)
      throw std::invalid_argument("slot " + std::to_string(s) + " asks for row " +
                                  std::to_string(ids.data()[s]) + " of " + std::to_string(rows));
  const nb::gil_scoped_release release;
  return tasc::gather(tasc::OneLane{}, 0, 1, weight.data(), static_cast<int64_t>(weight.shape(1)),
                      ids.data(), held.data(), static_cast<int32_t>(size), buffer.data());
}

}  // namespace

void bind_window_vocab(nb::module_& m) {
  m.def("window_push", &window_push, nb::arg("tokens").noconvert(), nb::arg("unique"),
        nb::arg("ring").noconvert(), nb::arg("counts").noconvert(), nb::arg("slots").noconvert(),
        nb::arg("marks").noconvert(), nb::arg("ids").noconvert(), nb::arg("free").noconvert(),
        nb::arg("state").noconvert());
  m.def("window_gather", &window_gather, nb::arg("weight").noconvert(), nb::arg("ids").noconvert(),
        nb::arg("held").noconvert(), nb::arg("buffer").noconvert());
}
