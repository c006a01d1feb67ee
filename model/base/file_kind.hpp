#pragma once

// What kind of file a text is, for messages about one that was given for another.

#include <string_view>

namespace tandem::model {

inline constexpr std::string_view kPlanKind = "a plan";
inline constexpr std::string_view kResultKind = "a result";
inline constexpr std::string_view kProfileKind = "a profile";
inline constexpr std::string_view kPlatformKind = "a platform file";
inline constexpr std::string_view kHostsKind = "a list of hosts";
inline constexpr std::string_view kConfigKind = "a model's config.json";
inline constexpr std::string_view kTraceKind = "a trace";
inline constexpr std::string_view kWorkloadKind = "a workload";

// Returns the kind of `text`, one of those above or "a GGUF file", by how it begins; empty if it
// looks like none of them.
[[nodiscard]] std::string_view kind_of_file(std::string_view text);

// Throws Error "SOURCE: KIND, expected WANTED; check the path" if `text` looks like another kind.
void expect_kind(std::string_view text, std::string_view source, std::string_view wanted);

}  // namespace tandem::model
