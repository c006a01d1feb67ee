#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tandem::cli {

// A line on standard error that says how much of the work is done; nothing unless that is a
// terminal.
class Progress {
 public:
  // `label` begins the line.
  Progress(std::string label, bool shown);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // removes the line

  void expect(std::size_t total);
  void advance(std::size_t parts = 1);

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

}  // namespace tandem::cli
