#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tandem::exec {

// SHA-256 of bytes that come in pieces; equals model::sha256_hex of all of them. Move-only.
class DigestStream {
 public:
  DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  ~DigestStream();

  void update(std::span<const std::byte> bytes);
  // Lower-case hexadecimal of what came so far; ends the stream.
  [[nodiscard]] std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace tandem::exec
