#include "model/base/file_kind.hpp"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/word_list.hpp"

namespace tandem::model {
namespace {

constexpr std::size_t kHead = 4096;  // bytes of a file that is not JSON that decide

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSchemas{{
    {"tandem.plan/", kPlanKind},
    {"tandem.result/", kResultKind},
    {"tandem.profile", kProfileKind},  // also "tandem.profiles/"
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kKeys{{
    {"traceEvents", kTraceKind},
    {"model_type", kConfigKind},
    {"arrival_s", kWorkloadKind},
}};

// Reads JSON until a schema or key of the outermost object says its kind. Objects within, such as
// the profiles of a plan, say nothing.
class KindReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  [[nodiscard]] std::string_view kind() const { return kind_; }

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    is_schema_ = name == "schema";
    return !take(kKeys, [&](std::string_view known) { return name == known; });
  }
  bool string(string_t& text) override {
    if (depth_ != 1 || !is_schema_) return true;
    take(kSchemas, [&](std::string_view known) { return text.starts_with(known); });
    return false;
  }
  bool start_object(std::size_t /*elements*/) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ > 0; }
  bool start_array(std::size_t /*elements*/) override { return ++depth_ > 1; }
  bool end_array() override { return --depth_ > 0; }
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return false; }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return false;
  }

 private:
  template <class Marks, class Matches>
  bool take(const Marks& marks, const Matches& matches) {
    for (const auto& [mark, kind] : marks) {
      if (matches(mark)) kind_ = kind;
    }
    return !kind_.empty();
  }

  int depth_ = 0;
  bool is_schema_ = false;
  std::string_view kind_{};
};

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
  // The version, a number of four bytes, has a zero byte; a device's name has none.
  if (text.starts_with("GGUF") && text.substr(0, 8).find('\0') != std::string_view::npos)
    return "a GGUF file";
  const std::string_view head = trimmed(text.substr(0, kHead));
  if (head.starts_with('<'))
    return head.find("<platform") == std::string_view::npos ? std::string_view() : kPlatformKind;
  if (!head.starts_with('{')) return is_hosts(head) ? kHostsKind : std::string_view();
  KindReader reader;
  static_cast<void>(nlohmann::json::sax_parse(text, &reader, nlohmann::json::input_format_t::json,
                                              /*strict=*/false));
  return reader.kind();
}

void expect_kind(std::string_view text, std::string_view source, std::string_view wanted) {
  const std::string_view kind = kind_of_file(text);
  if (kind.empty() || kind == wanted) return;
  throw Error(std::string(source) + ": " + std::string(kind) + ", expected " + std::string(wanted) +
              "; check the path");
}

}  // namespace tandem::model
