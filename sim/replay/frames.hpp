#pragma once

// The output of a replay, to this process or to the parent. Private to sim/.

#include <semaphore.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/predict/step_extrapolation.hpp"
#include "model/report/trace.hpp"
#include "sim/network/child.hpp"

namespace tandem::sim {

// Memory shared with a child that is forked after construction: blocks of spans, which the child
// fills and the parent reads in turn, without copies.
class SpanBlocks {
 public:
  static constexpr std::size_t kBlocks = 4;
  static constexpr std::size_t kSpans = 2048;  // in a block

  SpanBlocks();  // throws std::system_error
  ~SpanBlocks();
  SpanBlocks(const SpanBlocks&) = delete;
  SpanBlocks& operator=(const SpanBlocks&) = delete;

  // In the child: returns the next block, once the parent has read its previous contents.
  [[nodiscard]] std::span<model::Span> take();
  // In the parent: returns the first `count` spans of the oldest block not yet returned to the
  // child.
  [[nodiscard]] std::span<const model::Span> read(std::size_t count) const;
  void give_back();

 private:
  struct Shared {
    sem_t free;  // blocks that the child may fill
    std::array<model::Span, kBlocks * kSpans> spans;
  };
  [[nodiscard]] std::span<model::Span> block(std::size_t number) const;

  Shared* shared_;
  std::size_t next_ = 0;  // block, of the calling process
};

// Receives a replay's output in order: spans in batches, blends and scheduled steps.
class Output {
 public:
  virtual ~Output() = default;
  void add(const model::Span& span) {
    if (held_ == block_.size()) block_ = next_block();
    block_[held_++] = span;
    if (held_ == block_.size()) flush();
  }
  virtual void add(const model::StepBlend& blend) = 0;
  virtual void add(const model::ScheduledStep& step) = 0;
  // Passes on the buffered spans. Call it once all are added.
  void flush();

 protected:
  // Returns the memory in which the next spans are buffered.
  virtual std::span<model::Span> next_block() = 0;
  virtual void hand_on(std::span<const model::Span> spans) = 0;

 private:
  std::span<model::Span> block_;  // being filled; empty: none
  std::size_t held_ = 0;          // spans in it
};

// Consumers of the output; kinds without a consumer must not occur.
struct Reader {
  std::function<void(std::span<const model::Span>)> spans;
  std::function<void(const model::StepBlend&)> blend{};
  std::function<void(const model::ScheduledStep&)> step{};
};

// In a child: sends the output to the parent.
class FrameWriter final : public Output {
 public:
  using Output::add;
  FrameWriter(const std::function<void(Bytes)>& send, SpanBlocks& blocks);
  void add(const model::StepBlend& blend) override;
  void add(const model::ScheduledStep& step) override;

 private:
  std::span<model::Span> next_block() override { return blocks_->take(); }
  void hand_on(std::span<const model::Span> spans) override;

  const std::function<void(Bytes)>* send_;
  SpanBlocks* blocks_;
};

// In one process: passes the output on directly.
class DirectOutput final : public Output {
 public:
  using Output::add;
  explicit DirectOutput(const Reader& reader) : reader_(&reader), spans_(SpanBlocks::kSpans) {}
  void add(const model::StepBlend& blend) override;
  void add(const model::ScheduledStep& step) override;

 private:
  std::span<model::Span> next_block() override { return spans_; }
  void hand_on(std::span<const model::Span> spans) override { reader_->spans(spans); }

  const Reader* reader_;
  std::vector<model::Span> spans_;
};

// Passes on the contents of a frame.
void read_frame(Bytes frame, SpanBlocks& blocks, const Reader& reader);

}  // namespace tandem::sim
