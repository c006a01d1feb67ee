#pragma once

// What a replay knows of its lanes, of the structures of steps, and of the steps under way. Private
// to sim/.

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
  double free = 0.0;              // when the last one left it
  model::DeviceIndex from = 0;
  model::DeviceIndex to = -1;
  double latency_s = 0.0;      // of a channel's route
  std::uint64_t messages = 0;  // that it has sent, if anything varies
  double arrived = 0.0;        // the last of them
  bool sending = false;
  double started = 0.0;       // of the message being sent
  std::int32_t channel = -1;  // its number in Flows
};

// What steps of one structure have in common. Lanes and costs are the replay's to fill in.
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
  model::ActionIndex outcome = -1;       // at whose end a scheduler is asked; -1: it is not
  std::vector<model::ActionCost> costs;  // by action; of attention, in the step taken up last
  std::int32_t opening = 0;              // how often actions of the epilogue depend on others
};

// What is left of a step: its actions that have not ended.
struct Step {
  struct State {
    model::ActionCost cost;
    double ready = 0.0;      // latest end of the dependencies that have ended, but loads
    double loaded = 0.0;     // of the loads among them
    std::int32_t waits = 0;  // dependencies that have not
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
  // Of an epilogue that its lane has not taken up:
  std::int32_t opening = 0;  // dependencies on others that have not ended
  double opens = 0.0;        // the latest end of those that have, or when it was submitted
};

}  // namespace tandem::sim
