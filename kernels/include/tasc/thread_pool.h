// Threads for work of a few hundred microseconds: to start one would take a fifth of that.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tasc {

// The caller and size - 1 threads that sleep between calls, after having spun for `spin`. They do not outlive
// a fork: a pool is made in the process that uses it. One call at a time.
class ThreadPool {
 public:
  explicit ThreadPool(size_t size, std::chrono::microseconds spin = {}) : spin_(spin) {
    for (size_t t = 1; t < size; ++t) threads_.emplace_back([this, t] { serve(t); });
  }
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    called_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t size() const { return threads_.size() + 1; }

  // Calls work(i) once for every i below count; rethrows the last exception. Thread t begins with its
  // share, which is in its caches where calls resemble each other, and goes on where others are behind.
  // As long as a call is short, by what the last one took, it is the caller's alone, unless threads spin.
  void for_each(size_t count, const std::function<void(size_t)>& work) {
    taken_ = std::vector<std::atomic<bool>>(count);
    work_ = &work;
    const bool shared = spin_.count() > 0 ? count > 1 : static_cast<double>(count) * each_ > kWorthWaking;
    const auto begin = std::chrono::steady_clock::now();
    if (shared) wake();
    take(0);
    while (busy_ > 0) std::this_thread::yield();  // to be woken would take longer
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (count > 0) each_ = took.count() * static_cast<double>(shared ? size() : 1) / static_cast<double>(count);
    if (const auto failed = std::exchange(failed_, nullptr)) std::rethrow_exception(failed);
  }

 private:
  static constexpr double kWorthWaking = 200e-6;  // seconds; a thread that slept comes after 40 µs

  void wake() {
    busy_ = threads_.size();
    {
      const std::lock_guard lock(mutex_);
      ++calls_;
    }
    called_.notify_all();
  }

  void take(size_t t) {
    const size_t count = taken_.size(), begin = count * t / size();
    for (size_t k = 0; k < count; ++k) {
      const size_t i = begin + k < count ? begin + k : begin + k - count;
      if (taken_[i].exchange(true)) continue;
      try {
        (*work_)(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failed_ = std::current_exception();
      }
    }
  }

  void serve(size_t t) {
    for (uint64_t done = 0;; --busy_) {
      const auto asleep = std::chrono::steady_clock::now() + spin_;
      while (calls_ == done && !ended_ && std::chrono::steady_clock::now() < asleep) std::this_thread::yield();
      {
        std::unique_lock lock(mutex_);
        called_.wait(lock, [&] { return ended_ || calls_ != done; });
        if (ended_) return;
        done = calls_;
      }
      take(t);
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable called_;
  std::chrono::microseconds spin_;
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> calls_ = 0;
  double each_ = 0;  // seconds of one thread, in the last call
  std::atomic<size_t> busy_ = 0;
  std::vector<std::atomic<bool>> taken_;
  const std::function<void(size_t)>* work_ = nullptr;
  std::exception_ptr failed_;
};

}  // namespace tasc
