#pragma once

#include <barrier>
#include <thread>
#include <vector>

// A CUDA block on the CPU: the shared code must synchronise wherever lanes read each other's work.
struct ThreadLanes {
  int at, lanes;
  std::barrier<>* barrier;
  int index() const { return at; }
  int count() const { return lanes; }
  void sync() const { barrier->arrive_and_wait(); }
};

template <class Work>
void on_lanes(int lanes, const Work& work) {
  std::barrier<> barrier(lanes);
  std::vector<std::thread> threads;
  for (int i = 0; i < lanes; ++i)
    threads.emplace_back([&, i] { work(ThreadLanes{i, lanes, &barrier}); });
  for (std::thread& thread : threads) thread.join();
}
