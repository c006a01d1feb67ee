#pragma once

// Fork and join over contiguous ranges for kernels.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

namespace tandem::exec {

// `threads` - 1 helpers and the caller. Used by one thread at a time.
class ThreadPool {
 public:
  // Helpers (and the caller, at a join) spin for at most `spin` before they sleep in the kernel; 0
  // sleeps at once, for devices that share a core. Throws logic_error unless 1 <= threads <= 1024.
  explicit ThreadPool(int threads, std::chrono::nanoseconds spin = std::chrono::microseconds(50));
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return threads_; }

  // Calls body(begin, end, thread) once for each non-empty range of [0, count): the ranges are as
  // equal as boundaries at multiples of `granule` allow, range i runs on thread i (the caller is
  // thread 0). Returns when all are done. `body` must not throw and must not use this pool.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t granule, const Body& body) {
    const std::int64_t units = (count + granule - 1) / granule;
    const auto used = static_cast<int>(std::min<std::int64_t>(units, threads_));
    const auto range = [&, units, used](int thread) {
      const std::int64_t begin = std::min(units * thread / used * granule, count);
      const std::int64_t end = std::min(units * (thread + 1) / used * granule, count);
      if (begin < end) body(begin, end, thread);
    };
    if (used <= 1) {
      if (used == 1) range(0);
      return;
    }
    run(
        used, [](const void* f, int thread) { (*static_cast<const decltype(range)*>(f))(thread); },
        &range);
  }

 private:
  using Call = void (*)(const void* body, int thread);
  void run(int used, Call call, const void* body);

  struct Shared;
  int threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace tandem::exec
