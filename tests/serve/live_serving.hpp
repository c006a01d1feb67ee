#pragma once

// A server with a session behind it.

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "exec/serve/live_session.hpp"
#include "serve/api_service.hpp"
#include "tests/serve/http_client.hpp"

namespace tandem::testing {

// Begins a session of `plan` for `desk`, and returns once the server at `port` says that it serves.
inline void begin_session(std::optional<exec::LiveSession>& session, const planner::Plan& plan,
                          exec::ExecuteOptions options, exec::ServiceDesk& desk,
                          serve::ApiService& api, std::uint16_t port) {
  std::promise<void> ready;
  session.emplace(plan, std::move(options), desk,
                  exec::LiveSessionEvents{.on_ready =
                                              [&] {
                                                api.set_ready();
                                                ready.set_value();
                                              },
                                          .on_end = {}});
  ready.get_future().wait();
  while (ask(port, get_text("/health")).status != 200)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace tandem::testing
