#pragma once

#include <cstddef>

namespace tandem::study {

// Receives the progress of a study. The program draws a line of it.
class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  virtual ~Progress() = default;

  // Sets the number of parts of the work.
  virtual void expect(std::size_t total) = 0;
  // Reports so many more parts as done.
  virtual void advance(std::size_t parts) = 0;
};

}  // namespace tandem::study
