#pragma once

// What a replay in a child process tells its parent. Private to sim/.

#include <cstddef>
#include <functional>
#include <vector>

#include "model/extension.hpp"
#include "model/trace.hpp"
#include "sim/child.hpp"

namespace tandem::sim {

// Sends spans, many to a frame, blends and scheduled steps, in the order in which they are added.
class FrameWriter {
 public:
  explicit FrameWriter(const std::function<void(Bytes)>& send);
  void add(const model::Span& span);
  void add(const model::StepBlend& blend);
  void add(const model::ScheduledStep& step);  // without its cache operations, which take no time
  // Sends the spans held back. To be called once all are added.
  void flush();

 private:
  const std::function<void(Bytes)>* send_;
  std::vector<model::Span> spans_;
  std::vector<std::byte> frame_;
};

// Who takes what a frame holds; what is left out must not come.
struct FrameReader {
  std::function<void(const model::Span&)> span;  // one by one
  std::function<void(const model::StepBlend&)> blend{};
  std::function<void(const model::ScheduledStep&)> step{};
};
void read_frame(Bytes frame, const FrameReader& reader);

}  // namespace tandem::sim
