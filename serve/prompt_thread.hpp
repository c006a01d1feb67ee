#pragma once

// A thread that reads requests and makes tokens of their texts, as a long one takes a while.

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>

#include "serve/http_exchange.hpp"

namespace tandem::serve {

struct PromptLimits {
  // Requests that wait to be read, and their bytes; one of any length may.
  std::size_t bodies = 1024;
  std::size_t bytes = std::size_t{64} << 20U;
};

class PromptThread {
 public:
  explicit PromptThread(const PromptLimits& limits) : limits_(limits) {}
  ~PromptThread() { end(); }
  PromptThread(const PromptThread&) = delete;
  PromptThread& operator=(const PromptThread&) = delete;

  // Calls `read` there. Throws ApiError 429 if too many wait. Of one thread.
  void post(HttpRequest request, std::function<void(const HttpRequest& request)> read);
  // Abandons what waits.
  void end();

 private:
  PromptLimits limits_;
  std::atomic<std::size_t> bodies_ = 0;
  std::atomic<std::size_t> bytes_ = 0;
  boost::asio::thread_pool thread_{1};
};

}  // namespace tandem::serve
