#include "exec/gguf/gguf_file.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>
#include <type_traits>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".gguf";
constexpr std::size_t kDigits = 5;

std::string five_digits(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < kDigits ? kDigits - digits.size() : 0, '0') + digits;
}

struct SplitName {
  std::string stem;
  std::size_t number = 1;
  std::size_t count = 1;
};

// "name-00001-of-00003.gguf"; nothing for another name.
std::optional<SplitName> split_name(const fs::path& path) {
  constexpr std::string_view kOf = "-of-";
  const std::string name = path.filename().string();
  constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnding.size();
  if (name.size() <= kTail || !name.ends_with(kEnding)) return std::nullopt;
  const std::string tail = name.substr(name.size() - kTail);
  const std::string first = tail.substr(1, kDigits);
  const std::string second = tail.substr(1 + kDigits + kOf.size(), kDigits);
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  if (tail.front() != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf ||
      !std::ranges::all_of(first, is_digit) || !std::ranges::all_of(second, is_digit))
    return std::nullopt;
  return SplitName{name.substr(0, name.size() - kTail), std::stoul(first), std::stoul(second)};
}

// Returns what follows ".gguf" in the name of a piece of a file that was cut, behind a dot or a
// dash: "part1of2", "split-a", or the "00" or "aa" of the command split. Empty for another name.
std::string cut_ending(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(kEnding);
  if (at == std::string::npos) return "";
  const std::string rest = name.substr(at + kEnding.size());
  if (rest.size() < 2 || (rest[0] != '.' && rest[0] != '-')) return "";
  const std::string ending = rest.substr(1);
  const auto all = [&](char first, char last) {
    return std::ranges::all_of(ending, [=](char c) { return first <= c && c <= last; });
  };
  const bool is_cut = ending.starts_with("part") || ending.starts_with("split") || all('0', '9') ||
                      (ending.size() == 2 && all('a', 'z'));
  return is_cut ? ending : "";
}

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::optional<std::int64_t> integer_in(const std::map<std::string, GgufValue>& values,
                                       const std::string& key) {
  const auto found = values.find(key);
  if (found == values.end()) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&found->second.value);
  return value == nullptr ? std::optional<std::int64_t>(-1) : *value;
}

}  // namespace

bool is_gguf(const fs::path& path) {
  if (path.filename().string().ends_with(kEnding)) return true;
  std::error_code ignored;
  if (!cut_ending(path).empty() && !fs::is_directory(path, ignored)) return true;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::array<char, 4> magic{};
  std::ifstream in(path, std::ios::binary);
  in.read(magic.data(), magic.size());
  return in && std::string_view(magic.data(), magic.size()) == "GGUF";
}

std::vector<fs::path> gguf_parts(const fs::path& path) {
  const auto name = split_name(path);
  constexpr std::size_t kMostParts = 65535;
  if (!name || name->count == 0 || name->count > kMostParts) return {path};
  std::vector<fs::path> parts;
  for (std::size_t i = 1; i <= name->count; ++i)
    parts.push_back(path.parent_path() / (name->stem + "-" + five_digits(i) + "-of-" +
                                          five_digits(name->count) + std::string(kEnding)));
  return parts;
}

bool is_gguf_part(const fs::path& path) { return split_name(path).has_value(); }

// An opened file, its stamp from before it was read, and its header.
struct GgufFile::Part {
  std::shared_ptr<const ReadFile> file;
  FileStamp stamp;
  GgufHeader header;
};

GgufFile::Part GgufFile::open(const fs::path& path) {
  Part part{.file = std::make_shared<const ReadFile>(path), .stamp = {}, .header = {}};
  const ReadFile& file = *part.file;
  part.stamp = file.stamp();
  try {
    part.header = parse_gguf_header(
        [&](std::uint64_t offset, std::span<std::byte> bytes) { file.read_at(offset, bytes); },
        file.size(), path.string());
  } catch (const Error&) {
    const std::string cut = cut_ending(path);
    if (cut.empty()) throw;
    const std::string name = path.filename().string();
    const std::string whole = name.substr(0, name.size() - cut.size() - 1);
    throw Error(path.string() + ": not a whole GGUF file, expected one; if '" +
                model::one_line(cut, 80) +
                "' says that it is a piece of one that was cut, join all pieces in order ('cat " +
                model::one_line(whole, 200) + name[whole.size()] + "* > " +
                model::one_line(whole, 200) + "') and give the whole");
  }
  return part;
}

GgufFile::GgufFile(const fs::path& path) {
  Part first = open(path);
  const std::int64_t said = integer_in(first.header.values, "split.count").value_or(1);
  if (said <= 1) {
    add(std::move(first), 0, 1);
    return;
  }
  const auto name = split_name(path);
  const auto number = integer_in(first.header.values, "split.no").value_or(-1) + 1;
  const bool named = name && static_cast<std::int64_t>(name->count) == said;
  if (!named)
    throw Error(path.string() + ": split.count is " + std::to_string(said) + ": part " +
                std::to_string(number) +
                " of a model that was split, expected a name that ends in '-" + five_digits(1) +
                "-of-" + five_digits(static_cast<std::size_t>(said)) +
                ".gguf'; give the first part, with all others beside it, under the names that they "
                "were published with");
  const std::vector<fs::path> parts = gguf_parts(path);
  if (name->number != 1)
    throw Error(path.string() + ": part " + std::to_string(name->number) + " of " +
                std::to_string(name->count) +
                ", expected the first of a model that was split; give " +
                parts.front().filename().string());
  for (const fs::path& part : parts) {
    std::error_code ignored;
    if (fs::exists(part, ignored)) continue;
    throw Error(part.string() + ": is missing, expected beside " + path.filename().string() +
                " as one of its " + std::to_string(parts.size()) +
                " parts; copy or download it there");
  }
  add(std::move(first), 0, parts.size());
  for (std::size_t i = 1; i < parts.size(); ++i) add(open(parts[i]), i, parts.size());
  const std::string key = "split.tensors.count";
  const auto count = integer_in(values_, key);
  if (count && *count != static_cast<std::int64_t>(tensors_.size()))
    fail(key, std::to_string(tensors_.size()) + ", which its " + std::to_string(parts.size()) +
                  " files have; copy or download all of them again");
}

void GgufFile::add(Part part, std::size_t number, std::size_t count) {
  GgufHeader header = std::move(part.header);
  const std::string source = part.file->path().string();
  files_.push_back(std::move(part.file));
  stamps_.push_back(part.stamp);
  // An unsplit file may omit the number of parts, or give 0 or 1.
  const auto check = [&](const char* key, std::size_t expected, bool may_be_absent) {
    const auto value = integer_in(header.values, key);
    if (value ? *value == static_cast<std::int64_t>(expected) : may_be_absent) return;
    throw Error(source + ": " + key + " is " + (value ? std::to_string(*value) : "not said") +
                ", expected " + std::to_string(expected) + (count > 1 ? ", as its name says" : "") +
                "; give the first file of a split with all others beside it, under the names "
                "that they were published with");
  };
  const bool whole = count == 1;
  if (!whole || integer_in(header.values, "split.count").value_or(0) != 0)
    check("split.count", count, whole);
  check("split.no", number, whole);
  for (auto& [tensor, info] : header.tensors) {
    const auto [there, is_new] = tensors_.emplace(tensor, Place{number, std::move(info)});
    if (is_new) continue;
    throw Error(source + ": tensor " + model::one_line(tensor, 80) + " is in " +
                files_[there->second.file]->path().filename().string() +
                " as well, expected every tensor in one file; copy or download all of them again");
  }
  if (number == 0) {
    values_ = std::move(header.values);
    return;
  }
  // Apart from names, a later part repeats the first part's metadata or omits it.
  for (const auto& [key, value] : header.values) {
    const bool is_name = key.starts_with("general.") && key != "general.architecture";
    if (is_name || key.starts_with("split.")) continue;
    const auto first = values_.find(key);
    if (first != values_.end() && first->second.value == value.value) continue;
    throw Error(source + ": " + model::one_line(key, 80) +
                " is said by a later part, expected what is said of the model in the first alone, "
                "or the same in both; copy or download all of them again");
  }
}

const GgufValue* GgufFile::find(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  asked_.insert(key);
  return &found->second;
}

std::string GgufFile::shown(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return "missing";
  return std::visit(
      Overloaded{[](bool value) { return std::string(value ? "true" : "false"); },
                 [](const std::string& value) { return "'" + model::one_line(value, 80) + "'"; },
                 [](std::int64_t value) { return std::to_string(value); },
                 [](double value) {
                   std::string text = std::to_string(value);
                   if (text.find('.') == std::string::npos) return text;
                   text.erase(text.find_last_not_of('0') + 1);
                   return text.ends_with('.') ? text + "0" : text;
                 },
                 [](const auto& list) { return "an array of " + std::to_string(list.size()); }},
      found->second.value);
}

void GgufFile::fail(const std::string& key, const std::string& expected) const {
  throw Error(path().string() + ": " + model::one_line(key, 80) + " is " + shown(key) +
              ", expected " + expected);
}

std::optional<std::int64_t> GgufFile::integer(const std::string& key, std::int64_t least,
                                              std::int64_t most) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* number = std::get_if<std::int64_t>(&value->value);
  if (number == nullptr || *number < least || *number > most)
    fail(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return *number;
}

std::optional<double> GgufFile::real(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&value->value))
    return static_cast<double>(*whole);
  const auto* number = std::get_if<double>(&value->value);
  if (number == nullptr) fail(key, "a number");
  return *number;
}

std::optional<bool> GgufFile::boolean(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(&value->value);
  if (flag == nullptr) fail(key, "true or false");
  return *flag;
}

std::optional<std::string> GgufFile::text(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(&value->value);
  if (text == nullptr) fail(key, "a text");
  return *text;
}

const GgufValue::Texts* GgufFile::texts(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* list = std::get_if<GgufValue::Texts>(&value->value);
  if (list == nullptr) fail(key, "an array of texts");
  return list;
}

const GgufValue::Numbers* GgufFile::numbers(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* list = std::get_if<GgufValue::Numbers>(&value->value);
  if (list == nullptr) fail(key, "an array of whole numbers");
  return list;
}

const GgufValue::Reals* GgufFile::reals(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* list = std::get_if<GgufValue::Reals>(&value->value);
  if (list == nullptr) fail(key, "an array of numbers");
  return list;
}

std::vector<std::string> GgufFile::unknown(std::string_view prefix) const {
  std::vector<std::string> keys;
  for (const auto& [key, ignored] : values_) {
    if (key.starts_with(prefix) && !asked_.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace tandem::exec
