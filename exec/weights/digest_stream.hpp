#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tandem::exec {

using Digest = std::array<std::byte, 32>;  // SHA-256

// SHA-256 of bytes that come in pieces; equals model::sha256_hex of all of them. Move-only.
class DigestStream {
 public:
  DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  ~DigestStream();

  void update(std::span<const std::byte> bytes);
  // Of what came so far; ends the stream.
  [[nodiscard]] Digest digest();
  // The same in lower-case hexadecimal.
  [[nodiscard]] std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

[[nodiscard]] std::string to_hex(const Digest& digest);

}  // namespace tandem::exec
