#pragma once

// SimGrid in a process of its own: it allows one engine a process, and some of its errors abort,
// exit or hang. Private to sim/.

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace tandem::sim {

using Bytes = std::span<const std::byte>;

struct ChildOptions {
  std::string subject;                // begins every message
  std::chrono::milliseconds timeout;  // zero: none
};

// Runs `body` in a forked child and hands each buffer that it sends to `receive`, here, in order.
// What the child prints is kept for the message. An Error or logic_error that leaves `body` is
// thrown again here with the same text; a child that dies, or is not done by the timeout (then it
// is killed), is an Error that ends in what it said.
void run_in_child(const ChildOptions& options,
                  const std::function<void(const std::function<void(Bytes)>& send)>& body,
                  const std::function<void(Bytes)>& receive);

}  // namespace tandem::sim
