#pragma once

// How TCP behaves in the namespaces of a testbed.

#include <cstdint>
#include <string>

#include "exec/testbed/network_namespace.hpp"

namespace tandem::exec {

enum class TcpChoice : std::uint8_t {
  system,  // as this machine's
  // This machine's algorithm, but no slow start: connections begin with the windows of warm ones
  // and keep them over a pause.
  warm,
  pinned,  // as warm, and the same on every machine: cubic
};

// Adds what a route decides: congestion control, first windows.
void choose_tcp(TcpChoice choice, TunSettings& settings);

// Sets what a namespace decides. Throws Error as NetworkNamespace::set.
void apply_tcp(TcpChoice choice, const NetworkNamespace& to);

// What holds in a namespace, for a result: "cubic; slow start after idle 0; ...".
[[nodiscard]] std::string describe_tcp(TcpChoice choice, const NetworkNamespace& where);

}  // namespace tandem::exec
