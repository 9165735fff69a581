#include "tasc/layer.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <vector>

#include "bind.h"

using tasc::Decoder;
using tasc::PackedMatrix;

// Tensors come as addresses, 0 for none, as in dense.cpp.
void bind_layer(nb::module_& m) {
  nb::class_<Decoder>(m, "Decoder")
      .def(
          "__init__",
          [](Decoder* made, const std::vector<std::array<const PackedMatrix*, 7>>& matrices,
             const std::vector<std::array<uintptr_t, 6>>& norms, float epsilon, int64_t d, float scale, bool plus_one,
             bool gelu) {
            const auto activation = gelu ? tasc::Activation::kGelu : tasc::Activation::kSilu;
            std::vector<tasc::LayerParts> layers;
            for (size_t i = 0; i < matrices.size(); ++i) {
              const auto norm = [&](size_t which) { return reinterpret_cast<const void*>(norms.at(i)[which]); };
              const auto& [q, k, v, o, gate, up, down] = matrices[i];
              layers.push_back({q, k, v, o, gate, up, down, norm(0), norm(1), norm(2), norm(3), epsilon, d, norm(4),
                                norm(5), plus_one, activation});
            }
            new (made) Decoder(layers, scale);
          },
          nb::arg("matrices"), nb::arg("norms"), nb::arg("epsilon"), nb::arg("d"), nb::arg("scale"),
          nb::arg("plus_one"), nb::arg("gelu"))
      .def(
          "run",
          [](const Decoder& self, uintptr_t x, const std::vector<int64_t>& sizes,
             const std::vector<std::array<uintptr_t, 2>>& rotations, int64_t turns, uintptr_t data,
             const std::array<int64_t, 4>& cache, const std::vector<uintptr_t>& masks, tasc::ThreadPool* pool) {
            std::vector<tasc::Rotation> tables;
            for (const auto& [cos, sin] : rotations)
              tables.push_back({reinterpret_cast<const void*>(cos), reinterpret_cast<const void*>(sin)});
            std::vector<const uint8_t*> seen;
            for (const uintptr_t mask : masks) seen.push_back(reinterpret_cast<const uint8_t*>(mask));
            const nb::gil_scoped_release release;
            self.run(reinterpret_cast<void*>(x), sizes, tables, turns,
                     {reinterpret_cast<void*>(data), cache[0], cache[1], cache[2], cache[3]}, seen, pool);
          },
          nb::arg("x"), nb::arg("sizes"), nb::arg("rotations"), nb::arg("turns"), nb::arg("data"), nb::arg("cache"),
          nb::arg("masks"),
          nb::arg("pool").none());
}
