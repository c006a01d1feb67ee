#pragma once

// What devices might have seen of a run.

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "exec/runtime/run_result.hpp"
#include "model/predict/program.hpp"

namespace tandem::testing {

// Adds up every device's records, as the device does.
inline void add_tallies(exec::StepGraphs& graphs, int steps,
                        std::vector<exec::DeviceAccount>& accounts) {
  for (std::size_t d = 0; d < accounts.size(); ++d) {
    exec::Tally tally(static_cast<model::DeviceIndex>(d));
    tally.reserve(static_cast<std::size_t>(graphs.count()), {&graphs.prompt(), &graphs.decode()});
    std::span<const exec::TaskTime> rest(accounts[d].times);
    for (int step = 0; step < steps; ++step) {
      const auto other = [step](const exec::TaskTime& time) { return time.step != step; };
      const auto size = static_cast<std::size_t>(std::ranges::find_if(rest, other) - rest.begin());
      tally.add(graphs.at(step), rest.first(size));
      rest = rest.subspan(size);
    }
    accounts[d].report.tally = tally.total();
  }
}

// Records of a run in which task i lasts from i to i + 1 ms, a capture the ms before and a delivery
// the ms after; device 1's clock is a second ahead.
inline std::vector<exec::DeviceAccount> even_accounts(const planner::Plan& plan,
                                                      exec::StepGraphs& graphs, int steps) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  std::vector<exec::DeviceAccount> accounts(plan.cluster.devices().size());
  accounts[1].clock_ahead_ns = 1'000 * kMillisecond;
  std::int64_t now = 0;
  for (int step = 0; step < steps; ++step) {
    const model::TaskGraph& graph = graphs.at(step);
    for (model::TaskIndex i = 0; i < graph.size(); ++i, now += kMillisecond) {
      const model::Task& task = graph.tasks()[static_cast<std::size_t>(i)];
      for (std::size_t d = 0; d < accounts.size(); ++d) {
        const auto device = static_cast<model::DeviceIndex>(d);
        const bool arrives = task.lane == model::LaneKind::channel && task.peer == device;
        if (task.device != device && !arrives) continue;
        const std::int64_t ahead = accounts[d].clock_ahead_ns;
        accounts[d].times.push_back({.step = step,
                                     .task = i,
                                     .start_ns = ahead + now + (arrives ? kMillisecond : 0),
                                     .end_ns = ahead + now + kMillisecond});
        if (task.lane != model::LaneKind::channel) continue;
        const std::int64_t copied = ahead + now + (arrives ? kMillisecond : -kMillisecond);
        accounts[d].times.push_back(
            {.step = step, .task = ~i, .start_ns = copied, .end_ns = copied + kMillisecond});
      }
    }
  }
  add_tallies(graphs, steps, accounts);
  return accounts;
}

// Of a run in which every lane does its actions in order, each for a time of its own and each as
// soon as what it waits for is done, or somewhat later; every clock is another one.
inline std::vector<exec::DeviceAccount> random_accounts(const planner::Plan& plan,
                                                        exec::StepGraphs& graphs, int steps,
                                                        std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  std::vector<exec::DeviceAccount> accounts(plan.cluster.devices().size());
  for (std::size_t d = 0; d < accounts.size(); ++d) {
    const bool master = static_cast<model::DeviceIndex>(d) == plan.master;
    accounts[d].clock_ahead_ns = master ? 0 : up_to(std::int64_t{1} << 50) - (1 << 20);
  }
  std::map<std::tuple<model::DeviceIndex, model::LaneKind, model::DeviceIndex>, std::int64_t> free;
  const std::int64_t begin = up_to(std::int64_t{1} << 55);
  for (int step = 0; step < steps; ++step) {
    const model::Program program(graphs.at(step));
    std::vector<std::int64_t> done(static_cast<std::size_t>(program.size()));
    for (model::ActionIndex i = 0; i < program.size(); ++i) {
      const model::LaneAction& action = program.actions()[static_cast<std::size_t>(i)];
      std::int64_t& lane =
          free.try_emplace({action.device, action.lane, action.peer}, begin).first->second;
      std::int64_t start = lane;
      for (const model::ActionIndex before : program.dependencies(i)) {
        start = std::max(start, done[static_cast<std::size_t>(before)]);
      }
      start += up_to(300);
      const bool load = action.lane == model::LaneKind::disk;
      lane = start + up_to(load ? 200'000 : 50'000);
      const bool message = action.lane == model::LaneKind::channel;
      const std::int64_t end = lane + (message ? up_to(100'000) : 0);
      done[static_cast<std::size_t>(i)] = end;
      const bool copy =
          action.kind == model::TaskKind::capture || action.kind == model::TaskKind::deliver;
      const auto record = [&](model::DeviceIndex device, std::int64_t from, std::int64_t to) {
        exec::DeviceAccount& account = accounts[static_cast<std::size_t>(device)];
        account.times.push_back({.step = step,
                                 .task = copy ? ~action.task : action.task,
                                 .start_ns = from + account.clock_ahead_ns,
                                 .end_ns = to + account.clock_ahead_ns});
      };
      record(action.device, start, lane);
      if (message) record(action.peer, end, end);
    }
  }
  add_tallies(graphs, steps, accounts);
  return accounts;
}

}  // namespace tandem::testing
