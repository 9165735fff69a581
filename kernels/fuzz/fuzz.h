// What the fuzzers share. Each is one LLVMFuzzerTestOneInput; `make fuzz` runs them all.
#pragma once
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

// A property of every outcome; a breach is reported as a crash of the input that shows it.
inline void hold(bool property) {
  if (!property) std::abort();
}

// `count` numbers from low to high.
template <class T>
std::vector<T> numbers(FuzzedDataProvider& from, size_t count, T low, T high) {
  std::vector<T> values(count);
  for (T& value : values) value = from.ConsumeIntegralInRange<T>(low, high);
  return values;
}

// Offsets of at most `samples` samples over `size` tokens: from 0 to size, never falling.
inline std::vector<int64_t> offsets_over(FuzzedDataProvider& from, size_t size, size_t samples) {
  std::vector<int64_t> offsets = {0};
  while (samples-- > 1) offsets.push_back(from.ConsumeIntegralInRange<int64_t>(offsets.back(), static_cast<int64_t>(size)));
  offsets.push_back(static_cast<int64_t>(size));
  return offsets;
}

// A file without a folder: it lives as long as the process, and is written over for each input.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(file_)) { hold(file_ >= 0); }
  const std::string& path() const { return path_; }
  void write(const void* data, size_t size) const {
    hold(ftruncate(file_, 0) == 0 && pwrite(file_, data, size, 0) == static_cast<ssize_t>(size));
  }

 private:
  int file_;
  std::string path_;
};
