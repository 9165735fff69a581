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
             const std::vector<std::array<uintptr_t, 4>>& norms, const std::vector<float>& epsilons, int64_t d,
             float scale) {
            std::vector<tasc::LayerParts> layers;
            for (size_t i = 0; i < matrices.size(); ++i) {
              const auto norm = [&](size_t which) { return reinterpret_cast<const void*>(norms.at(i)[which]); };
              const auto& [q, k, v, o, gate, up, down] = matrices[i];
              layers.push_back({q, k, v, o, gate, up, down, norm(0), norm(1), norm(2), norm(3), epsilons.at(i), d});
            }
            new (made) Decoder(layers, scale);
          },
          nb::arg("matrices"), nb::arg("norms"), nb::arg("epsilons"), nb::arg("d"), nb::arg("scale"))
      .def(
          "run",
          [](const Decoder& self, const std::array<uintptr_t, 4>& data, const std::vector<int64_t>& sizes,
             int64_t turns, const std::array<int64_t, 4>& cache, const std::vector<uintptr_t>& masks,
             tasc::ThreadPool* pool) {
            const auto at = [&](size_t i) { return reinterpret_cast<void*>(data[i]); };
            std::vector<const uint8_t*> seen;
            for (const uintptr_t mask : masks) seen.push_back(reinterpret_cast<const uint8_t*>(mask));
            const nb::gil_scoped_release release;
            self.run(at(0), sizes, at(1), at(2), turns, {at(3), cache[0], cache[1], cache[2], cache[3]}, seen, pool);
          },
          nb::arg("data"), nb::arg("sizes"), nb::arg("turns"), nb::arg("cache"), nb::arg("masks"),
          nb::arg("pool").none());
}
