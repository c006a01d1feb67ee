#include "sim/frames.hpp"

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace tandem::sim {
namespace {

// The first word of a frame: what the rest of it holds.
enum class Content : std::uint64_t { spans, blend, step };

// Spans in a frame.
constexpr std::size_t kSpans = 4096;

static_assert(std::is_trivially_copyable_v<model::Segment>);

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

void FrameWriter::add(const model::ScheduledStep& step) {
  flush();
  const Bytes begin = std::as_bytes(std::span(&step.not_before_s, 1));
  const Bytes segments = std::as_bytes(std::span<const model::Segment>(step.batch.segments));
  std::vector<std::byte> bytes(begin.begin(), begin.end());
  bytes.insert(bytes.end(), segments.begin(), segments.end());
  send_frame(*send_, Content::step, bytes, frame_);
}

void FrameWriter::flush() {
  if (!spans_.empty()) {
    send_frame(*send_, Content::spans, std::as_bytes(std::span<const model::Span>(spans_)), frame_);
  }
  spans_.clear();
}

void read_frame(Bytes frame, const FrameReader& reader) {
  Content content{};
  std::memcpy(&content, frame.data(), sizeof content);
  const Bytes bytes = frame.subspan(sizeof content);
  switch (content) {
    case Content::spans:
      for (std::size_t at = 0; at + sizeof(model::Span) <= bytes.size();
           at += sizeof(model::Span)) {
        model::Span one;
        std::memcpy(&one, bytes.data() + at, sizeof one);
        reader.span(one);
      }
      return;
    case Content::blend: {
      model::StepBlend one;
      std::memcpy(&one, bytes.data(), sizeof one);
      reader.blend(one);
      return;
    }
    case Content::step: {
      model::ScheduledStep step;
      std::memcpy(&step.not_before_s, bytes.data(), sizeof step.not_before_s);
      const Bytes segments = bytes.subspan(sizeof step.not_before_s);
      step.batch.segments.resize(segments.size() / sizeof(model::Segment));
      std::memcpy(step.batch.segments.data(), segments.data(), segments.size());
      reader.step(step);
      return;
    }
  }
}

}  // namespace tandem::sim
