#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace tandem::cli {

// Lines for standard error, from threads that must not wait for whoever reads them: a thread of its
// own writes. When too many wait, later ones are left out, and counted. Thread-safe.
class LineLog {
 public:
  // `prefix` begins every line.
  explicit LineLog(std::string prefix, int descriptor = 2);
  // Gives the reader a moment for what waits, and leaves the rest.
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void write(const std::string& line);

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's too, which may be left behind
};

// Writes a line of at most 4096 bytes, if the reader makes room for it within `patience`; else it
// is lost.
void write_if_possible(int descriptor, const std::string& line,
                       std::chrono::milliseconds patience = {}) noexcept;

}  // namespace tandem::cli
