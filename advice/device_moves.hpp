#pragma once

// Which devices, and which master, the search for the best plan of a strategy tries one after
// another.

#include <vector>

#include "advice/question.hpp"
#include "advice/settings.hpp"

namespace tandem::study {

// Returns the rates of computing by DeviceIndex (planner::capacities).
[[nodiscard]] std::vector<double> device_rates(const Question& question);

class DeviceMoves {
 public:
  // `question` outlives it; `first_equal`: first_equals() of its cluster.
  DeviceMoves(const Question& question, std::vector<model::DeviceIndex> first_equal);

  // All devices, by the rate at which they compute.
  [[nodiscard]] const std::vector<model::DeviceIndex>& slowest_first() const {
    return slowest_first_;
  }
  // The same, but of equally fast devices the one with the least latency to the master last.
  [[nodiscard]] const std::vector<model::DeviceIndex>& nearest_last() const {
    return nearest_last_;
  }
  [[nodiscard]] std::vector<model::DeviceIndex> least_memory_first() const;
  // The master of the request; the first device if it names none.
  [[nodiscard]] model::DeviceIndex first_master() const { return first_master_; }
  // Devices that may be master: the fastest, and the first.
  [[nodiscard]] std::vector<model::DeviceIndex> masters() const;
  // `of` with one device more, less, in place of another, or another master. Of settings that
  // differ in equal devices alone (equal_devices.hpp), one.
  [[nodiscard]] std::vector<Setting> neighbours(const Setting& of) const;
  // The master of `like` with the last one, two, ... others of `best_last`; with many devices, the
  // number doubles each time.
  [[nodiscard]] std::vector<Setting> best_few(
      const Setting& like, const std::vector<model::DeviceIndex>& best_last) const;

 private:
  // Returns `of` with the first devices of those equal to the ones that it uses.
  [[nodiscard]] Setting representative(Setting of) const;
  // Returns the different representatives of `all`, except that of `without`.
  [[nodiscard]] std::vector<Setting> representatives(const std::vector<Setting>& all,
                                                     const Setting& without) const;

  const Question* question_;
  std::vector<model::DeviceIndex> slowest_first_;
  std::vector<model::DeviceIndex> nearest_last_;
  model::DeviceIndex first_master_ = 0;
  std::vector<model::DeviceIndex> first_equal_;
};

}  // namespace tandem::study
