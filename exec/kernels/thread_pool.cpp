#include "exec/kernels/thread_pool.hpp"

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "exec/kernels/scratch.hpp"
#include "model/base/error.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tandem::exec {

namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when `value` is no longer `old`: a bounded spin, then sleep.
void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old,
                  std::chrono::nanoseconds spin) {
  constexpr int kChecksPerClockRead = 64;
  if (spin.count() > 0) {
    const auto give_up = std::chrono::steady_clock::now() + spin;
    do {
      for (int i = 0; i < kChecksPerClockRead; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        relax();
      }
      // The other thread may be waiting for this very core.
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < give_up);
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::Shared {
  // A cache line that the caller writes: the job before `generation` grows, which helpers await.
  alignas(64) std::atomic<std::uint32_t> generation{0};
  int used = 0;
  Call call = nullptr;
  const void* body = nullptr;
  std::chrono::nanoseconds spin{0};
  std::vector<std::jthread> helpers;
  bool stop = false;
  std::atomic<bool> lacks_memory = false;
  // And one that helpers write: how many have not finished the job.
  alignas(64) std::atomic<std::uint32_t> running{0};

  void help(int thread) {
    try {
      static_cast<void>(kernel_scratch());  // now, not in the middle of a step
    } catch (const std::bad_alloc&) {
      lacks_memory = true;
    }
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    std::uint32_t seen = 0;
    while (true) {
      await_change(generation, seen, spin);
      ++seen;  // the caller starts no job before all helpers have finished the last one
      if (stop) return;
      if (thread < used) call(body, thread);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }

  void start() {
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
  }

  void await_helpers() {
    for (std::uint32_t left = 0; (left = running.load(std::memory_order_acquire)) != 0;)
      await_change(running, left, spin);
  }

  void end() {
    stop = true;
    start();
    helpers.clear();  // joins
  }
};

ThreadPool::ThreadPool(int threads, std::chrono::nanoseconds spin)
    : threads_(threads), shared_(std::make_unique<Shared>()) {
  require(threads >= 1 && threads <= 1024, "a thread pool has 1 to 1024 threads");
  static_cast<void>(kernel_scratch());
  shared_->spin = spin;
  shared_->helpers.reserve(static_cast<std::size_t>(threads - 1));
  shared_->running = static_cast<std::uint32_t>(threads - 1);
  try {
    for (int i = 1; i < threads; ++i) {
      shared_->helpers.emplace_back([shared = shared_.get(), i] { shared->help(i); });
    }
    shared_->await_helpers();
    if (shared_->lacks_memory) throw std::bad_alloc();
  } catch (...) {
    shared_->end();  // helpers wait for a job, and would for ever
    throw;
  }
}

ThreadPool::~ThreadPool() { shared_->end(); }

void ThreadPool::run(int used, Call call, const void* body) {
  shared_->call = call;
  shared_->body = body;
  shared_->used = used;
  shared_->running.store(static_cast<std::uint32_t>(threads_ - 1), std::memory_order_relaxed);
  shared_->start();
  call(body, 0);
  shared_->await_helpers();
}

}  // namespace tandem::exec
