#include "planner/serving/cache_places.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "model/base/error.hpp"
#include "model/graph/storage.hpp"
#include "planner/strategy/common/lowering.hpp"
#include "planner/strategy/common/placed_rows.hpp"
#include "planner/strategy/common/positions.hpp"

namespace tandem::planner {

CachePlaces::CachePlaces(const Plan& plan) {
  if (find_strategy(plan.strategy).placed == nullptr) return;
  together_ = 2 * model::cache_blocks(plan.workload.positions());
  for (const PositionPart& part : position_parts(plan)) {
    const model::Range kept =
        plan.devices[static_cast<std::size_t>(part.device)].share.part.positions;
    if (kept.empty()) continue;
    devices_.push_back(
        {.device = part.device, .weight = kept.size(), .blocks = served_blocks(plan, kept)});
  }
}

CachePlaces::Lies CachePlaces::whole(std::size_t home, std::int64_t blocks) const {
  Lies lies{.home = home, .reserved = std::vector<std::int64_t>(devices_.size())};
  lies.reserved[home] = blocks;
  return lies;
}

// By the parts of sequence_parts().
CachePlaces::Lies CachePlaces::partitioned(std::int64_t positions) const {
  const std::int64_t blocks = model::cache_blocks(positions);
  std::vector<std::int64_t> weights;
  weights.reserve(devices_.size());
  for (const Device& device : devices_) weights.push_back(device.weight);
  Lies lies{.partitioned = positions};
  std::int64_t begin = 0;
  for (const std::int64_t end : block_ends(blocks, weights)) {
    lies.reserved.push_back(end - begin);
    lies.ends.push_back(end * model::kCacheBlock);
    if (end - begin == blocks) return whole(lies.ends.size() - 1, blocks);
    begin = end;
  }
  lies.ends.back() = std::numeric_limits<std::int64_t>::max();
  return lies;
}

bool CachePlaces::has_room(const Lies& lies) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].reserved + lies.reserved[i] > devices_[i].blocks) return false;
  }
  return true;
}

std::optional<CachePlaces::Lies> CachePlaces::find(std::int64_t positions) const {
  const std::int64_t blocks = model::cache_blocks(positions);
  std::optional<std::size_t> home;
  const auto filled = [&](const Device& device) {
    return static_cast<double>(device.reserved + blocks) / static_cast<double>(device.blocks);
  };
  for (std::size_t i = 0; blocks <= together_ && i < devices_.size(); ++i) {
    if (devices_[i].reserved + blocks > devices_[i].blocks) continue;
    if (!home || filled(devices_[i]) < filled(devices_[*home])) home = i;
  }
  Lies lies = home ? whole(*home, blocks) : partitioned(positions);
  if (has_room(lies)) return lies;
  return std::nullopt;
}

bool CachePlaces::take(std::int32_t sequence, std::int64_t positions) {
  if (empty()) return true;
  std::optional<Lies> lies = find(positions);
  if (!lies) return false;
  for (std::size_t i = 0; i < devices_.size(); ++i) devices_[i].reserved += lies->reserved[i];
  const bool fresh = sequences_.emplace(sequence, std::move(*lies)).second;
  require(fresh, "CachePlaces: another sequence");
  return true;
}

void CachePlaces::release(std::int32_t sequence) {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) return;
  for (std::size_t i = 0; i < devices_.size(); ++i)
    devices_[i].reserved -= found->second.reserved[i];
  sequences_.erase(found);
}

bool CachePlaces::fits_alone(std::int64_t positions) const {
  CachePlaces idle = *this;
  for (Device& device : idle.devices_) device.reserved = 0;
  return empty() || idle.find(positions).has_value();
}

void CachePlaces::place(model::Batch& batch) const {
  if (empty()) return;
  struct Placed {
    std::size_t device;
    model::Segment segment;
    model::Place place;
  };
  std::vector<Placed> all;
  for (const model::Segment& segment : batch.segments) {
    const Lies& lies = sequences_.at(segment.sequence);
    if (lies.partitioned == 0) {
      all.push_back({lies.home, segment, {.owner = devices_[lies.home].device}});
      continue;
    }
    const std::int32_t end = segment.past + segment.rows;
    std::int64_t begin = segment.past;
    for (std::size_t i = 0; i < devices_.size() && begin < end; ++i) {
      const std::int64_t until = std::min<std::int64_t>(end, lies.ends[i]);
      if (until <= begin) continue;
      model::Segment own = segment;
      own.past = static_cast<std::int32_t>(begin);
      own.rows = static_cast<std::int32_t>(until - begin);
      // The last rows are sampled.
      own.sampled = static_cast<std::int32_t>(
          std::max<std::int64_t>(0, until - std::max<std::int64_t>(begin, end - segment.sampled)));
      all.push_back({i,
                     own,
                     {.owner = devices_[i].device,
                      .partitioned = static_cast<std::int32_t>(lies.partitioned)}});
      begin = until;
    }
  }
  // Of a device those that are partitioned first, whose queries travel together; sampled ones in
  // the middle, as the last layer computes all rows between them.
  std::ranges::stable_sort(all, {}, [](const Placed& one) {
    const bool whole = one.place.partitioned == 0;
    return std::tuple{one.device, whole, whole == (one.segment.sampled == 0)};
  });
  batch.segments.clear();
  batch.places.clear();
  for (const Placed& one : all) {
    batch.segments.push_back(one.segment);
    batch.places.push_back(one.place);
  }
}

namespace {

struct SegmentPlace {
  std::size_t step = 0;
  std::size_t segment = 0;
};

[[noreturn]] void refuse_rows(const std::string& source, SegmentPlace at, const std::string& what,
                              const std::string& expected) {
  throw Error(source + ": field 'schedule[" + std::to_string(at.step) + "].segments[" +
              std::to_string(at.segment) + "]' " + what + ", expected " + expected +
              "; give the result of a run of this plan");
}

}  // namespace

void check_places(const Plan& plan, std::span<const model::ScheduledStep> schedule,
                  const std::string& source) {
  const bool places = find_strategy(plan.strategy).placed != nullptr && places_sequences(plan);
  std::map<std::int32_t, model::Place> known;  // the first of each sequence
  for (std::size_t s = 0; s < schedule.size(); ++s) {
    const model::Batch& batch = schedule[s].batch;
    const auto fail = [&](std::size_t segment, const std::string& what,
                          const std::string& expected) {
      refuse_rows(source, {s, segment}, what, expected);
    };
    if (places != !batch.places.empty())
      fail(0, places ? "has no device" : "has a device", "what this plan's runs record");
    for (std::size_t i = 0; i < batch.places.size(); ++i) {
      const model::Segment& rows = batch.segments[i];
      const model::Place place = batch.places[i];
      const model::Place first = known.emplace(rows.sequence, place).first->second;
      const bool is_same = place.partitioned == first.partitioned &&
                           (place.partitioned > 0 || place.owner == first.owner);
      if (!is_same) {
        fail(i,
             "has device " + std::to_string(place.owner) + " and " +
                 std::to_string(place.partitioned) + " partitioned positions",
             "sequence " + std::to_string(rows.sequence) + " where its rows before are");
      }
      if (place.partitioned == 0) continue;
      const std::vector<PositionPart> parts = sequence_parts(plan, place.partitioned);
      const auto own = std::ranges::find(parts, place.owner, &PositionPart::device);
      if (own == parts.end() || rows.past < own->positions.begin ||
          rows.past + rows.rows > own->positions.end) {
        fail(i,
             "has positions " + std::to_string(rows.past) + " to " +
                 std::to_string(rows.past + rows.rows) + " on device " +
                 std::to_string(place.owner),
             "them on the device that caches them");
      }
    }
  }
}

std::int64_t CachePlaces::blocks(model::DeviceIndex device) const {
  const auto found = std::ranges::find(devices_, device, &Device::device);
  return found == devices_.end() ? 0 : found->blocks;
}

std::int64_t CachePlaces::reserved(model::DeviceIndex device) const {
  const auto found = std::ranges::find(devices_, device, &Device::device);
  return found == devices_.end() ? 0 : found->reserved;
}

}  // namespace tandem::planner
