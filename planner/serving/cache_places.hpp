#pragma once

// The devices of each sequence's cache, where a scheduler chooses them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/graph/scheduler.hpp"
#include "model/graph/task_graph.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::planner {

// What sequences reserve on each device of a plan whose devices cache positions
// (planner/strategy/common/positions.hpp). A sequence of at most twice the plan's lengths lies on
// the device that is then filled least, in proportion to its blocks, if one has room for it; any
// other is partitioned over all.
class CachePlaces {
 public:
  // Without a plan, or if its strategy alone determines devices: none, and all that follows does
  // nothing.
  CachePlaces() = default;
  explicit CachePlaces(const Plan& plan);
  [[nodiscard]] bool empty() const { return devices_.empty(); }

  // Reserves blocks for a sequence of up to `positions`. Returns whether there was room for them
  // beside the others.
  [[nodiscard]] bool take(std::int32_t sequence, std::int64_t positions);
  // Frees what the sequence has reserved.
  void release(std::int32_t sequence);
  // Returns whether a sequence of so many positions has room if there is no other one.
  [[nodiscard]] bool fits_alone(std::int64_t positions) const;

  // Gives the rows of a batch to devices: a segment becomes one for each owner of some of its
  // positions, in the order of the plan's positions.
  void place(model::Batch& batch) const;

  // Returns the blocks that a device has, and those of them that are reserved.
  [[nodiscard]] std::int64_t blocks(model::DeviceIndex device) const;
  [[nodiscard]] std::int64_t reserved(model::DeviceIndex device) const;

 private:
  struct Device {
    model::DeviceIndex device = 0;
    std::int64_t weight = 0;  // positions of the plan's prompt
    std::int64_t blocks = 0;
    std::int64_t reserved = 0;
  };
  // Where a sequence lies: `home` is a place in devices_ if nothing is partitioned.
  struct Lies {
    std::size_t home = 0;
    std::int64_t partitioned = 0;
    std::vector<std::int64_t> ends{};      // of its positions, by place in devices_; the last open
    std::vector<std::int64_t> reserved{};  // blocks, by place in devices_
  };
  [[nodiscard]] Lies whole(std::size_t home, std::int64_t blocks) const;
  [[nodiscard]] Lies partitioned(std::int64_t positions) const;
  [[nodiscard]] bool has_room(const Lies& lies) const;
  [[nodiscard]] std::optional<Lies> find(std::int64_t positions) const;

  std::vector<Device> devices_;  // with a part, in the order of positions
  std::int64_t together_ = 0;    // blocks up to which a sequence lies on one device
  std::map<std::int32_t, Lies> sequences_;
};

// Throws Error naming `source` unless the rows of a recorded schedule are where a scheduler of
// `plan` may have placed them: each sequence on one device or partitioned, always the same way, and
// each position at its owner.
void check_places(const Plan& plan, std::span<const model::ScheduledStep> schedule,
                  const std::string& source);

}  // namespace tandem::planner
