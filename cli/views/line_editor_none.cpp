// Lines as the terminal itself edits them: this tandem was built without libedit.

#include <unistd.h>

#include <iostream>

#include "cli/views/line_editor.hpp"

namespace tandem::cli {

struct LineEditor::State {
  bool shows = false;
};

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
  state_->shows = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (state_->shows) std::cout << prompt << std::flush;
  std::string line;
  if (std::getline(std::cin, line)) return line;
  return std::nullopt;
}

}  // namespace tandem::cli
