#include "exec/machine/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "exec/machine/process_facts.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

// What the two versions call the same.
struct Names {
  std::vector<const char*> limits;
  const char* usage;
  std::vector<const char*> reclaimable;  // of memory.stat
};

const Names& names_of(bool second) {
  static const Names v1{{"memory.limit_in_bytes"},
                        "memory.usage_in_bytes",
                        {"total_inactive_file", "total_active_file"}};
  static const Names v2{{"memory.max", "memory.high"},
                        "memory.current",
                        {"inactive_file", "active_file", "slab_reclaimable"}};
  return second ? v2 : v1;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// The number in a file; nothing if there is none ("max"), or no file.
std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0.0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// What memory.stat says of the page cache that the kernel would take back.
double reclaimable(const fs::path& group, const Names& names) {
  std::ifstream file(group / "memory.stat");
  double bytes = 0.0;
  std::string field;
  for (double value = 0.0; file >> field >> value;) {
    if (std::ranges::find(names.reclaimable, field) != names.reclaimable.end()) bytes += value;
  }
  return bytes;
}

void lower(const fs::path& group, const Names& names, AvailableMemory& least) {
  double limit = std::numeric_limits<double>::infinity();
  for (const char* name : names.limits) {
    limit = std::min(limit, number_in(group / name).value_or(limit));
  }
  const std::optional<double> usage = number_in(group / names.usage);
  if (!usage || limit > 1e18) return;  // version 1 writes a huge number for none
  const double taken = std::max(0.0, *usage - reclaimable(group, names));
  const double left = std::max(0.0, limit - taken);
  if (left >= least.bytes) return;
  least = {left, "the control group " + group.string() + ", whose limit is " +
                     model::to_text(model::Bytes{limit})};
}

// Spaces and the like in a mount point are written as \040.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool octal =
        text[i] == '\\' && i + 3 < text.size() &&
        std::ranges::all_of(text.substr(i + 1, 3), [](char c) { return '0' <= c && c <= '7'; });
    if (!octal) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return out;
}

struct Mount {
  bool second = false;  // of version 2
  std::string shown;    // the group that is at its root
  std::string place;
};

std::vector<Mount> mounts(const fs::path& root) {
  std::vector<Mount> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::string shown;
    std::string place;
    words >> word >> word >> word >> shown >> place;
    while (words >> word && word != "-") {
    }
    std::string type;
    std::string options;
    if (!(words >> type >> word >> options)) continue;
    if (type != "cgroup2" && !(type == "cgroup" && has_word(options, "memory"))) continue;
    found.push_back({type == "cgroup2", unescaped(shown), unescaped(place)});
  }
  return found;
}

// By version: the group of this process.
std::map<bool, std::string> groups(const fs::path& root) {
  std::map<bool, std::string> found;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) found[true] = line.substr(second + 1);
    if (has_word(controllers, "memory")) found[false] = line.substr(second + 1);
  }
  return found;
}

}  // namespace

AvailableMemory available_memory(const fs::path& root) {
  AvailableMemory least{field_bytes(root / "proc/meminfo", "MemAvailable:"), "this machine"};
  const std::map<bool, std::string> own = groups(root);
  for (const Mount& mount : mounts(root)) {
    const auto group = own.find(mount.second);
    if (group == own.end()) continue;
    // A container may show only the groups below its own.
    std::string below = group->second;
    if (mount.shown != "/") {
      const bool inside = below.starts_with(mount.shown) &&
                          (below.size() == mount.shown.size() || below[mount.shown.size()] == '/');
      below = inside ? below.substr(mount.shown.size()) : "";
    }
    const fs::path top = root / fs::path(mount.place).relative_path();
    const fs::path relative = fs::path(below).relative_path();
    fs::path path = top;
    lower(path, names_of(mount.second), least);
    for (const fs::path& part : relative) {
      if (part == "..") break;  // outside of what this process can see
      path /= part;
      lower(path, names_of(mount.second), least);
    }
  }
  return least;
}

}  // namespace tandem::exec
