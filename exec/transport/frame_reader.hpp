#pragma once

// Cuts a stream of bytes into messages. Private to transport/.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "exec/transport/wire.hpp"

namespace tandem::exec {

class FrameReader {
 public:
  // Takes bytes from the front of `bytes` until a message is whole; returns it, or nothing when the
  // bytes are used up. Throws Error as the wire's parsers do; the stream is lost after that.
  std::optional<Message> next(std::span<const std::byte>& bytes) {
    if (!header_) {
      fill(bytes, std::span(head_).subspan(got_));
      if (got_ < head_.size()) return std::nullopt;
      header_ = parse_frame_header(head_);
      got_ = 0;
      body_.resize(header_->body_bytes);
    }
    fill(bytes, std::span(body_).subspan(got_));
    if (got_ < body_.size()) return std::nullopt;
    Message message = parse_body(*header_, body_);
    bytes_ = kFrameHeaderBytes + body_.size();
    if (body_.capacity() > kIdleBytes) body_ = {};
    header_.reset();
    got_ = 0;
    return message;
  }

  static constexpr std::size_t kIdleBytes = 4096;  // that it may keep between messages

  // Of the message that next() returned last, on the wire.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void fill(std::span<const std::byte>& bytes, std::span<std::byte> room) {
    const std::size_t size = std::min(bytes.size(), room.size());
    std::copy_n(bytes.begin(), size, room.begin());
    bytes = bytes.subspan(size);
    got_ += size;
  }

  std::array<std::byte, kFrameHeaderBytes> head_{};
  std::optional<FrameHeader> header_;
  std::vector<std::byte> body_;
  std::size_t got_ = 0;  // of the head, then of the body
  std::size_t bytes_ = 0;
};

}  // namespace tandem::exec
