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
  std::string subject;                // prefix of every message
  std::chrono::milliseconds timeout;  // zero: none
  std::string failed{};               // what a child that dies could not do; empty: unknown
};

// Runs `body` in a forked child and passes each buffer that it sends to `receive` in this process,
// in order. Captures the child's output. Rethrows an Error or logic_error of `body` with the same
// text; a child that dies, or exceeds the timeout and is killed, is an Error that ends in its
// output.
void run_in_child(const ChildOptions& options,
                  const std::function<void(const std::function<void(Bytes)>& send)>& body,
                  const std::function<void(Bytes)>& receive);

}  // namespace tandem::sim
