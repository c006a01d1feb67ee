#include "exec/session/rejection_log.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tandem::exec::rejection_log_test {
namespace {

TEST_CASE("transport/rejections: the first few are said, the others counted, then it begins anew") {
  std::vector<std::string> lines;
  RejectionLog log([&](const std::string& line) { lines.push_back(line); });
  Clock::time_point now = Clock::now();
  for (int i = 0; i < 600; ++i) {
    log.add("client " + std::to_string(i) + ": slow handshake", now);
    now += std::chrono::milliseconds(1);
  }
  REQUIRE(lines.size() == RejectionLog::kLines);
  CHECK(lines[0] == "client turned away: client 0: slow handshake");
  log.settle(now);
  CHECK(lines.size() == RejectionLog::kLines);  // the ten seconds are not over
  now += RejectionLog::kWindow;
  log.settle(now);
  REQUIRE(lines.size() == RejectionLog::kLines + 1);
  CHECK(lines.back() == "clients turned away: and 595 more");
  log.add("client 600: slow handshake", now);
  CHECK(lines.back() == "client turned away: client 600: slow handshake");
  log.settle(now + RejectionLog::kWindow);
  CHECK(lines.size() == RejectionLog::kLines + 2);
}

}  // namespace
}  // namespace tandem::exec::rejection_log_test
