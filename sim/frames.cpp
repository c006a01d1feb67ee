#include "sim/frames.hpp"

#include <cstdint>
#include <cstring>
#include <span>

namespace tandem::sim {
namespace {

// The first word of a frame: what the rest of it holds.
enum class Content : std::uint64_t { spans, blend };

// Spans in a frame.
constexpr std::size_t kSpans = 4096;

void send_frame(const std::function<void(Bytes)>& send, Content content, Bytes bytes,
                std::vector<std::byte>& frame) {
  frame.resize(sizeof content + bytes.size());
  std::memcpy(frame.data(), &content, sizeof content);
  std::memcpy(frame.data() + sizeof content, bytes.data(), bytes.size());
  send(frame);
}

}  // namespace

FrameWriter::FrameWriter(const std::function<void(Bytes)>& send) : send_(&send) {
  spans_.reserve(kSpans);
}

void FrameWriter::add(const model::Span& span) {
  spans_.push_back(span);
  if (spans_.size() == kSpans) flush();
}

void FrameWriter::add(const model::StepBlend& blend) {
  flush();
  send_frame(*send_, Content::blend, std::as_bytes(std::span(&blend, 1)), frame_);
}

void FrameWriter::flush() {
  if (!spans_.empty()) {
    send_frame(*send_, Content::spans, std::as_bytes(std::span<const model::Span>(spans_)), frame_);
  }
  spans_.clear();
}

void read_frame(Bytes frame, const std::function<void(const model::Span&)>& span,
                const std::function<void(const model::StepBlend&)>& blend) {
  Content content{};
  std::memcpy(&content, frame.data(), sizeof content);
  const Bytes bytes = frame.subspan(sizeof content);
  switch (content) {
    case Content::spans:
      for (std::size_t at = 0; at + sizeof(model::Span) <= bytes.size();
           at += sizeof(model::Span)) {
        model::Span one;
        std::memcpy(&one, bytes.data() + at, sizeof one);
        span(one);
      }
      return;
    case Content::blend:
      model::StepBlend one;
      std::memcpy(&one, bytes.data(), sizeof one);
      blend(one);
      return;
  }
}

}  // namespace tandem::sim
