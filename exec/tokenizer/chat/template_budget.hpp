#pragma once

// Limits on the cost of one chat template: templates are untrusted.

#include <cstddef>
#include <cstdint>
#include <string>

namespace tandem::exec::chat {

// Throws Error("chat template: " + fault).
[[noreturn]] void fail(const std::string& fault);

// The work for rendering one template. Every operation charges what it reads and makes, so that no
// operation and no number of them runs for long. Throws Error when the budget is exhausted.
class Budget {
 public:
  // Charges the evaluation of one expression or statement.
  void step() { charge(kStep); }
  // Charges `bytes` that are read.
  void read(std::size_t bytes) { charge(bytes); }
  // Charges `bytes` of memory that are written; also bounds the memory of all values together.
  void make(std::size_t bytes);
  // Throws Error unless a text of `bytes` is at most 16 MiB.
  static void expect_text(std::size_t bytes);

 private:
  static constexpr std::uint64_t kStep = 1024;
  void charge(std::uint64_t work);

  std::uint64_t left_ = std::uint64_t{1} << 32U;
};

// Counts nested evaluations. Throws Error beyond `most` levels.
class Depth {
 public:
  Depth(int& depth, int most);
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() { --*depth_; }

 private:
  int* depth_;
};

}  // namespace tandem::exec::chat
