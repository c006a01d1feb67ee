// How much of a run's communication is hidden, held against timelines that are summed by hand.

#include "model/report/communication.hpp"

#include <doctest/doctest.h>

namespace tandem::model::communication_test {
namespace {

Span cpu(DeviceIndex device, double start, double end) {
  return {.lane = LaneKind::cpu, .device = device, .start = start, .end = end};
}

Span message(DeviceIndex from, DeviceIndex to, double start, double end) {
  return {.kind = TaskKind::transfer,
          .lane = LaneKind::channel,
          .device = from,
          .peer = to,
          .start = start,
          .end = end};
}

}  // namespace

TEST_CASE("model/communication: of each device, the time of messages in which it computes") {
  // a: messages over [1, 4], computing in [0, 2] and [3, 3.5]; b: over [1, 3], computing in [2, 9].
  // c: over [2, 4], computing never. The disk hides nothing.
  Trace trace{.devices = {"a", "b", "c"},
              .spans = {message(0, 1, 1, 3),
                        cpu(0, 0, 2),
                        message(2, 0, 2, 4),
                        cpu(0, 3, 3.5),
                        cpu(1, 2, 9),
                        {.lane = LaneKind::disk, .device = 2, .start = 0, .end = 9}}};
  const auto sums = communication_of(trace);
  REQUIRE(sums);
  CHECK(sums->total_s == doctest::Approx(3.0 + 2.0 + 2.0));
  CHECK(sums->hidden_s == doctest::Approx(1.5 + 1.0 + 0.0));
  CHECK(sums->hidden_fraction() == doctest::Approx(2.5 / 7.0));
}

TEST_CASE("model/communication: messages at once count once, in any order, and none is no share") {
  Trace trace{.devices = {"a", "b"},
              .spans = {cpu(1, 4, 5), message(0, 1, 2, 6), message(1, 0, 0, 3), cpu(1, 4.5, 7)}};
  const auto sums = communication_of(trace);
  REQUIRE(sums);
  CHECK(sums->total_s == doctest::Approx(12.0));
  CHECK(sums->hidden_s == doctest::Approx(2.0));
  trace.spans = {cpu(0, 0, 1)};
  CHECK_FALSE(communication_of(trace));
}

TEST_CASE("model/communication: of steps alone, which the computing of any step hides") {
  // A prompt's message over [0, 4], hidden half by its own computing at the receiver; a token's
  // over [3, 6], hidden by computing of the prompt in [3, 4]. Of all steps: [0, 6] at both devices.
  Trace trace{.devices = {"a", "b"}, .spans = {message(0, 1, 0, 4), cpu(1, 2, 4)}};
  Span later = message(0, 1, 3, 6);
  later.step = 1;
  trace.spans.push_back(later);
  const auto all = communication_of(trace);
  const auto prompt = communication_of(trace, {0, 1});
  const auto tokens = communication_of(trace, {1, 2});
  REQUIRE(all);
  REQUIRE(prompt);
  REQUIRE(tokens);
  CHECK(all->total_s == doctest::Approx(12.0));
  CHECK(prompt->total_s == doctest::Approx(8.0));
  CHECK(prompt->hidden_s == doctest::Approx(2.0));
  CHECK(prompt->exposed_s() == doctest::Approx(6.0));
  CHECK(tokens->total_s == doctest::Approx(6.0));
  CHECK(tokens->hidden_s == doctest::Approx(1.0));
  CHECK_FALSE(communication_of(trace, {2, 3}));
}

}  // namespace tandem::model::communication_test
