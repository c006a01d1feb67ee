#pragma once

// The only place that turns work into seconds.

#include <vector>

#include "model/cluster/cluster.hpp"
#include "model/graph/work.hpp"
#include "model/predict/device_profile.hpp"

namespace tandem::model {

// Returns the seconds of a task of rate `rate`:
//   overhead + row_s * intensity + streamed_bytes * f(intensity)
// f interpolates the rate's points linearly in intensity; beyond the last point it grows in
// proportion to intensity, before the first it is constant.
[[nodiscard]] double task_seconds(const KindRate& rate, double streamed_bytes, double intensity);

class CostModel {
 public:
  // One profile a device of the cluster, by DeviceIndex. Throws logic_error unless every kind but
  // fetch, load and release has at least one point, intensity positive and ascending; Error if a
  // profile knows no rates for a format of the model's weights, or of attention over its cache.
  CostModel(Transformer transformer, std::vector<DeviceProfile> profiles);

  // Returns the seconds that a cpu task takes on its device:
  //   overhead + row_s * intensity + streamed_bytes * f(intensity)
  // (bytes that other numbers of rows share: at their intensity; experts: row_s * rows)
  // f interpolates the points of the kind and the weights' format linearly in intensity; beyond the
  // last point it grows in proportion to intensity, before the first it is constant. A release
  // takes no time; a fetch takes an embed's, and its disk's beside, which is not part of this.
  // Throws logic_error for other lanes. An example: with points (1, 0.1 ns) and (8, 0.25 ns) and 3
  // us of overhead, a matrix of 1 MB times 8 rows takes 253 us.
  [[nodiscard]] Seconds compute_time(const Batch& batch, const Task& task) const;
  // Returns the seconds that `work` takes as a task of `kind` on `device`, for estimates of work
  // that is in no task graph (yet).
  [[nodiscard]] Seconds compute_time(DeviceIndex device, TaskKind kind, const Work& work) const;

  // What one transfer costs beyond its route and both ends' computing threads, from the sender's
  // profile: it precedes the bytes and occupies the channel. 0 with nominal profiles.
  // `computing_thread`: the computing threads send and receive it (model/predict/program.hpp).
  [[nodiscard]] Seconds message_overhead(DeviceIndex sender, Bytes payload,
                                         bool computing_thread) const;

  // What a capture or a delivery takes of the cpu lane of `device`: the copy, and with
  // `computing_thread` sending or receiving. Throws logic_error for other kinds.
  [[nodiscard]] Seconds copy_time(DeviceIndex device, TaskKind kind, const CopySize& size,
                                  bool computing_thread) const;

  // The time of sending (capture) or receiving (deliver) a small message on the thread that does
  // it. 0 with profiles that do not know. Throws logic_error for other kinds.
  [[nodiscard]] Seconds handling_time(DeviceIndex device, TaskKind kind, Bytes payload) const;

  [[nodiscard]] const Transformer& transformer() const { return transformer_; }
  [[nodiscard]] const std::vector<DeviceProfile>& profiles() const { return profiles_; }

 private:
  [[nodiscard]] const DeviceProfile& profile(DeviceIndex device) const;

  Transformer transformer_;
  std::vector<DeviceProfile> profiles_;
};

// Returns the seconds that `task`, whose work is `work`, takes of its cpu or disk lane:
// compute_time; of loads and fetches, also bytes / disk bandwidth. Throws logic_error for channels,
// and for a device without a disk.
[[nodiscard]] Seconds lane_time(const Cluster& cluster, const CostModel& costs, const Task& task,
                                const Work& work);

}  // namespace tandem::model
