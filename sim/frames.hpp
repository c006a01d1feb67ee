#pragma once

// What a replay in a child process tells its parent. Private to sim/.

#include <cstddef>
#include <functional>
#include <vector>

#include "model/extension.hpp"
#include "model/trace.hpp"
#include "sim/child.hpp"

namespace tandem::sim {

// Sends spans, many to a frame, and blends, in the order in which they are added.
class FrameWriter {
 public:
  explicit FrameWriter(const std::function<void(Bytes)>& send);
  void add(const model::Span& span);
  void add(const model::StepBlend& blend);
  // Sends the spans held back. To be called once all are added.
  void flush();

 private:
  const std::function<void(Bytes)>* send_;
  std::vector<model::Span> spans_;
  std::vector<std::byte> frame_;
};

// Hands what a frame holds to `span`, one by one, or to `blend`.
void read_frame(Bytes frame, const std::function<void(const model::Span&)>& span,
                const std::function<void(const model::StepBlend&)>& blend);

}  // namespace tandem::sim
