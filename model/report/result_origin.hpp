#pragma once

// Where the times of a result come from.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::model {

// Only times differ in origin: bytes, memory and tokens of a run are counted in each of them
// (docs/explanation/emulation.md).
enum class ResultOrigin : std::uint8_t {
  predicted,          // by an evaluator
  replayed,           // emulated devices at nominal pace: times follow the prediction's formulas
  measured_emulated,  // emulated devices: computing is measured, links and disks are replayed
  measured_testbed,   // devices in network namespaces of one machine: disks are replayed
  measured,           // the devices themselves
};

// How a result file names an origin.
struct ResultOriginNames {
  ResultOrigin origin = ResultOrigin::predicted;
  std::string_view kind{};
  std::optional<std::string_view> pace{};  // absent of predictions
};
inline constexpr std::array kResultOrigins{
    ResultOriginNames{ResultOrigin::predicted, "predicted", std::nullopt},
    ResultOriginNames{ResultOrigin::replayed, "replayed", "replayed"},
    ResultOriginNames{ResultOrigin::measured_emulated, "measured", "measured (emulated)"},
    ResultOriginNames{ResultOrigin::measured_testbed, "measured", "measured (testbed)"},
    ResultOriginNames{ResultOrigin::measured, "measured", "measured"},
};

// "predicted", "replayed" or "measured".
[[nodiscard]] std::string_view kind_of(ResultOrigin origin);
// "replayed", "measured (emulated)", ...; absent of predictions.
[[nodiscard]] std::optional<std::string_view> pace_of(ResultOrigin origin);

}  // namespace tandem::model
