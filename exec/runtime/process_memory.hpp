#pragma once

// What the kernel says about memory, from /proc.

namespace tandem::exec {

// Peak resident bytes of this process since its start or the last reset (VmHWM).
[[nodiscard]] double peak_resident_bytes();
// Starts a new peak at what is resident now. False if the kernel does not let us.
bool reset_peak_resident();
// Bytes that programs can still have without swapping (MemAvailable). Throws Error if unknown.
[[nodiscard]] double available_memory_bytes();

}  // namespace tandem::exec
