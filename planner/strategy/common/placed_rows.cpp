#include "planner/strategy/common/placed_rows.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::planner {
namespace {

using model::DeviceIndex;
using model::Range;

[[noreturn]] void refuse_place(std::size_t segment, DeviceIndex owner,
                               const std::string& expected) {
  throw Error("step: segment " + std::to_string(segment) + " at device " + std::to_string(owner) +
              ": expected " + expected + "; give steps that a run of this plan recorded");
}

std::size_t part_of(const std::vector<PositionPart>& parts, DeviceIndex device) {
  return static_cast<std::size_t>(std::ranges::find(parts, device, &PositionPart::device) -
                                  parts.begin());
}

bool has_part(const Plan& plan, DeviceIndex device) {
  return !plan.devices[static_cast<std::size_t>(device)].share.part.positions.empty();
}

[[noreturn]] void fail_placing(const Plan& plan, const std::string& what,
                               const std::string& remedy) {
  throw Error("plan: strategy '" + plan.strategy + "' with several requests: " + what + "; " +
              remedy + ", or plan for one request");
}

// Appends rows that ask no device, to those before them if adjacent.
void add_whole(std::vector<RowKeys>& whole, Range rows) {
  if (!whole.empty() && whole.back().rows.end == rows.begin) {
    whole.back().rows.end = rows.end;
  } else {
    whole.push_back({rows, model::kCausal});
  }
}

void add_partitioned(const Plan& plan, std::size_t part, std::int32_t positions, Range rows,
                     PlacedRows& placed) {
  std::vector<PositionPart> partitioned = sequence_parts(plan, positions);
  const Range own{partitioned[part].positions.begin, model::kCausal.end};
  partitioned.resize(part);
  std::erase_if(partitioned, [](const PositionPart& one) { return one.positions.empty(); });
  if (partitioned.empty()) return add_whole(placed.whole, rows);
  placed.partitioned.push_back({.own = {rows, own}, .before = std::move(partitioned)});
}

// Appends `rows` and `keys` of another device: to its last message, if adjacent.
void ask(std::vector<OtherKeys>& others, DeviceIndex device, RowKeys keys) {
  const auto last = std::find_if(others.rbegin(), others.rend(), [&](const OtherKeys& other) {
    return other.device == device && other.rows.end == keys.rows.begin;
  });
  if (last == others.rend()) {
    others.push_back({.device = device, .rows = keys.rows, .keys = {keys}});
    return;
  }
  last->rows.end = keys.rows.end;
  last->keys.push_back(keys);
}

}  // namespace

void refuse_many(const Plan& plan) {
  if (places_sequences(plan)) return;
  throw Error(
      "strategy '" + plan.strategy +
      "': many requests, a server or a chat, expected the one request of the plan, by which "
      "its caches are parted; plan for them with '--workload' or '--samples'");
}

void check_placing(const Plan& plan) {
  if (!places_sequences(plan)) return;
  if (plan.decode_moves != DecodeMoves::queries) {
    fail_placing(plan,
                 "keys and values that move ('decode_moves' " +
                     std::string(to_string(plan.decode_moves)) + "), expected queries",
                 "give '--decode-moves q'");
  }
  if (has_column_parts(plan)) {
    fail_placing(plan,
                 "an FFN of new tokens that devices share out, expected each token's owner alone",
                 "give '--decode-ffn owner'");
  }
  if (plan.model.architecture().mask != model::Mask::causal) {
    fail_placing(
        plan, "model " + plan.model.name + " reads texts whole, expected one that continues them",
        "use another strategy");
  }
}

std::vector<PlacedRows> placed_rows(const Plan& plan, const model::Batch& batch,
                                    const std::vector<PositionPart>& parts) {
  std::vector<PlacedRows> placed(parts.size());
  std::size_t last = 0;
  std::int32_t row = 0;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const model::Place place = batch.places[i];
    const std::size_t part = part_of(parts, place.owner);
    if (part == parts.size() || !has_part(plan, place.owner))
      refuse_place(i, place.owner, "one that keeps positions");
    if (part < last) refuse_place(i, place.owner, "rows in the order of the plan's positions");
    if (place.partitioned < 0 || place.partitioned > plan.reserved().positions)
      refuse_place(i, place.owner,
                   "at most " + std::to_string(plan.reserved().positions) +
                       " partitioned positions, for which the plan reserves memory");
    last = part;
    const Range rows{row, row + batch.segments[i].rows};
    row = rows.end;
    PlacedRows& own = placed[part];
    own.rows = {own.rows.empty() ? rows.begin : own.rows.begin, rows.end};
    if (place.partitioned == 0) {
      add_whole(own.whole, rows);
    } else {
      add_partitioned(plan, part, place.partitioned, rows, own);
    }
  }
  return placed;
}

std::vector<SpreadRows> attended_rows(const PlacedRows& rows, DeviceIndex device, Range active,
                                      std::int64_t window, model::TaskIndex projected) {
  SpreadRows partitioned{.device = device, .projected = projected};
  for (const PlacedRows::Partitioned& one : rows.partitioned) {
    const Range attending = one.own.rows.intersect(active);
    if (attending.empty()) continue;
    partitioned.keys.push_back({attending, one.own.keys});
    for (const PositionPart& part : one.before) {
      if (window == 0 || part.positions.end > one.own.keys.begin + 1 - window)
        ask(partitioned.others, part.device, {attending, part.positions});
    }
  }
  SpreadRows whole{.device = device, .projected = projected};
  for (const RowKeys& one : rows.whole) {
    const Range attending = one.rows.intersect(active);
    if (!attending.empty()) whole.keys.push_back({attending, one.keys});
  }
  std::vector<SpreadRows> all;
  for (SpreadRows* const some : {&partitioned, &whole}) {
    if (!some->keys.empty()) all.push_back(std::move(*some));
  }
  return all;
}

std::vector<model::Batch> placed_at_each(const Plan& plan, const model::Batch& batch) {
  const auto positions = static_cast<std::int32_t>(plan.reserved().positions);
  std::vector<DeviceIndex> devices;
  for (const PositionPart& part : position_parts(plan)) {
    if (has_part(plan, part.device)) devices.push_back(part.device);
  }
  std::vector<model::Batch> all;
  for (const DeviceIndex most : devices) {
    model::Batch alone = batch;
    alone.places.assign(batch.segments.size(), {.owner = most, .partitioned = positions});
    all.push_back(std::move(alone));
    // With a row of every other device more messages may be in flight.
    model::Batch mixed{.segments = {}, .cache = batch.cache, .places = {}};
    const auto sequences = static_cast<std::int32_t>(batch.segments.size());
    for (const DeviceIndex device : devices) {
      const std::size_t before = mixed.segments.size();
      if (device == most) {
        mixed.segments.insert(mixed.segments.end(), batch.segments.begin(), batch.segments.end());
      } else {
        mixed.segments.push_back({.sequence = sequences + device});
      }
      mixed.places.insert(mixed.places.end(), mixed.segments.size() - before,
                          {.owner = device, .partitioned = positions});
    }
    if (devices.size() > 1) all.push_back(std::move(mixed));
  }
  return all;
}

}  // namespace tandem::planner
