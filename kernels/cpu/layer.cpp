#include "tasc/layer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
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
    return matrix->element() == parts.query->element() && matrix->has_scales() == parts.query->has_scales() &&
           matrix->n() == n && matrix->k() == k;
  };
  const int64_t heads = parts.query->n(), key_heads = parts.key->n(), d = parts.d;
  if (d < 2 || d % 2 || heads % d || key_heads % d || !fits(parts.key, key_heads, hidden_) ||
      !fits(parts.value, key_heads, hidden_) || !fits(parts.out, hidden_, heads) ||
      !fits(parts.gate, inner_, hidden_) || !fits(parts.up, inner_, hidden_) ||
      !fits(parts.down, hidden_, inner_))
    throw std::invalid_argument("the matrices of a layer do not fit each other");
}

void Layer::norm(const void* x, const void* weight, int64_t rows, int64_t k, void* out) const {
  const RowKernels& kernels = row_kernels(size_ == 2);
  const auto normed = parts_.plus_one ? kernels.norm_plus_one : kernels.norm;
  normed(x, weight, parts_.epsilon, rows, k, out);
}

void Layer::norm_in_place(void* x, const void* weight, int64_t rows) const {
  if (weight) norm(x, weight, rows, hidden_, x);
}

void Layer::before_attention(const void* x, int64_t rows, const Rotation& rotation, int64_t turns, void* query,
                             void* key, void* value, ThreadPool* pool) const {
  const RowKernels& kernels = row_kernels(size_ == 2);
  std::vector<char> normed(static_cast<size_t>(std::min(rows, kRows) * hidden_ * size_));
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(rows - first, kRows);
    norm(at(x, first * hidden_ * size_), parts_.norm, count, hidden_, normed.data());
    const PackedRows inputs = parts_.query->rows(normed.data(), count);
    const auto project = [&](const PackedMatrix* matrix, const void* weight, void* out, bool rotated) {
      char* to = at(out, first * matrix->n() * size_);
      const int64_t heads = matrix->n() / parts_.d;
      matrix->multiply(inputs, to, pool);
      if (weight) norm(to, weight, count * heads, parts_.d, to);
      for (int64_t row = 0; rotated && row < count; ++row) {
        const int64_t turn = (first + row) % turns * parts_.d * size_;
        kernels.rotate(at(to, row * matrix->n() * size_), at(rotation.cos, turn), at(rotation.sin, turn), heads,
                       parts_.d);
      }
    };
    project(parts_.query, parts_.query_norm, query, true);
    project(parts_.key, parts_.key_norm, key, true);
    project(parts_.value, nullptr, value, false);
  }
}

void Layer::after_attention(const void* x, const void* attended, int64_t rows, void* out, ThreadPool* pool) const {
  const RowKernels& kernels = row_kernels(size_ == 2);
  const auto activate = parts_.activation == Activation::kGelu ? kernels.gelu_gate : kernels.silu_gate;
  const int64_t most = std::min(rows, kRows) * size_;
  std::vector<char> scratch(static_cast<size_t>(most * (hidden_ + 2 * inner_)));
  char *normed = scratch.data(), *gate = normed + most * hidden_, *up = gate + most * inner_;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(rows - first, kRows), size = count * hidden_;
    char* to = at(out, first * hidden_ * size_);
    parts_.out->multiply(at(attended, first * parts_.out->k() * size_), count, normed, pool);
    norm_in_place(normed, parts_.attention_out_norm, count);
    kernels.add(at(x, first * hidden_ * size_), normed, size, to);
    norm(to, parts_.mlp_norm, count, hidden_, normed);
    const PackedRows inputs = parts_.gate->rows(normed, count);
    parts_.gate->multiply(inputs, gate, pool);
    parts_.up->multiply(inputs, up, pool);
    activate(gate, up, count * inner_, gate);
    parts_.down->multiply(gate, count, normed, pool);
    norm_in_place(normed, parts_.mlp_out_norm, count);
    kernels.add(to, normed, size, to);
  }
}

Decoder::Decoder(const std::vector<LayerParts>& layers, float scale)
    : layers_(layers.begin(), layers.end()), scale_(scale), d_(layers.at(0).d) {
  const LayerParts& first = layers[0];
  key_heads_ = first.key->n() / d_, size_ = first.query->element() == Element::kFloat32 ? 4 : 2;
  for (const LayerParts& parts : layers) {
    heads_ = std::max(heads_, parts.query->n() / d_);
    const bool same = parts.d == d_ && parts.key->n() == first.key->n() && parts.query->k() == first.query->k() &&
                      parts.query->element() == first.query->element();
    if (!same || d_ > kMaxHeadDim || parts.query->n() % parts.key->n())
      throw std::invalid_argument("the layers of a decoder do not fit each other");
  }
}

void Decoder::run(void* x, const std::vector<int64_t>& sizes, const std::vector<Rotation>& rotations, int64_t turns,
                  const CacheBlock& cache, const std::vector<const uint8_t*>& masks, ThreadPool* pool) const {
  const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const int64_t head = d_ * size_, width = heads_ * head, key_width = key_heads_ * head;
  const auto scratch = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(rows * 2 * (width + key_width)));
  char *query = scratch.get(), *attended = query + rows * width, *key = attended + rows * width,
       *value = key + rows * key_width;
  const int64_t half = cache.sequences * key_heads_ * cache.capacity * head;  // bytes of a layer's keys
  char* keys = static_cast<char*>(cache.data);
  for (size_t i = 0; i < layers_.size(); ++i, keys += 2 * half) {
    layers_[i].before_attention(x, rows, rotations[i], turns, query, key, value, pool);
    int64_t row = 0, plane = cache.first * key_heads_;  // a head of a sequence
    for (const int64_t size : sizes) {
      for (int64_t position = cache.start; position < cache.start + size; ++position, ++row)
        for (int64_t h = 0; h < key_heads_; ++h) {
          const int64_t to = ((plane + h) * cache.capacity + position) * head, from = row * key_width + h * head;
          std::memcpy(keys + to, key + from, static_cast<size_t>(head));
          std::memcpy(keys + half + to, value + from, static_cast<size_t>(head));
        }
      plane += key_heads_;
    }
    attend(layers_[i], sizes, query, keys, cache, masks[i], attended, pool);
    layers_[i].after_attention(x, attended, rows, x, pool);
  }
}

void Decoder::attend(const Layer& layer, const std::vector<int64_t>& sizes, const char* query, const char* keys,
                     const CacheBlock& cache, const uint8_t* mask, char* out, ThreadPool* pool) const {
  const int64_t longest = std::ranges::max(sizes), seen = cache.start + longest, width = layer.parts().query->n();
  const int64_t plane = cache.capacity * d_, own = key_heads_ * plane;  // elements of a head, and of a sequence
  const auto sequences = static_cast<int64_t>(sizes.size());
  const int64_t together = std::ranges::min(sizes) == longest ? sequences : 1;
  for (int64_t sequence = 0; sequence < sequences; sequence += together) {
    const int64_t size = sizes[static_cast<size_t>(sequence)];
    AttentionCall call{};
    call.query = query, call.out = out;
    call.key = keys + (cache.first + sequence) * own * size_;
    call.value = at(call.key, cache.sequences * own * size_);
    call.mask = mask ? mask + sequence * longest * seen : nullptr;
    call.sequences = together, call.heads = width / d_, call.key_heads = key_heads_, call.d = d_, call.scale = scale_;
    call.queries = size, call.keys = cache.start + size;
    const int64_t query_strides[] = {size * width, d_, width}, key_strides[] = {own, plane, d_};
    std::ranges::copy(query_strides, call.query_strides);
    std::ranges::copy(key_strides, call.key_strides);
    std::ranges::copy(key_strides, call.value_strides);
    call.mask_strides[0] = longest * seen, call.mask_strides[1] = seen;
    tasc::attend(call, layer.parts().query->element(), pool);
    query += together * size * width * size_, out += together * size * width * size_;
  }
}

}  // namespace tasc
