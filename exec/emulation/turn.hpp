#pragma once

// Whose turn it is to compute, among the emulated devices of this machine.

#include <atomic>
#include <filesystem>

namespace tandem::exec {

// What a pacer knows of turns; a test brings its own.
class Turn {
 public:
  virtual ~Turn() = default;
  // Returns when no other device computes. Throws Error if cancelled.
  virtual void take() = 0;
  // By the thread that took it.
  virtual void give_back() noexcept = 0;
  // Makes the present and every future take() throw. Any thread.
  virtual void cancel() noexcept = 0;
};

// One for all processes that share a file in memory, in the order of asking: a POSIX mutex that is
// robust (the turn of a process that died is free) and inherits priority (the kernel hands it to
// whoever waits longest instead of letting the present holder take it again).
class SharedTurn final : public Turn {
 public:
  // A new file. Throws Error with the system's reason if the kernel refuses it.
  SharedTurn();
  // The file that another process made, by the descriptor inherited from it (kept open by the
  // caller). Throws Error if it is not one.
  explicit SharedTurn(int descriptor) : SharedTurn(descriptor, /*owns=*/false) {}
  // The file that another process made, by a path such as /proc/PID/fd/N. Throws Error if it is not
  // one, or cannot be opened.
  explicit SharedTurn(const std::filesystem::path& file);
  ~SharedTurn() override;
  SharedTurn(const SharedTurn&) = delete;
  SharedTurn& operator=(const SharedTurn&) = delete;

  // To be inherited by children; stays owned by the turn.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  void take() override;
  void give_back() noexcept override;
  void cancel() noexcept override { cancelled_ = true; }

 private:
  struct Shared;
  SharedTurn(int descriptor, bool owns);
  void map();
  int descriptor_ = -1;
  bool owns_descriptor_ = false;
  Shared* shared_ = nullptr;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace tandem::exec
