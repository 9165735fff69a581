#include "tasc/layer.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <vector>

#include "bind.h"

using tasc::Layer;
using tasc::PackedMatrix;

// Tensors come as addresses, 0 for none, as in dense.cpp.
void bind_layer(nb::module_& m) {
  nb::class_<Layer>(m, "Layer")
      .def(
          "__init__",
          [](Layer* made, const std::array<const PackedMatrix*, 7>& matrices, const std::array<uintptr_t, 4>& norms,
             float epsilon, int64_t d) {
            const auto norm = [&](size_t i) { return reinterpret_cast<const void*>(norms[i]); };
            const auto& w = matrices;
            new (made) Layer({w[0], w[1], w[2], w[3], w[4], w[5], w[6], norm(0), norm(1), norm(2), norm(3), epsilon, d});
          },
          nb::arg("matrices"), nb::arg("norms"), nb::arg("epsilon"), nb::arg("d"))
      .def(
          "before_attention",
          [](const Layer& self, const std::array<uintptr_t, 6>& data, int64_t rows, int64_t turns,
             tasc::ThreadPool* pool) {
            const auto in = [&](size_t i) { return reinterpret_cast<const void*>(data[i]); };
            const auto out = [&](size_t i) { return reinterpret_cast<void*>(data[i]); };
            const nb::gil_scoped_release release;
            self.before_attention(in(0), rows, in(1), in(2), turns, out(3), out(4), out(5), pool);
          },
          nb::arg("data"), nb::arg("rows"), nb::arg("turns"), nb::arg("pool").none())
      .def(
          "after_attention",
          [](const Layer& self, const std::array<uintptr_t, 3>& data, int64_t rows, tasc::ThreadPool* pool) {
            const nb::gil_scoped_release release;
            self.after_attention(reinterpret_cast<const void*>(data[0]), reinterpret_cast<const void*>(data[1]), rows,
                                 reinterpret_cast<void*>(data[2]), pool);
          },
          nb::arg("data"), nb::arg("rows"), nb::arg("pool").none());
}
