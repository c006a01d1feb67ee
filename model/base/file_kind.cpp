#include "model/base/file_kind.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/word_list.hpp"

namespace tandem::model {
namespace {

constexpr std::size_t kHead = 4096;  // bytes of a file that decide

// Of JSON: the first of these texts that its head contains. "tandem.profiles/" is one of profiles.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kMarks{{
    {"\"tandem.plan/", kPlanKind},
    {"\"tandem.result/", kResultKind},
    {"\"tandem.profile", kProfileKind},
    {"\"traceEvents\"", kTraceKind},
    {"\"model_type\"", kConfigKind},
    {"\"arrival_s\"", kWorkloadKind},
}};

// "NAME HOST:PORT", or "NAME local".
bool is_host_line(std::string_view line) {
  const std::size_t blank = line.find_first_of(" \t");
  if (blank == std::string_view::npos) return false;
  const std::string_view address = trimmed(line.substr(blank));
  if (address.find_first_of(" \t\"") != std::string_view::npos) return false;
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return address == "local";
  const std::string_view port = address.substr(colon + 1);
  return colon > 0 && !port.empty() &&
         port.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether the first line that is no comment is one of a list of hosts.
bool is_hosts(std::string_view head) {
  for (const std::string& line : split_list(head, '\n')) {
    const std::string_view words = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (!words.empty()) return is_host_line(words);
  }
  return false;
}

}  // namespace

std::string_view kind_of_file(std::string_view text) {
  if (text.starts_with("GGUF")) return "a GGUF file";
  const std::string_view head = trimmed(text.substr(0, kHead));
  if (head.starts_with('<'))
    return head.find("<platform") == std::string_view::npos ? std::string_view() : kPlatformKind;
  if (!head.starts_with('{')) return is_hosts(head) ? kHostsKind : std::string_view();
  const auto* const mark = std::ranges::find_if(
      kMarks, [&](const auto& known) { return head.find(known.first) != std::string_view::npos; });
  return mark == kMarks.end() ? std::string_view() : mark->second;
}

void expect_kind(std::string_view text, std::string_view source, std::string_view wanted) {
  const std::string_view kind = kind_of_file(text);
  if (kind.empty() || kind == wanted) return;
  throw Error(std::string(source) + ": " + std::string(kind) + ", expected " + std::string(wanted) +
              "; check the path");
}

}  // namespace tandem::model
