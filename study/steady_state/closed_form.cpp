#include "study/steady_state/closed_form.hpp"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "model/base/error.hpp"

namespace tandem::study {
namespace {

// Times if no device ever waits, for block b of any token (b counts over all tokens).
class Pace {
 public:
  explicit Pace(const MemorySchedule& schedule) : path_(path_time(schedule)) {
    Ticks at = 0;
    for (std::size_t b = 0; b < schedule.blocks(); ++b) {
      begin_.push_back(at);
      Ticks slowest = 0;
      for (const StreamingDevice& device : schedule.devices)
        slowest = std::max(slowest, device.blocks[b].compute);
      at += slowest + schedule.reduce[b];
    }
  }
  [[nodiscard]] Ticks begin(std::size_t block) const {
    return begin_[block % begin_.size()] + static_cast<Ticks>(block / begin_.size()) * path_;
  }

 private:
  Ticks path_;
  std::vector<Ticks> begin_;
};

std::vector<std::size_t> streamed(const StreamingDevice& device) {
  std::vector<std::size_t> blocks;
  for (std::size_t b = 0; b < device.blocks.size(); ++b)
    if (device.blocks[b].residence == Residence::streamed) blocks.push_back(b);
  return blocks;
}

}  // namespace

bool keeps_up(const MemorySchedule& schedule, std::size_t index) {
  const StreamingDevice& device = schedule.devices.at(index);
  if (load_time(device) > path_time(schedule)) return false;
  const std::vector<std::size_t> blocks = streamed(device);
  if (device.window == kUnlimited || blocks.empty()) return true;
  const Pace pace(schedule);
  const std::size_t count = blocks.size();
  // Beyond one token's blocks, a load waits for a release a whole token before its block begins,
  // and all loads of a token take no longer than that.
  if (device.window > static_cast<std::int64_t>(count)) return true;
  const auto window = static_cast<std::size_t>(device.window);
  const auto place = [&](std::size_t j) {  // of streamed block j, over all tokens
    return blocks[j % count] + j / count * schedule.blocks();
  };
  for (std::size_t first = window; first < window + count; ++first) {
    const std::size_t freed = place(first - window);
    const Ticks released =
        device.release == model::ReleaseRule::early
            ? pace.begin(freed) + device.blocks[freed % schedule.blocks()].compute
            : pace.begin(freed + 1);
    Ticks loaded = released;
    for (std::size_t j = first; j < first + count; ++j) {
      loaded += device.blocks[place(j) % schedule.blocks()].load;
      if (loaded > pace.begin(place(j))) return false;
    }
  }
  return true;
}

bool keeps_up(const MemorySchedule& schedule) {
  for (std::size_t d = 0; d < schedule.devices.size(); ++d)
    if (!keeps_up(schedule, d)) return false;
  return true;
}

Ticks layered_token_time(const LayeredSchedule& layered) {
  require(layered.retain == 0, "layered_token_time: retention has no such closed form");
  const Ticks reduce = layered.reduce;
  Ticks attention = 0;
  Ticks ffn = 0;
  Ticks disk = 0;
  Ticks slowest_attention = 0;  // of loading, then computing
  Ticks slowest_ffn = 0;
  for (const LayerTimes& t : layered.devices) {
    attention = std::max(attention, t.attention);
    ffn = std::max(ffn, t.ffn);
    const Ticks loads = t.load_attention + t.load_ffn;
    const Ticks attention_alone = t.attention + t.load_attention;
    const Ticks ffn_alone = t.ffn + t.load_ffn;
    slowest_attention = std::max(slowest_attention, attention_alone);
    slowest_ffn = std::max(slowest_ffn, ffn_alone);
    const bool early = layered.release == model::ReleaseRule::early;
    disk = std::max(disk, loads);
    if (layered.window == 2) {
      disk = std::max(disk, std::max(attention_alone, ffn_alone) + (early ? 0 : reduce));
    } else if (layered.window == 1 && early) {
      disk = std::max(disk, t.attention + t.ffn +
                                std::max({loads, t.load_attention + reduce, t.load_ffn + reduce}));
    }
  }
  if (layered.window == 1 && layered.release == model::ReleaseRule::late)
    disk = slowest_attention + slowest_ffn + 2 * reduce;
  return layered.layers * std::max(attention + ffn + 2 * reduce, disk);
}

Ticks unlimited_token_time(const MemorySchedule& schedule) {
  return std::max(path_time(schedule), load_time(schedule));
}

std::optional<Ticks> uniform_token_time(const MemorySchedule& schedule) {
  const StreamingDevice& device = schedule.devices.front();
  for (const StreamingDevice& other : schedule.devices)
    if (!(other == device)) return std::nullopt;
  if (device.window == kUnlimited) return unlimited_token_time(schedule);
  const std::size_t blocks = schedule.blocks();
  if (streamed(device).size() != blocks) return std::nullopt;
  const bool early = device.release == model::ReleaseRule::early;
  if (device.window > 2 || (device.window == 2 && early)) return std::nullopt;
  Ticks total = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const Ticks compute = device.blocks[b].compute;
    const Ticks reduce = schedule.reduce[b];
    const Ticks next_load = device.blocks[(b + 1) % blocks].load;
    total += device.window == 2 ? std::max(compute + reduce, next_load)
             : early            ? compute + std::max(reduce, next_load)
                                : compute + reduce + next_load;
  }
  return total;
}

bool proposition6_steady(const LayerTimes& times, Ticks reduce, std::int64_t layers,
                         std::int64_t retain) {
  require(retain >= 1, "proposition 6: T is below 1");
  const std::int64_t loaded = layers - (layers + retain - 1) / retain;
  return layers * (times.attention + times.ffn + 2 * reduce) >=
         layers * times.load_attention + loaded * times.load_ffn;
}

bool steady_condition(const LayerTimes& times, Ticks reduce, std::int64_t window,
                      model::ReleaseRule release) {
  const auto& [attention, ffn, load_attention, load_ffn] = times;
  const bool early = release == model::ReleaseRule::early;
  if (window == 1) {
    const Ticks hidden = early ? reduce : 0;
    return load_attention <= hidden && load_ffn <= hidden;
  }
  if (attention + ffn + 2 * reduce < load_attention + load_ffn) return false;
  if (window > 2) return true;
  const Ticks exchanges = early ? 2 * reduce : reduce;
  return ffn + exchanges >= load_attention && attention + exchanges >= load_ffn;
}

}  // namespace tandem::study
