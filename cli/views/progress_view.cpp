#include "cli/views/progress_view.hpp"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kWidth = 30;  // of the bar, in characters
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

ProgressLine::ProgressLine(std::string label, bool shown)
    : label_(std::move(label)),
      shown_(shown && ::isatty(STDERR_FILENO) == 1),
      started_(Clock::now()),
      last_(started_) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
}

void ProgressLine::expect(std::size_t total) { total_ = total; }

void ProgressLine::advance(std::size_t parts) {
  done_ += parts;
  const Clock::time_point now = Clock::now();
  if (!shown_ || now - last_ < kPause) return;
  last_ = now;
  draw();
}

void ProgressLine::draw() {
  if (total_ == 0 || done_ == 0) return;
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
  const double spent = std::chrono::duration<double>(last_ - started_).count();
  std::cerr << '\r' << label_ << " [" << std::string(filled, '#')
            << std::string(kWidth - filled, '.') << "] " << done_ << " of " << total_ << ", "
            << to_text(model::Seconds{spent * (1.0 - share) / share}) << " left\033[K"
            << std::flush;
  drawn_ = true;
}

BestSoFarLine::BestSoFarLine(bool shown) : shown_(shown && ::isatty(STDERR_FILENO) == 1) {}

BestSoFarLine::~BestSoFarLine() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
}

void BestSoFarLine::show(const study::BestSoFar& best, double elapsed_s) {
  if (!shown_) return;
  std::cerr << '\r';
  if (best.strategy.empty()) {
    std::cerr << "no plan so far, ";
  } else {
    std::cerr << "best so far " << to_text(model::Seconds{best.seconds}) << " (" << best.strategy
              << ", " << best.devices << (best.devices == 1 ? " device), " : " devices), ");
  }
  std::cerr << best.candidates << (best.candidates == 1 ? " candidate, " : " candidates, ")
            << model::fixed(elapsed_s, 0) << " s\033[K" << std::flush;
  drawn_ = true;
}

}  // namespace tandem::cli
