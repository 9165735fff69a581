#include "tasc/certified_head.h"

#include <array>
#include <stdexcept>

#include <nanobind/stl/array.h>

#include "bind.h"

using tasc::CertifiedHead;
using tasc::PackedMatrix;

// Tensors come as addresses, as in dense.cpp; 0 for no totals.
void bind_certified_head(nb::module_& m) {
  nb::class_<CertifiedHead>(m, "CertifiedHead")
      .def(nb::init<const PackedMatrix&>(), nb::arg("matrix"), nb::keep_alive<1, 2>(),
           nb::call_guard<nb::gil_scoped_release>())
      .def(
          "top",
          [](const CertifiedHead& self, const std::array<uintptr_t, 4>& data, int64_t rows, int k,
             tasc::ThreadPool* pool) {
            if (k < 1 || k > CertifiedHead::kMostLogits || k > self.n())
              throw std::invalid_argument("a certified head finds 1 to 64 logits");
            const nb::gil_scoped_release release;
            return self.top(reinterpret_cast<const void*>(data[0]), rows, k, reinterpret_cast<int32_t*>(data[1]),
                            reinterpret_cast<float*>(data[2]), reinterpret_cast<float*>(data[3]), pool);
          },
          nb::arg("data"), nb::arg("rows"), nb::arg("k"), nb::arg("pool").none());
}
