#include "exec/session/report_gathering.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "exec/machine/process_facts.hpp"
#include "exec/weights/files/boot_id.hpp"
#include "model/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr int kClockPings = 8;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace

ReportGathering::ReportGathering(Control& control, const planner::Plan& plan,
                                 std::vector<std::size_t> most_records,
                                 std::chrono::milliseconds patience)
    : control_(&control),
      plan_(&plan),
      most_records_(std::move(most_records)),
      patience_(patience) {}

DeviceAccount ReportGathering::account_of(model::DeviceIndex d) {
  DeviceAccount account;
  account.report = ask(d);
  const std::size_t most_records = most_records_.at(static_cast<std::size_t>(d));
  account.times.reserve(most_records);  // the run has asked for the memory
  bool last = false;
  const std::string source =
      "report of " + plan_->cluster.devices()[static_cast<std::size_t>(d)].name;
  while (!last) {
    const auto piece = control_->expect<Report>(d, Clock::now() + patience_);
    if (piece.kind != ReportKind::spans) throw Error(source + ": metrics twice, expected spans");
    decode_times(piece.bytes, source, account.times);
    last = piece.last;
    if (account.times.size() > most_records || (piece.bytes.empty() && !last)) {
      throw Error(source + ": " + std::to_string(account.times.size()) +
                  " records and no end, expected at most " + std::to_string(most_records) +
                  "; install the same tandem on every device");
    }
  }
  if (!account.report.boot.empty() && account.report.boot == boot_id()) return account;
  std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kClockPings; ++i) {
    const std::int64_t sent_ns = now_ns();
    const DeviceReport pong = ask(d);
    const std::int64_t back_ns = now_ns();
    if (back_ns - sent_ns >= best_ns) continue;
    best_ns = back_ns - sent_ns;
    account.clock_ahead_ns = pong.clock_ns - (sent_ns + best_ns / 2);
  }
  clock_uncertainty_s_ = std::max(clock_uncertainty_s_, static_cast<double>(best_ns) * 0.5e-9);
  return account;
}

DeviceReport ReportGathering::ask(model::DeviceIndex d) {
  control_->send(d, Ready{});
  const auto report = control_->expect<Report>(d, Clock::now() + patience_);
  const std::string source =
      "report of " + plan_->cluster.devices()[static_cast<std::size_t>(d)].name;
  if (report.kind != ReportKind::metrics) throw Error(source + ": spans, expected metrics");
  return parse_device_report(report.bytes, source);
}

}  // namespace tandem::exec
