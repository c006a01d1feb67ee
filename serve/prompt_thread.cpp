#include "serve/prompt_thread.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "serve/api_error.hpp"

namespace tandem::serve {

void PromptThread::post(HttpRequest request, std::function<void(const HttpRequest& request)> read) {
  const std::size_t bytes = request.body.size();
  const bool fits = bodies_ < limits_.bodies && (bodies_ == 0 || bytes_ + bytes <= limits_.bytes);
  if (!fits)
    throw ApiError(429, "too many prompts wait to be read; try again later", "",
                   "server_overloaded");
  ++bodies_;
  bytes_ += bytes;
  boost::asio::post(thread_, [this, bytes, request = std::move(request), read = std::move(read)] {
    read(request);
    bytes_ -= bytes;
    --bodies_;
  });
}

void PromptThread::end() {
  thread_.stop();
  thread_.join();
}

}  // namespace tandem::serve
