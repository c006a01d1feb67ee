#pragma once

// Which machine, and which network of it, this process is on.

#include <cstdint>
#include <string>

namespace tandem::exec {

// The name that this host has for itself.
[[nodiscard]] std::string host_name();

// The kernel's identifier of this boot, which all processes of a machine share, containers
// included. Throws Error if /proc does not say.
[[nodiscard]] std::string boot_id();

// The number of this process's network namespace: processes of one boot with the same number have
// the same addresses. 0 if the kernel does not say.
[[nodiscard]] std::uint64_t network_namespace();

}  // namespace tandem::exec
