#pragma once

// What one device can do, by task kind: measured (`tandem profile`) or nominal (flop rate and
// memory bandwidth of the scenario).

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/units.hpp"
#include "model/cluster/cluster.hpp"
#include "model/graph/task_graph.hpp"
#include "model/transformer/cache_format.hpp"
#include "model/transformer/weight_format.hpp"

namespace tandem::model {

// One measured point: a task whose every streamed byte serves `intensity` rows takes
// seconds_per_byte * streamed bytes, beyond the overhead. In JSON the intensity is called `reuse`.
struct RatePoint {
  double intensity = 1.0;
  double seconds_per_byte = 0.0;
  bool operator==(const RatePoint&) const = default;
};

// How far off the times of a rate may be, as standard deviations of their logarithms.
struct RateError {
  double fit = 0.0;     // root mean square error on sizes that the rate was not fitted to
  double spread = 0.0;  // from one moment of the measurement to another, beyond the profile's drift
  bool operator==(const RateError&) const = default;
};

struct KindRate {
  double overhead_s = 0.0;           // per task
  std::vector<RatePoint> points{};   // ascending intensity, at least one
  std::optional<RateError> error{};  // none: not measured
  // Per task and row that shares its bytes, whatever their number: a product rounds its inputs to 8
  // bits in a small share as in a large one.
  double row_s = 0.0;
  bool operator==(const KindRate&) const = default;
};

// Messages that the computing threads send and receive themselves (model/predict/program.hpp);
// streamed bytes are the payload, intensity 1.
struct InlineRates {
  KindRate send{};      // of the sender's cpu lane, beside the copy
  KindRate transfer{};  // what is left for the channel: wake-ups, the system's own work
  KindRate receive{};   // of the receiver's cpu lane, beside the copy
  bool operator==(const InlineRates&) const = default;
};

// Rates of the kinds that read weights in a format other than f32; other kinds have no points.
struct FormatRates {
  WeightFormat format = WeightFormat::f16;
  std::array<KindRate, kTaskKinds> rate{};
  bool operator==(const FormatRates&) const = default;
};

// Rates of the kinds that read a cache in a type other than f32.
struct CacheRates {
  CacheFormat format = CacheFormat::f16;
  KindRate attend{};
  std::optional<KindRate> score{};  // none: not known, as plans rarely need it
  bool operator==(const CacheRates&) const = default;
};

// Whether tasks of `kind` read weights: their rates are by format.
[[nodiscard]] bool reads_weights(TaskKind kind);

// The kind whose rate tells how long tasks of `kind` take: itself, or of kinds that no profile has
// rates of one that does the same to memory. fetch: embed. shortlist: sample.
[[nodiscard]] TaskKind rate_kind(TaskKind kind);

// Whether profiles may lack the rate of `kind`: merge, select, gather and score, which only plans
// have that spread positions or drop rows. Such a plan is refused then (CostModel).
[[nodiscard]] bool may_lack_rate(TaskKind kind);

// What a profile was measured with, or what a program has (exec/kernels/kernels_here.hpp).
struct MeasuredKernels {
  std::int64_t generation = 1;     // of the kernels' speed, from 1 on
  std::string instruction_sets{};  // as results tell them: "AVX2 for floats, avx2 for 8 bits"
  std::string processor{};         // its make; empty: not known
  bool operator==(const MeasuredKernels&) const = default;
};

struct DeviceProfile {
  std::string source{};  // "nominal", or the file and machine it was measured on
  int threads = 0;       // that computed, each task with all of them; 0: nominal, or not known
  // None: nominal, or measured by a program that did not tell.
  std::optional<MeasuredKernels> kernels{};
  // By TaskKind. transfer: what sending and receiving one message costs beyond the link's latency
  // and bandwidth (system calls, encryption, wake-ups), by threads that do not compute; streamed
  // bytes are the payload, intensity 1. capture, deliver: the copies; streamed bytes are twice the
  // payload. fetch (embed's is used), load and release are unused.
  // Of weights in f32.
  std::array<KindRate, kTaskKinds> rate{};
  std::vector<FormatRates> formats{};    // in the order of their enumeration, each once
  std::vector<CacheRates> caches{};      // the same
  std::optional<InlineRates> inlined{};  // none: as other messages, at no cost to computing threads
  double program_bytes = 0.0;            // resident memory of tandem beside the other categories
  // Sequential reads past the page cache, as weights are streamed; 0: not measured.
  BytesPerSecond disk_bandwidth{};
  // Of the machine's speed between moments of the measurement, and of the disk's rate between
  // passes: standard deviations of their logarithms; none: not measured. What a prediction makes of
  // them and of RateError: model/predict/deviation.hpp.
  std::optional<double> drift{};
  std::optional<double> disk_spread{};
  // Throws Error, naming `subject` and the field, unless all numbers are within
  // model/base/limits.hpp.
  void validate(const std::string& subject) const;
  // The rate of `kind` with weights in `format`, or (attend, score) with a cache in what rated_as
  // calls so; null if the profile does not know it.
  [[nodiscard]] const KindRate* rate_of(TaskKind kind, WeightFormat format) const;
  // Whether rates are those of kernels, not what somebody states.
  [[nodiscard]] bool measured() const { return source != "nominal"; }
  bool operator==(const DeviceProfile&) const = default;
};

// `profile` with the rates of no other formats than those of the weights and the cache, and f32.
[[nodiscard]] DeviceProfile for_formats(DeviceProfile profile, const WeightFormats& formats,
                                        CacheFormat cache = CacheFormat::f32);

// The profile of `device` by the roofline, for weights in any format: seconds_per_byte(intensity) =
// max(1 / memory_bandwidth, flops_per_byte * intensity / flop_rate), no overhead. A message costs
// nothing beyond its link and the two copies, which read and write memory once; encrypting it is
// free. Williams et al., CACM 52(4), 2009
[[nodiscard]] DeviceProfile nominal_profile(const Device& device);

// The profile of a machine whose computing threads take `factor` times as long, copies and messages
// included; transfer is unchanged, as emulation slows computing only, and so is the disk. Throws
// logic_error unless factor > 0.
[[nodiscard]] DeviceProfile slowed(DeviceProfile profile, double factor);

// What `device`, with a profile measured on it or on the machine that emulates it, reads from its
// disk a second; 0: it has none.
//   platform states nothing: the measured rate; nothing measured: the platform's
//   both, the device itself (`emulated` false): the measured rate
//   both, emulated: the lesser, as reads are paced to the platform's rate but come from this disk
[[nodiscard]] BytesPerSecond disk_bandwidth(const Device& device, const DeviceProfile& profile,
                                            bool emulated);

// JSON, schema "tandem.profile/3"; formats, the cache in F16, the kernels and all errors are in it
// only if it knows them. parse throws Error naming `source`, field, value and remedy.
[[nodiscard]] std::string to_json(const DeviceProfile& profile);
[[nodiscard]] DeviceProfile parse_profile_json(std::string_view text, std::string_view source);

// Of one machine with several numbers of threads: JSON, schema "tandem.profiles/1", or that of one
// profile if there is one only; parse reads both. All are of the same kernels, no two of the same
// number of threads.
[[nodiscard]] std::string to_json(std::span<const DeviceProfile> profiles);
[[nodiscard]] std::vector<DeviceProfile> parse_profiles_json(std::string_view text,
                                                             std::string_view source);
// Of these the one with `threads`; without a number the one with most, or, for a device that is
// `emulated` beside others on its machine, with fewest. Throws Error naming `source` and what is
// known if none has so many; logic_error if there is no profile.
[[nodiscard]] const DeviceProfile& with_threads(std::span<const DeviceProfile> profiles,
                                                std::optional<int> threads, bool emulated,
                                                std::string_view source);

}  // namespace tandem::model
