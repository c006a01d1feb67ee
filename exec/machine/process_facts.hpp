#pragma once

// What the kernel says about this process and machine, from /proc.

#include <cstdint>
#include <filesystem>
#include <string>

namespace tandem::exec {

// Peak resident bytes of this process since its start or the last reset (VmHWM).
[[nodiscard]] double peak_resident_bytes();
// Resident bytes of this process (VmRSS); 0: the kernel does not say.
[[nodiscard]] std::uint64_t resident_bytes() noexcept;
// Starts a new peak at what is resident now, without what the allocator keeps of memory that was
// freed before: what it took to get here is no part of what follows. False if the kernel does not
// let us.
bool reset_peak_resident();
// The number after `field` in a file of lines "Field:   123 kB". Throws Error if there is none.
[[nodiscard]] double field_bytes(const std::filesystem::path& file, const std::string& field);

}  // namespace tandem::exec
