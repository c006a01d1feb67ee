#pragma once

// The state of a replay: its lanes, the structures of steps, and the steps in flight. Private to
// sim/.

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "model/predict/program.hpp"

namespace tandem::sim {

struct ActionRef {
  std::int32_t step = 0;
  model::ActionIndex action = 0;
};

struct Lane {
  std::int32_t number = 0;
  std::deque<ActionRef> actions;  // front: the next, or the message being sent
  double free = 0.0;              // the time at which the last one left it
  model::DeviceIndex from = 0;
  model::DeviceIndex to = -1;
  double latency_s = 0.0;      // of a channel's route
  std::uint64_t messages = 0;  // sent so far, if anything varies
  double arrived = 0.0;        // arrival of the last of them
  bool sending = false;
  double started = 0.0;       // of the message being sent
  std::int32_t channel = -1;  // its number in Flows
};

// What steps of one structure share. The replay fills in lanes and costs.
struct PreparedStep {
  explicit PreparedStep(const model::TaskGraph& graph);
  [[nodiscard]] const model::LaneAction& at(model::ActionIndex i) const {
    return program.actions()[static_cast<std::size_t>(i)];
  }

  [[nodiscard]] bool has_epilogue() const { return program.epilogue() < program.size(); }

  std::shared_ptr<const char> key;
  model::Program program;
  std::vector<model::ActionIndex> dependants;  // of action i: [first[i], first[i + 1])
  std::vector<std::size_t> first;
  std::unordered_map<model::ActionIndex, std::vector<std::size_t>> events_of;  // of an action
  std::vector<Lane*> lanes;                                                    // by action
  model::ActionIndex outcome = -1;       // at whose end the scheduler is called; -1: none
  std::vector<model::ActionCost> costs;  // by action; of attention, for the last submitted step
  std::int32_t opening = 0;              // number of dependencies of the epilogue on other actions
};

// The rest of a step: its actions that have not ended.
struct Step {
  struct State {
    model::ActionCost cost;
    double ready = 0.0;      // latest end among ended dependencies other than loads
    double loaded = 0.0;     // latest end among ended loads
    std::int32_t waits = 0;  // dependencies that have not ended
  };
  struct Event {
    bool done = false;
    double end = 0.0;
    std::vector<ActionRef> waiting;  // actions of the next step
  };
  std::shared_ptr<const PreparedStep> prepared;
  std::vector<State> states;  // by action
  std::vector<Event> events;
  std::size_t left = 0;
  // Of an epilogue that has not run:
  std::int32_t opening = 0;  // its dependencies on other actions that have not ended
  double opens = 0.0;        // the latest end of those that have, or the submission
};

}  // namespace tandem::sim
