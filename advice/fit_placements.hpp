#pragma once

// Where a request may be placed, for the searches of advice/fit.hpp.

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/search/search.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {

struct Placement {
  const planner::Strategy* strategy = nullptr;  // null: the request's
  bool gathers_weights = false;
  std::vector<bool> used{};  // by DeviceIndex
  model::DeviceIndex master = 0;
};

// At most so many devices have all their subsets considered.
inline constexpr std::size_t kMostSubsetDevices = 8;

// The placements of a request, by number of devices.
class Placements {
 public:
  // `memory`: bytes by device. `request` has a profile for each device and outlives this.
  Placements(const planner::Request& request, bool any_strategy, std::vector<double> memory);

  [[nodiscard]] std::size_t devices() const { return near_.size(); }
  // Returns whether all subsets of the devices are among the placements; else all devices, and of
  // each number those with most memory and those nearest to the master.
  [[nodiscard]] bool has_all_subsets() const { return devices() <= kMostSubsetDevices; }
  [[nodiscard]] std::vector<bool> everyone() const { return std::vector<bool>(near_.size(), true); }
  // Returns the placements on `count` devices: sets near the master first. Of sets whose devices
  // have the same memory, in order, the first alone.
  [[nodiscard]] std::vector<Placement> of_size(std::size_t count) const;
  // Returns all placements, those of most devices first.
  [[nodiscard]] std::vector<Placement> all() const;

 private:
  void add(const std::vector<bool>& used, model::DeviceIndex master,
           std::vector<Placement>& all) const;
  [[nodiscard]] std::vector<model::DeviceIndex> masters(const std::vector<bool>& used) const;
  [[nodiscard]] std::vector<std::vector<bool>> subsets(std::size_t count) const;

  const planner::Request* request_;
  bool any_strategy_;
  std::vector<double> memory_;
  std::optional<model::DeviceIndex> named_;
  std::vector<model::DeviceIndex> near_;   // the master, then the others by proximity
  std::vector<model::DeviceIndex> large_;  // most memory first
};

}  // namespace tandem::study
