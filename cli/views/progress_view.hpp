#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "advice/progress.hpp"
#include "advice/question.hpp"

namespace tandem::cli {

// A line on standard error that says how much of the work is done; nothing unless that is a
// terminal.
class ProgressLine : public study::Progress {
 public:
  // `label` begins the line.
  ProgressLine(std::string label, bool shown);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() override;  // removes the line

  void expect(std::size_t total) override;
  void advance(std::size_t parts) override;

 private:
  void draw();

  std::string label_;
  bool shown_;
  std::size_t total_ = 0;
  std::size_t done_ = 0;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point last_;
};

// A line on standard error with the best plan so far; nothing unless that is a terminal.
class BestSoFarLine {
 public:
  explicit BestSoFarLine(bool shown);
  BestSoFarLine(const BestSoFarLine&) = delete;
  BestSoFarLine& operator=(const BestSoFarLine&) = delete;
  ~BestSoFarLine();  // removes the line

  void show(const study::BestSoFar& best, double elapsed_s);

 private:
  bool shown_;
  bool drawn_ = false;
};

}  // namespace tandem::cli
