#include "exec/emulation/message_overhead.hpp"

#include "exec/transport/measure.hpp"

namespace tandem::exec {
namespace {

MessageOverhead::Line line_of(const model::KindRate& rate) {
  return {.message_s = rate.overhead_s, .byte_s = rate.points.front().seconds_per_byte};
}

}  // namespace

model::Seconds MessageOverhead::of(std::size_t bytes, bool by_computing_thread) const {
  const Line& line = by_computing_thread ? computing_thread : threads;
  return model::Seconds{line.message_s + static_cast<double>(bytes) * line.byte_s};
}

MessageOverhead measure_message_overhead() {
  const MessageCosts costs = measure_message_cost();
  return {.threads = line_of(costs.transfer), .computing_thread = line_of(costs.inlined.transfer)};
}

}  // namespace tandem::exec
