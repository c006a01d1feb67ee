#pragma once

#include <cstddef>

namespace tandem::study {

// Is told how much of a study's work is done. The program draws a line of it.
class Progress {
 public:
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  virtual ~Progress() = default;

  // The work has `total` parts.
  virtual void expect(std::size_t total) = 0;
  // So many more of them are done.
  virtual void advance(std::size_t parts) = 0;
};

}  // namespace tandem::study
