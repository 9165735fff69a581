#include "tasc/dense.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <array>
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
void pack(PackedMatrix* made, const Matrix<T>& weights, Element element, const Input<float>* bias,
          const Matrix<uint16_t>* scales) {
  const auto n = static_cast<int64_t>(weights.shape(0)), k = static_cast<int64_t>(weights.shape(1));
  if (n == 0 || k == 0) throw std::invalid_argument("a packed matrix must not be empty");
  const auto size = "a matrix of " + std::to_string(n) + " rows and " + std::to_string(k) + " columns has ";
  if (bias && bias->size() != weights.shape(0))
    throw std::invalid_argument(size + "a bias of " + std::to_string(bias->size()));
  const auto blocks = static_cast<size_t>((k + tasc::kScaleBlock - 1) / tasc::kScaleBlock);
  if (scales && (scales->shape(0) != weights.shape(0) || scales->shape(1) != blocks))
    throw std::invalid_argument(size + "scales of " + std::to_string(scales->shape(0)) + " rows and " +
                                std::to_string(scales->shape(1)) + " blocks");
  const float* added = bias ? bias->data() : nullptr;
  const uint16_t* scaled = scales ? scales->data() : nullptr;
  const nb::gil_scoped_release release;
  new (made) PackedMatrix(weights.data(), element, n, k, added, scaled);
}

template <class T>
void bind_pack(nb::class_<PackedMatrix>& packed) {
  constexpr Element kElement = sizeof(T) == 4 ? Element::kFloat32 : Element::kBFloat16;
  packed
      .def(
          "__init__",
          [](PackedMatrix* made, const Matrix<T>& weights) { pack(made, weights, kElement, nullptr, nullptr); },
          nb::arg("weights").noconvert())
      .def(
          "__init__",
          [](PackedMatrix* made, const Matrix<T>& weights, const Input<float>& bias) {
            pack(made, weights, kElement, &bias, nullptr);
          },
          nb::arg("weights").noconvert(), nb::arg("bias").noconvert());
}

void bind_pack_by8(nb::class_<PackedMatrix>& packed) {
  const auto element = [](bool half) { return half ? Element::kBFloat16 : Element::kFloat32; };
  packed
      .def(
          "__init__",
          [element](PackedMatrix* made, const Matrix<int8_t>& weights, const Matrix<uint16_t>& scales, bool half) {
            pack(made, weights, element(half), nullptr, &scales);
          },
          nb::arg("weights").noconvert(), nb::arg("scales").noconvert(), nb::arg("half"))
      .def(
          "__init__",
          [element](PackedMatrix* made, const Matrix<int8_t>& weights, const Matrix<uint16_t>& scales, bool half,
                    const Input<float>& bias) { pack(made, weights, element(half), &bias, &scales); },
          nb::arg("weights").noconvert(), nb::arg("scales").noconvert(), nb::arg("half"), nb::arg("bias").noconvert());
}

using Strides = std::array<int64_t, 3>;

// Addresses of query, key, value, out, mask and sinks, the last two or 0, as AttentionCall has them.
void attend(const std::array<uintptr_t, 6>& data, const std::array<int64_t, 6>& shape,
            const std::array<Strides, 4>& strides, bool half, float scale, float softcap, tasc::ThreadPool* pool) {
  tasc::AttentionCall call{};
  call.query = reinterpret_cast<const void*>(data[0]);
  call.key = reinterpret_cast<const void*>(data[1]);
  call.value = reinterpret_cast<const void*>(data[2]);
  call.out = reinterpret_cast<void*>(data[3]);
  call.mask = reinterpret_cast<const uint8_t*>(data[4]);
  call.sinks = reinterpret_cast<const float*>(data[5]);
  call.sequences = shape[0], call.heads = shape[1], call.key_heads = shape[2];
  call.queries = shape[3], call.keys = shape[4], call.d = shape[5];
  if (call.d > tasc::kMaxHeadDim || call.key_heads < 1 || call.heads % call.key_heads || call.queries > call.keys)
    throw std::invalid_argument("attention takes heads of at most " + std::to_string(tasc::kMaxHeadDim) +
                                " elements, in groups, and no more queries than keys");
  std::copy(strides[0].begin(), strides[0].end(), call.query_strides);
  std::copy(strides[1].begin(), strides[1].end(), call.key_strides);
  std::copy(strides[2].begin(), strides[2].end(), call.value_strides);
  std::copy(strides[3].begin(), strides[3].begin() + 2, call.mask_strides);
  call.scale = scale, call.softcap = softcap;
  const nb::gil_scoped_release release;
  tasc::attend(call, half ? Element::kBFloat16 : Element::kFloat32, pool);
}

}  // namespace

// Rows come as addresses: to wrap them in arrays would take longer than a small product.
void bind_dense(nb::module_& m) {
  nb::class_<PackedMatrix> packed(m, "PackedMatrix");
  bind_pack<float>(packed);
  bind_pack<uint16_t>(packed);
  bind_pack_by8(packed);
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
  m.def("attend", &attend, nb::arg("data"), nb::arg("shape"), nb::arg("strides"), nb::arg("half"),
        nb::arg("scale"), nb::arg("softcap"), nb::arg("pool").none());
  m.def("dense_instructions", &tasc::dense_instructions);
  m.def("use_dense_instructions", &tasc::use_dense_instructions, nb::arg("name"));
}
