#include "tasc/thread_pool.h"

#include <atomic>
#include <cassert>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

int main() {
  for (const size_t size : {1, 2, 5}) {
    tasc::ThreadPool pool(size);
    assert(pool.size() == size);
    const auto caller = std::this_thread::get_id();
    std::atomic<size_t> elsewhere = 0;
    for (size_t call = 0; call < 500; ++call) {
      const size_t count = call % 40;
      const auto wait = std::chrono::microseconds(call % 3 == 0 ? 20 : 0);  // then the next is shared
      std::vector<int> calls(count);
      pool.for_each(count, [&](size_t i) {
        ++calls[i];
        elsewhere += std::this_thread::get_id() != caller;
        std::this_thread::sleep_for(wait);
      });
      for (const int each : calls) assert(each == 1);
    }
    assert(size > 1 || elsewhere == 0);
    if (size > 1) {  // a call after a long one is shared: each of the two waits for the other
      std::atomic<size_t> begun = 0;
      pool.for_each(2, [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
      pool.for_each(2, [&](size_t) {
        for (++begun; begun < 2;) std::this_thread::yield();
      });
    }

    std::vector<int> calls(30);
    bool thrown = false;
    try {
      pool.for_each(30, [&](size_t i) {
        ++calls[i];
        if (i == 7) throw std::runtime_error("seven");
      });
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    assert(thrown && std::accumulate(calls.begin(), calls.end(), 0) == 30);
    pool.for_each(3, [&](size_t i) { ++calls[i]; });  // goes on, and throws no more
    assert(calls[2] == 2);
  }
  tasc::ThreadPool unused(4);
}
