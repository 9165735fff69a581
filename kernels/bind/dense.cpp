#include "tasc/dense.h"

#include <nanobind/stl/string_view.h>

#include <new>
#include <stdexcept>
#include <string>

#include "bind.h"

namespace {

using tasc::Element;
using tasc::PackedMatrix;

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
void pack(PackedMatrix* made, const Matrix<T>& weights, const Input<float>* bias) {
  const auto n = static_cast<int64_t>(weights.shape(0)), k = static_cast<int64_t>(weights.shape(1));
  if (n == 0 || k == 0) throw std::invalid_argument("a packed matrix must not be empty");
  if (bias && bias->size() != weights.shape(0))
    throw std::invalid_argument("a matrix of " + std::to_string(n) + " rows has a bias of " +
                                std::to_string(bias->size()));
  const Element element = sizeof(T) == 4 ? Element::kFloat32 : Element::kBFloat16;
  const float* added = bias ? bias->data() : nullptr;
  const nb::gil_scoped_release release;
  new (made) PackedMatrix(weights.data(), element, n, k, added);
}

template <class T>
void bind_pack(nb::class_<PackedMatrix>& packed) {
  packed
      .def(
          "__init__", [](PackedMatrix* made, const Matrix<T>& weights) { pack(made, weights, nullptr); },
          nb::arg("weights").noconvert())
      .def(
          "__init__",
          [](PackedMatrix* made, const Matrix<T>& weights, const Input<float>& bias) {
            pack(made, weights, &bias);
          },
          nb::arg("weights").noconvert(), nb::arg("bias").noconvert());
}

}  // namespace

// Rows come as addresses: to wrap them in arrays would take longer than a small product.
void bind_dense(nb::module_& m) {
  nb::class_<PackedMatrix> packed(m, "PackedMatrix");
  bind_pack<float>(packed);
  bind_pack<uint16_t>(packed);
  packed
      .def(
          "multiply",
          [](const PackedMatrix& self, uintptr_t x, int64_t rows, uintptr_t out, tasc::ThreadPool* pool) {
            const nb::gil_scoped_release release;
            self.multiply(reinterpret_cast<const void*>(x), rows, reinterpret_cast<void*>(out), pool);
          },
          nb::arg("x"), nb::arg("rows"), nb::arg("out"), nb::arg("pool").none())
      .def(
          "unpack",
          [](const PackedMatrix& self, uintptr_t weights) {
            const nb::gil_scoped_release release;
            self.unpack(reinterpret_cast<void*>(weights));
          },
          nb::arg("weights"));
  m.def("dense_instructions", &tasc::dense_instructions);
}
