// Counting runs: what was counted reads back the same in one merge or two, and any bytes in place of
// a run are refused or merged within memory.
#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz.h"
#include "tasc/ngram_count.h"

namespace {

const MemoryFile files[4];

bool same(const tasc::Counted& a, const tasc::Counted& b) {
  for (size_t n = 0; n < a.spectra.size(); ++n) {
    const tasc::Spectrum &x = a.spectra[n], &y = b.spectra[n];
    if (x.counts != y.counts || x.times != y.times || x.top_ids != y.top_ids || x.top_counts != y.top_counts) return false;
  }
  return a.ids == b.ids && a.counts == b.counts;
}

// Merges the files directly, and joined first; both agree, or both refuse.
void merge(const std::vector<std::string>& paths) {
  tasc::Counted direct;
  bool refused = false;
  try {
    direct = tasc::merge_runs(paths, 3);
  } catch (const std::runtime_error&) {
    refused = true;
  }
  try {
    tasc::join_runs(paths, files[3].path());
    hold(!refused && same(direct, tasc::merge_runs({files[3].path()}, 3)));
  } catch (const std::runtime_error&) {
    hold(refused);
  }
  for (const tasc::Spectrum& s : direct.spectra) {
    hold(std::all_of(s.counts.begin(), s.counts.end(), [](int64_t c) { return c > 0; }));
    hold(std::all_of(s.top_ids.begin(), s.top_ids.end(), [](int32_t id) { return id >= 0; }));
  }
}

// A run of random counts, as the writer makes it.
void write_good(std::mt19937& random, const std::string& path) {
  std::vector<int32_t> tokens(random() % 24);
  const auto ids = static_cast<uint32_t>(random() % 3 ? 4 : tasc::kLargestId);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % ids);
  const std::vector<int64_t> offsets = {0, static_cast<int64_t>(tokens.size() / 2), static_cast<int64_t>(tokens.size())};
  tasc::write_counts(tokens, offsets, std::vector<int64_t>(2, 1 + random() % 3), path);
}

}  // namespace

// Input: one byte that says where to cut, then the bytes of two runs.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t cut = std::min<size_t>(8 * (data[0] / 2), size - 1);
  files[0].write(data + 1, cut);
  files[1].write(data + 1 + cut, size - 1 - cut);
  std::vector<std::string> paths = {files[0].path(), files[1].path()};
  if (data[0] % 2) {
    std::mt19937 random(data[0]);
    write_good(random, files[2].path());
    paths.push_back(files[2].path());
  }
  merge(paths);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// Now and then a good run takes the position of the bytes, or a word of them gets a border value.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 4 == 0 || size < 9) {
    write_good(random, files[2].path());
    std::FILE* const file = std::fopen(files[2].path().c_str(), "rb");
    hold(file != nullptr && most > 1);
    data[0] = static_cast<uint8_t>(random());
    size = 1 + std::fread(data + 1, 1, most - 1, file);
    std::fclose(file);
    return size;
  }
  if (random() % 2) return LLVMFuzzerMutate(data, size, most);
  constexpr uint64_t kBorders[] = {0, 1, uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 31, (uint64_t{1} << 53) - 1};
  const uint64_t border = kBorders[random() % 6];
  uint64_t word;
  uint8_t* const at = data + 1 + 8 * (random() % ((size - 1) / 8));
  std::memcpy(&word, at, 8);
  word = random() % 2 ? border : word ^ border;
  std::memcpy(at, &word, 8);
  return size;
}
