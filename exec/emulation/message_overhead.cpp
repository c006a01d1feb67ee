#include "exec/emulation/message_overhead.hpp"

#include "exec/transport/measure.hpp"

namespace tandem::exec {
namespace {

MessageOverhead::Line line_of(const model::KindRate& rate) {
  return {.message_s = rate.overhead_s, .byte_s = rate.points.front().seconds_per_byte};
}

model::Seconds of_line(const MessageOverhead::Line& line, double bytes) {
  return model::Seconds{line.message_s + bytes * line.byte_s};
}

}  // namespace

model::Seconds MessageOverhead::of(std::size_t bytes, bool by_computing_thread) const {
  return of_line(by_computing_thread ? computing_thread : threads, static_cast<double>(bytes));
}

model::Seconds MessageOverhead::cpu(model::TaskKind copy, model::Bytes payload) const {
  return of_line(copy == model::TaskKind::capture ? send : receive, payload.value());
}

MessageOverhead measure_message_overhead(const model::Transformer& transformer) {
  const MessageCosts costs = measure_message_cost(weights_between_messages(transformer));
  return {.threads = line_of(costs.transfer),
          .computing_thread = line_of(costs.inlined.transfer),
          .send = line_of(costs.inlined.send),
          .receive = line_of(costs.inlined.receive)};
}

}  // namespace tandem::exec
