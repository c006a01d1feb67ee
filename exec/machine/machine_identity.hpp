#pragma once

// Which host, and which network of it, this process is on. Of which boot: boot_id()
// (exec/weights/files/boot_id.hpp).

#include <cstdint>
#include <string>

namespace tandem::exec {

// The name that this host has for itself.
[[nodiscard]] std::string host_name();

// The number of this process's network namespace: processes of one boot with the same number have
// the same addresses. 0 if the kernel does not say.
[[nodiscard]] std::uint64_t network_namespace();

}  // namespace tandem::exec
