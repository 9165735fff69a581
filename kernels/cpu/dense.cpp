#include "tasc/dense.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef __linux__
#include <sys/auxv.h>
#include <sys/mman.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "dense.h"

namespace tasc {
namespace {

struct Kernels {
  const char* name;
  bool supported;
  DenseKernel float32, bfloat16;
  AttentionKernel attend_float32, attend_bfloat16;
  const RowKernels *rows_float32, *rows_bfloat16;
  const HeadKernels *head_float32, *head_bfloat16;
  const QuantisedKernels *quantised_float32, *quantised_bfloat16;
};

// Products of bytes have instructions of their own, `bytes`, beside those of floats.
#define TASC_KERNELS(name, supported, bytes) \
  {#name, supported, name::dense_float32, name::dense_bfloat16, name::attend_float32, name::attend_bfloat16, \
   &name::rows_float32, &name::rows_bfloat16, &name::head_float32, &name::head_bfloat16, \
   &bytes::quantised_float32, &bytes::quantised_bfloat16}

#ifdef TASC_ARM
// Whether the machine has optional instructions: Linux' bits of AT_HWCAP and AT_HWCAP2, and macOS' names.
bool has_optional([[maybe_unused]] unsigned long first, [[maybe_unused]] unsigned long second,
                  [[maybe_unused]] const char* name) {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & first) == first && (getauxval(AT_HWCAP2) & second) == second;
#elif defined(__APPLE__)
  int found = 0;
  size_t size = sizeof found;
  return sysctlbyname(name, &found, &size, nullptr, 0) == 0 && found != 0;
#else
  return false;
#endif
}

bool has_dot_products() { return has_optional(1ul << 20, 0, "hw.optional.arm.FEAT_DotProd"); }  // HWCAP_ASIMDDP
bool has_bfloat16() { return has_optional(0, 1ul << 14, "hw.optional.arm.FEAT_BF16"); }         // HWCAP2_BF16
#endif

#ifdef TASC_X86
bool has_avx512vnni() { return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"); }

bool has_avxvnni() {
#if defined(__GNUC__) && (defined(__clang__) || __GNUC__ > 11)
  return __builtin_cpu_supports("avxvnni") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}
#endif

// The best come first.
std::vector<Kernels> all_kernels() {
  return {
#ifdef TASC_X86
      TASC_KERNELS(avx512bf16, __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                                   __builtin_cpu_supports("avx512vl") && has_avx512vnni(), avx512vnni),
      has_avx512vnni() ? Kernels TASC_KERNELS(avx512, true, avx512vnni)
                       : Kernels TASC_KERNELS(avx512, __builtin_cpu_supports("avx512bw") != 0, avx512),
      has_avxvnni() ? Kernels TASC_KERNELS(avx2, true, avxvnni)
                    : Kernels TASC_KERNELS(avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), avx2),
#endif
#ifdef TASC_ARM
      TASC_KERNELS(neonbf16, has_dot_products() && has_bfloat16(), neondot),
      TASC_KERNELS(neondot, has_dot_products(), neondot),
      TASC_KERNELS(neon, true, neon),
#endif
      TASC_KERNELS(portable, true, portable),
  };
}

// The best that this machine has, or the ones that TASC_CPU_CAPABILITY names.
Kernels first_kernels() {
  const char* wanted = std::getenv("TASC_CPU_CAPABILITY");
  std::string names;
  for (const Kernels& each : all_kernels()) {
    if (!each.supported) continue;
    if (!wanted || std::string_view(wanted) == each.name) return each;
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  throw std::invalid_argument("TASC_CPU_CAPABILITY is '" + std::string(wanted) +
                              "', which this CPU does not have: unset it, or choose from " + names);
}

Kernels& kernels() {
  static Kernels chosen = first_kernels();
  return chosen;
}

const QuantisedKernels& quantised_kernels(Element element) {
  return element == Element::kBFloat16 ? *kernels().quantised_bfloat16 : *kernels().quantised_float32;
}

int64_t divided_up(int64_t size, int64_t by) { return (size + by - 1) / by; }

constexpr size_t kHugePage = 1 << 21, kChunk = 32 * kHugePage, kSmall = 1 << 16;

std::shared_ptr<char> new_chunk(size_t bytes, size_t alignment) {
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  std::shared_ptr<char> chunk(static_cast<char*>(std::aligned_alloc(alignment, whole)), std::free);
  if (!chunk) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage) madvise(chunk.get(), whole, MADV_HUGEPAGE);
#endif
  return chunk;
}

constexpr int64_t kWorthSharing = 1 << 16;  // products of keys, fewer of which one thread does sooner
constexpr int64_t kCell = kLine / kPanel;  // bytes of a row for one step

}  // namespace

std::string_view dense_instructions() { return kernels().name; }

bool use_dense_instructions(std::string_view name) {
  for (const Kernels& each : all_kernels())
    if (each.supported && each.name == name) kernels() = each;
  return kernels().name == name;
}

// Matrices lie side by side in huge pages, where the system grants them, as they are read in one sweep. A chunk
// is freed with the last of its matrices.
std::shared_ptr<char> matrix_memory(size_t bytes) {
  if (bytes < kSmall) return new_chunk(bytes, kLine);
  static std::mutex mutex;
  static std::weak_ptr<char> latest;
  static size_t used = 0;
  const std::lock_guard lock(mutex);
  std::shared_ptr<char> chunk = latest.lock();
  if (!chunk || used + bytes > kChunk) {
    chunk = new_chunk(std::max(bytes, kChunk), kHugePage);
    latest = chunk;
    used = 0;
  }
  used += bytes;
  return {chunk, chunk.get() + used - bytes};
}

const RowKernels& row_kernels(bool half) { return half ? *kernels().rows_bfloat16 : *kernels().rows_float32; }

const HeadKernels& head_kernels(bool half) { return half ? *kernels().head_bfloat16 : *kernels().head_float32; }

PackedMatrix::PackedMatrix(const void* weights, Element element, int64_t n, int64_t k, const float* bias,
                           const uint16_t* scales)
    : n_(n), k_(k), element_(element), size_(scales ? 1 : element == Element::kFloat32 ? 4 : 2),
      steps_(scales ? divided_up(k, kScaleBlock) * (kScaleBlock / kQuad) : divided_up(k * size_, kCell)) {
  const int64_t panels = divided_up(n, kPanel);
  const auto bytes = static_cast<size_t>(std::max<int64_t>(panels * steps_, 1) * kLine);
  panels_ = matrix_memory(bytes);
  std::memset(panels_.get(), 0, bytes);
  if (bias) {
    bias_ = std::make_unique<float[]>(static_cast<size_t>(panels * kPanel));
    std::copy(bias, bias + n, bias_.get());
  }
  const auto* from = static_cast<const char*>(weights);
  each_piece(0, n, [&](char* piece, int64_t at, size_t size) { std::memcpy(piece, from + at, size); });
  if (scales) place_scales(scales, panels);
}

void PackedMatrix::place_scales(const uint16_t* scales, int64_t panels) {
  const int64_t blocks = divided_up(k_, kScaleBlock);
  const auto bytes = static_cast<size_t>(std::max<int64_t>(panels * blocks * kPanel, 1)) * sizeof *scales;
  scales_ = matrix_memory(bytes);
  std::memset(scales_.get(), 0, bytes);
  auto* to = reinterpret_cast<uint16_t*>(scales_.get());
  for (int64_t row = 0; row < n_; ++row) {
    const int64_t panel = row / kPanel, first = panel / kGroup * kGroup, width = std::min(kGroup, panels - first);
    for (int64_t b = 0; b < blocks; ++b)
      to[(first * blocks + b * width + panel - first) * kPanel + row % kPanel] = scales[row * blocks + b];
  }
}

void PackedMatrix::unpack(void* weights, int64_t begin, int64_t end) const {
  auto* to = static_cast<char*>(weights) - begin * k_ * size_;
  each_piece(begin, end, [&](const char* piece, int64_t at, size_t size) { std::memcpy(to + at, piece, size); });
}

// Calls visit(piece, byte in the unpacked matrix, bytes) for the pieces of rows [begin, end): a line has four bytes
// of each row.
template <class Visit>
void PackedMatrix::each_piece(int64_t begin, int64_t end, const Visit& visit) const {
  const int64_t panels = divided_up(n_, kPanel), row_bytes = k_ * size_;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t panel = row / kPanel, first = panel / kGroup * kGroup, width = std::min(kGroup, panels - first);
    char* piece = panels_.get() + (first * steps_ + panel - first) * kLine + row % kPanel * kCell;
    for (int64_t at = 0; at < row_bytes; at += kCell, piece += width * kLine)
      visit(piece, row * row_bytes + at, static_cast<size_t>(std::min(kCell, row_bytes - at)));
  }
}

PackedRows PackedMatrix::rows(const void* x, int64_t count) const {
  PackedRows rows(x, count);
  if (scales_) rows.round(element_, k_);
  return rows;
}

void PackedRows::round(Element element, int64_t k) {
  const auto blocks = static_cast<size_t>(count() * divided_up(k, kScaleBlock));
  memory_.resize(blocks * (kScaleBlock + sizeof(float) + sizeof(int32_t)));
  quantised_.scales = reinterpret_cast<float*>(memory_.data());
  quantised_.bases = reinterpret_cast<int32_t*>(quantised_.scales + blocks);
  quantised_.whole = reinterpret_cast<int8_t*>(quantised_.bases + blocks);
  quantised_kernels(element).round(x_, k, quantised_);
}

void PackedMatrix::multiply(const PackedRows& rows, void* out, ThreadPool* pool) const {
  const int64_t groups = divided_up(divided_up(n_, kPanel), kGroup);
  const DenseCall call{rows.x(), panels_.get(), bias_.get(), out, rows.count(), k_, n_};
  const DenseKernel kernel = element_ == Element::kBFloat16 ? kernels().bfloat16 : kernels().float32;
  const QuantisedCall quantised{rows.quantised(), panels_.get(), reinterpret_cast<const uint16_t*>(scales_.get()),
                                bias_.get(), out, divided_up(k_, kScaleBlock), n_};
  const auto multiply_groups = [&](int64_t begin, int64_t end) {
    if (scales_) {
      quantised_kernels(element_).multiply(quantised, begin, end);
    } else {
      kernel(call, begin, end);
    }
  };
  const auto shares = pool ? std::min<int64_t>(groups, static_cast<int64_t>(pool->size())) : 1;
  if (shares == 1) return multiply_groups(0, groups);
  pool->for_each(static_cast<size_t>(shares), [&](size_t i) {
    const auto share = static_cast<int64_t>(i);
    multiply_groups(groups * share / shares, groups * (share + 1) / shares);
  });
}

void PackedMatrix::pick(const void* x, const int64_t* panels, int64_t count, float* out) const {
  const DenseCall call{x, panels_.get(), bias_.get(), nullptr, 1, k_, n_};
  head_kernels(element_ == Element::kBFloat16).pick(call, panels, count, out);
}

void attend(const AttentionCall& call, Element element, ThreadPool* pool) {
  const AttentionKernel kernel =
      element == Element::kFloat32 ? kernels().attend_float32 : kernels().attend_bfloat16;
  const int64_t items = call.sequences * call.key_heads * call.queries;
  const bool share = pool && items * call.keys * call.d > kWorthSharing;
  const auto shares = share ? std::min<int64_t>(items, static_cast<int64_t>(pool->size())) : 1;
  const auto run = [&](size_t i) {
    const auto own = static_cast<int64_t>(i);
    std::vector<float> scratch(static_cast<size_t>(call.scratch_floats()));
    kernel(call, items * own / shares, items * (own + 1) / shares, scratch.data());
  };
  if (shares == 1) return run(0);
  pool->for_each(static_cast<size_t>(shares), run);
}

}  // namespace tasc
