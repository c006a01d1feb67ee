#pragma once

// What a replay in a child process tells its parent. Private to sim/.

#include <semaphore.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "model/extension.hpp"
#include "model/trace.hpp"
#include "sim/child.hpp"

namespace tandem::sim {

// Memory that a process shares with the child that it forks after this is made: blocks of spans,
// which the child fills and the parent reads in turn, so that none is copied.
class SpanBlocks {
 public:
  static constexpr std::size_t kBlocks = 4;
  static constexpr std::size_t kSpans = 2048;  // in a block

  SpanBlocks();  // throws std::system_error
  ~SpanBlocks();
  SpanBlocks(const SpanBlocks&) = delete;
  SpanBlocks& operator=(const SpanBlocks&) = delete;

  // In the child: the next block, once the parent has read what it held.
  [[nodiscard]] std::span<model::Span> take();
  // In the parent: the first `count` spans of the block that was taken first of those not yet
  // given back.
  [[nodiscard]] std::span<const model::Span> read(std::size_t count) const;
  void give_back();

 private:
  struct Shared {
    sem_t free;  // blocks that the child may take
    std::array<model::Span, kBlocks * kSpans> spans;
  };
  [[nodiscard]] std::span<model::Span> block(std::size_t number) const;

  Shared* shared_;
  std::size_t next_ = 0;  // block, of the process that asks
};

// Sends spans, many at once, blends and scheduled steps, in the order in which they are added.
class FrameWriter {
 public:
  FrameWriter(const std::function<void(Bytes)>& send, SpanBlocks& blocks);
  void add(const model::Span& span) {
    if (held_ == block_.size()) block_ = blocks_->take();
    block_[held_++] = span;
    if (held_ == block_.size()) flush();
  }
  void add(const model::StepBlend& blend);
  void add(const model::ScheduledStep& step);
  // Sends the spans held back. To be called once all are added.
  void flush();

 private:
  const std::function<void(Bytes)>* send_;
  SpanBlocks* blocks_;
  std::span<model::Span> block_;  // being filled; empty: none
  std::size_t held_ = 0;          // spans in it
};

// Who takes what a frame holds; what is left out must not come.
struct FrameReader {
  std::function<void(std::span<const model::Span>)> spans;
  std::function<void(const model::StepBlend&)> blend{};
  std::function<void(const model::ScheduledStep&)> step{};
};
void read_frame(Bytes frame, SpanBlocks& blocks, const FrameReader& reader);

}  // namespace tandem::sim
