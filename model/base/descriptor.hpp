#pragma once

#include <utility>

namespace tandem::model {

// An open file descriptor (a file, a pipe, a socket), closed when this object ends. Move-only.
class Descriptor {
 public:
  Descriptor() = default;  // none
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  // The descriptor's number; -1: there is none.
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  // Closes it, if there is one. What the system says of that is lost.
  void close() noexcept;
  // Gives it away: the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

}  // namespace tandem::model
