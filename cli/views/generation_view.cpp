#include "cli/views/generation_view.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "cli/views/line_log.hpp"
#include "cli/views/standard_output.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {

GenerationView::GenerationView(std::ostream& out, bool quiet)
    : out_(out),
      quiet_(quiet),
      progress_(!quiet && isatty(STDERR_FILENO) == 1),
      shared_(progress_ && &out == &std::cout && isatty(STDOUT_FILENO) == 1) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) width_ = size.ws_col;
}

GenerationView::~GenerationView() { finish(); }

void GenerationView::stage(const std::string& text) {
  if (progress_ && tokens_ == 0 && !any_text_) show(text);
}

void GenerationView::remark(const std::string& warning) {
  if (quiet_) return;
  hide();
  if (shared_ && any_text_ && !finished_ && column_ > 0) {
    out_ << '\n' << std::flush;
    column_ = 0;
  }
  std::cerr << "tandem: " << warning << std::endl;
}

void GenerationView::notice(const std::string& text) {
  if (quiet_) return;
  if (progress_) return show(text);
  write_if_possible(STDERR_FILENO, "tandem: " + text + "\n");
}

void GenerationView::show(const std::string& progress) {
  const std::string line = progress.substr(0, width_ - 1);
  if (shared_ && any_text_) {
    out_ << std::flush;
    std::cerr << '\n' << "\x1b[2K" << line << std::flush;
  } else {
    std::cerr << "\r\x1b[2K" << line << std::flush;
  }
  below_ = true;
}

void GenerationView::hide() {
  if (!below_) return;
  std::cerr << "\r\x1b[2K";
  // Back up to where the text stopped.
  if (shared_ && any_text_) std::cerr << "\x1b[A\x1b[" << column_ + 1 << 'G';
  std::cerr << std::flush;
  below_ = false;
}

void GenerationView::text(std::string_view piece) {
  if (piece.empty()) return;
  if (shared_) hide();
  if (!any_text_ && progress_ && !shared_) hide();
  any_text_ = true;
  write(piece);
  flush_output(out_);
}

void GenerationView::write(std::string_view piece) {
  if (!shared_) {
    out_ << piece;
    return;
  }
  // Lines are broken here, so that the column is known; a character is taken as one cell wide.
  for (const char byte : piece) {
    const bool starts_character = (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
    if (byte == '\n') {
      column_ = 0;
    } else if (starts_character) {
      if (column_ + 1 >= width_) {
        out_ << '\n';
        column_ = 0;
      }
      ++column_;
    }
    out_ << byte;
  }
}

void GenerationView::token(const std::string& state) {
  const auto now = std::chrono::steady_clock::now();
  if (tokens_++ == 0) first_ = shown_ = now;
  if (!progress_) {
    constexpr std::chrono::seconds kBetween{2};
    if (quiet_ || state.empty() || now - shown_ < kBetween) return;
    shown_ = now;
    write_if_possible(STDERR_FILENO, "tandem: " + state + "\n");
    return;
  }
  std::string line = state;
  if (line.empty()) line = std::to_string(tokens_) + (tokens_ == 1 ? " token" : " tokens");
  if (state.empty() && tokens_ > 1) {
    const double seconds = std::chrono::duration<double>(now - first_).count();
    line +=
        ", " + model::fixed(seconds * 1e3 / static_cast<double>(tokens_ - 1), 1) + " ms a token";
  }
  if (shared_) hide();
  show(line);
}

void GenerationView::finish() {
  if (finished_) return;
  finished_ = true;
  hide();
  if (any_text_) out_ << '\n' << std::flush;
}

}  // namespace tandem::cli
