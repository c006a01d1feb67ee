// Lines edited by libedit.

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <iostream>

#include "cli/views/line_editor.hpp"

namespace tandem::cli {

struct LineEditor::State {
  bool edits = false;
  std::string prompt;
  EditLine* editor = nullptr;
  History* history = nullptr;
};

namespace {

char* shown_prompt(EditLine* editor) {
  void* text = nullptr;
  el_get(editor, EL_CLIENTDATA, &text);
  return static_cast<std::string*>(text)->data();
}

}  // namespace

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
  state_->edits = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  if (!state_->edits) return;
  std::setlocale(LC_CTYPE, "C.UTF-8");  // characters of several bytes are one
  state_->editor = el_init("tandem", stdin, stdout, stderr);
  state_->history = history_init();
  state_->edits = state_->editor != nullptr && state_->history != nullptr;
  if (!state_->edits) return;
  constexpr int kLines = 1000;
  HistEvent event{};
  history(state_->history, &event, H_SETSIZE, kLines);
  el_set(state_->editor, EL_CLIENTDATA, &state_->prompt);
  el_set(state_->editor, EL_PROMPT, shown_prompt);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_HIST, history, state_->history);
}

LineEditor::~LineEditor() {
  if (state_->history != nullptr) history_end(state_->history);
  if (state_->editor != nullptr) el_end(state_->editor);
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  std::string line;
  if (!state_->edits) {
    if (std::getline(std::cin, line)) return line;
    return std::nullopt;
  }
  state_->prompt = prompt;
  int count = 0;
  const char* const typed = el_gets(state_->editor, &count);
  if (typed == nullptr || count <= 0) return std::nullopt;
  line.assign(typed, static_cast<std::size_t>(count));
  if (line.find_first_not_of(" \t\n") != std::string::npos) {
    HistEvent event{};
    history(state_->history, &event, H_ENTER, typed);
  }
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

}  // namespace tandem::cli
