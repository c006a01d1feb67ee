#include "cli/flags/testbed_flag.hpp"

#include "cli/files/files.hpp"

namespace tandem::cli {

std::optional<exec::TestbedFacts> testbed_of(const Options& options) {
  const auto path = options.text(kTestbedFlag.name);
  if (!path) return std::nullopt;
  return exec::parse_testbed_facts(read_file(*path), *path);
}

}  // namespace tandem::cli
