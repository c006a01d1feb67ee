#pragma once

// A thread that reads requests and makes tokens of their texts, as a long one takes a while.

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "serve/api_error.hpp"
#include "serve/http_exchange.hpp"
#include "serve/http_server.hpp"

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
  // Calls `prepare(request)` there, and with what it returns `submit(exchange, prepared)` on the
  // server's thread; what it throws is the answer. Nothing for an exchange that is gone by then,
  // with its client. `exchange` has `server` and `reply`. Throws as post().
  template <class Exchange, class Prepare, class Submit>
  void prepare(HttpRequest request, const std::shared_ptr<Exchange>& exchange, Prepare prepare,
               Submit submit) {
    post(std::move(request),
         [server = exchange->server, weak = std::weak_ptr(exchange), prepare = std::move(prepare),
          submit = std::move(submit)](const HttpRequest& waiting) {
           if (weak.expired()) return;
           try {
             auto prepared = std::make_shared<decltype(prepare(waiting))>(prepare(waiting));
             server->post([weak, submit, prepared] {
               if (const auto own = weak.lock()) submit(own, *prepared);
             });
           } catch (const std::exception& fault) {
             server->post([weak, error = as_api_error(fault)] {
               if (const auto own = weak.lock()) own->reply->send(error_answer(error));
             });
           }
         });
  }
  // Abandons what waits.
  void end();

 private:
  PromptLimits limits_;
  std::atomic<std::size_t> bodies_ = 0;
  std::atomic<std::size_t> bytes_ = 0;
  boost::asio::thread_pool thread_{1};
};

}  // namespace tandem::serve
