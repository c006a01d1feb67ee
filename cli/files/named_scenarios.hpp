#pragma once

#include <functional>

#include "advice/scenario_source.hpp"
#include "sim/platform/platform.hpp"

namespace tandem::cli {

// Platforms, read with `reading`, models and papers' numbers by name. `on_platform`, if given, is
// called with each platform that is read.
[[nodiscard]] study::Scenarios scenarios(
    const sim::PlatformOptions& reading = {},
    const std::function<void(const sim::Platform&)>& on_platform = {});

}  // namespace tandem::cli
