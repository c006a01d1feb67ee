#pragma once

// Lines that a user types, with editing and a history if libedit is there and both ends are
// terminals.

#include <memory>
#include <optional>
#include <string>

namespace tandem::cli {

// Signals are the caller's affair: the editor installs no handlers.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Returns the next line without its end, or nothing at the end of the input. `prompt` is shown on
  // terminals only.
  [[nodiscard]] std::optional<std::string> read(const std::string& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::cli
