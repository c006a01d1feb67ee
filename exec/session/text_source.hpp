#pragma once

// Texts that an encoder reads while a session serves them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/transport/transport.hpp"

namespace tandem::exec {

// Asked by the thread that serves, between texts.
class TextSource {
 public:
  virtual ~TextSource() = default;
  // Whether serving ends.
  [[nodiscard]] virtual bool is_closed() const = 0;
  // Returns the tokens of the next text, no longer than what is served; nothing if there is none
  // now.
  [[nodiscard]] virtual std::optional<std::vector<std::int32_t>> next_text() = 0;
  // Waits until there is a text or the source closes, until `deadline` at the latest.
  virtual void await_text(Clock::time_point deadline) = 0;
  // The last hidden states of the text that next_text() returned last, [tokens, hidden].
  virtual void on_hidden(std::span<const float> states) = 0;
};

}  // namespace tandem::exec
