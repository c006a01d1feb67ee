#pragma once

#include <string_view>

namespace tandem::model {

// Of the results that are written now.
inline constexpr std::string_view kResultSchema = "tandem.result/7";

}  // namespace tandem::model
