#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace tandem::cli {

// Text that appears piece by piece on `out`, and a progress line on standard error if that is a
// terminal: below the text if `out` is the terminal too. Knows standard output by
// `out_is_terminal`.
class GenerationView {
 public:
  GenerationView(std::ostream& out, bool quiet);
  ~GenerationView();
  GenerationView(const GenerationView&) = delete;
  GenerationView& operator=(const GenerationView&) = delete;

  // What is being done before the first token.
  void stage(const std::string& text);
  // A line of its own on standard error, unless quiet.
  void remark(const std::string& warning);
  // What the run waits for: on the progress line if there is one, else a line of its own that does
  // not wait for a reader. Nothing if quiet.
  void notice(const std::string& text);
  // Throws as flush_output() does: a reader that has left, or a full disk, ends what makes the
  // text.
  void text(std::string_view piece);
  // A token is there: updates the progress line, which says `state`, or, of an empty one, how many
  // tokens there are. Without a progress line a state is printed every few seconds, on a line that
  // does not wait for a reader.
  void token(const std::string& state);
  // Ends the text's line and removes the progress line.
  void finish();

 private:
  void show(const std::string& progress);
  void hide();
  void write(std::string_view piece);

  std::ostream& out_;
  bool quiet_;
  bool progress_;  // standard error is a terminal, and wanted
  bool shared_;    // so is `out`: both are one screen
  std::size_t width_ = 80;
  std::size_t column_ = 0;  // of the text, when shared
  bool below_ = false;      // the progress line is on the screen, under the text
  bool any_text_ = false;
  bool finished_ = false;
  std::int64_t tokens_ = 0;
  std::chrono::steady_clock::time_point first_;
  std::chrono::steady_clock::time_point shown_;  // when a state was last printed
};

}  // namespace tandem::cli
