#include "tasc/layer.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "dense.h"

namespace tasc {
namespace {

constexpr int64_t kRows = 64;  // at a time, so that what lies between two products stays in the cache

char* at(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }
const char* at(const void* data, int64_t bytes) { return static_cast<const char*>(data) + bytes; }

}  // namespace

Layer::Layer(const LayerParts& parts)
    : parts_(parts), hidden_(parts.query->k()), inner_(parts.gate->n()),
      size_(parts.query->element() == Element::kFloat32 ? 4 : 2) {
  const auto fits = [&](const PackedMatrix* matrix, int64_t n, int64_t k) {
    return matrix->element() == parts.query->element() && matrix->n() == n && matrix->k() == k;
  };
  const int64_t heads = parts.query->n(), key_heads = parts.key->n(), d = parts.d;
  if (d < 2 || d % 2 || heads % d || key_heads % d || !fits(parts.key, key_heads, hidden_) ||
      !fits(parts.value, key_heads, hidden_) || !fits(parts.out, hidden_, heads) ||
      !fits(parts.gate, inner_, hidden_) || !fits(parts.up, inner_, hidden_) ||
      !fits(parts.down, hidden_, inner_))
    throw std::invalid_argument("the matrices of a layer do not fit each other");
}

void Layer::before_attention(const void* x, int64_t rows, const void* cos, const void* sin, int64_t turns,
                             void* query, void* key, void* value, ThreadPool* pool) const {
  const RowKernels& kernels = row_kernels(size_ == 2);
  std::vector<char> normed(static_cast<size_t>(std::min(rows, kRows) * hidden_ * size_));
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(rows - first, kRows);
    kernels.norm(at(x, first * hidden_ * size_), parts_.norm, parts_.epsilon, count, hidden_, normed.data());
    const auto project = [&](const PackedMatrix* matrix, const void* norm, void* out, bool rotated) {
      char* to = at(out, first * matrix->n() * size_);
      const int64_t heads = matrix->n() / parts_.d;
      matrix->multiply(normed.data(), count, to, pool);
      if (norm) kernels.norm(to, norm, parts_.epsilon, count * heads, parts_.d, to);
      for (int64_t row = 0; rotated && row < count; ++row) {
        const int64_t turn = (first + row) % turns * parts_.d * size_;
        kernels.rotate(at(to, row * matrix->n() * size_), at(cos, turn), at(sin, turn), heads, parts_.d);
      }
    };
    project(parts_.query, parts_.query_norm, query, true);
    project(parts_.key, parts_.key_norm, key, true);
    project(parts_.value, nullptr, value, false);
  }
}

void Layer::after_attention(const void* x, const void* attended, int64_t rows, void* out, ThreadPool* pool) const {
  const RowKernels& kernels = row_kernels(size_ == 2);
  const int64_t most = std::min(rows, kRows) * size_;
  std::vector<char> scratch(static_cast<size_t>(most * (hidden_ + 2 * inner_)));
  char *normed = scratch.data(), *gate = normed + most * hidden_, *up = gate + most * inner_;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(rows - first, kRows), size = count * hidden_;
    char* to = at(out, first * hidden_ * size_);
    parts_.out->multiply(at(attended, first * parts_.out->k() * size_), count, normed, pool);
    kernels.add(at(x, first * hidden_ * size_), normed, size, to);
    kernels.norm(to, parts_.mlp_norm, parts_.epsilon, count, hidden_, normed);
    parts_.gate->multiply(normed, count, gate, pool);
    parts_.up->multiply(normed, count, up, pool);
    kernels.gate(gate, up, count * inner_, gate);
    parts_.down->multiply(gate, count, normed, pool);
    kernels.add(to, normed, size, to);
  }
}

}  // namespace tasc
