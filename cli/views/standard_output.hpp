#pragma once

// Standard output: a reader that leaves, a disk that is full, a descriptor that is not open.

#include <exception>
#include <iosfwd>

namespace tandem::cli {

// Nobody reads standard output any more, as in `tandem run | head -c 1`: whoever closed it knows,
// so the process ends without a word, with the exit code that SIGPIPE would have given.
class ReaderGone : public std::exception {
 public:
  static constexpr int kExitCode = 141;  // 128 + SIGPIPE
  [[nodiscard]] const char* what() const noexcept override {
    return "nobody reads standard output any more";
  }
};

// Whether the pipe or connection that standard output is has lost its reader.
[[nodiscard]] bool reader_gone() noexcept;

// Hands on what was written to `out`. Throws ReaderGone, or Error with the system's reason, if it
// cannot be written.
void flush_output(std::ostream& out);

// Opens /dev/null for every standard descriptor that is closed, the wrong way round, so that using
// it fails: else the next file or connection that is opened would get its number, and be sent text.
void occupy_standard_descriptors() noexcept;

}  // namespace tandem::cli
