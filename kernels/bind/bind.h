// What the bind_*.cpp files share. Arrays are taken as they are: .noconvert() at every argument
// turns a wrong dtype or a strided view into a TypeError instead of a silent copy.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <vector>

namespace nb = nanobind;

template <class T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
std::span<const T> view(const Input<T>& array) {
  return {array.data(), array.size()};
}

// Hands a vector to numpy without a copy.
template <class T>
Output<T> to_numpy(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Output<T>(owned->data(), {owned->size()}, owner);
}

void bind_acceptance(nb::module_& m);
void bind_certified_head(nb::module_& m);
void bind_chains(nb::module_& m);
void bind_context_match(nb::module_& m);
void bind_dense(nb::module_& m);
void bind_layer(nb::module_& m);
void bind_merge_search(nb::module_& m);
void bind_ngram_count(nb::module_& m);
void bind_ngram_draft(nb::module_& m);
void bind_recycling(nb::module_& m);
void bind_suffix_draft(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_verify(nb::module_& m);
void bind_window_vocab(nb::module_& m);
