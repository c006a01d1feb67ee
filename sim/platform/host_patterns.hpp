#pragma once

// Hosts chosen by name on the command line. Private to sim/.

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::sim {

struct HostPatterns {
  std::vector<std::string> patterns{};  // none: every host
  std::string flag = "--hosts";         // that gives them
  std::string remedy = "correct it";    // for one that is no host
};

// Returns the positions in `names`, ascending, of the hosts that `chosen` names. A pattern that is
// the name of a host is that host alone; in any other * matches any characters and ? any one.
// Throws Error naming `source` for a pattern that matches no host.
[[nodiscard]] std::vector<std::size_t> chosen_hosts(const HostPatterns& chosen,
                                                    const std::vector<std::string>& names,
                                                    const std::string& source);

// Returns a pattern that names the host in a list that commas part.
[[nodiscard]] std::string pattern_of(std::string name);

}  // namespace tandem::sim
