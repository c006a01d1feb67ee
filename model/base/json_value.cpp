#include "model/base/json_value.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::model {

using nlohmann::json;

namespace {

constexpr std::size_t kShownLength = 40;  // of an offending value

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  std::string text;
  if (value.is_string()) {
    const auto& whole = value.get_ref<const std::string&>();
    text = json(whole.substr(0, kShownLength)).dump(-1, ' ', true, json::error_handler_t::replace);
    if (whole.size() > kShownLength) text += "...";
    return text;
  }
  return value.dump();
}

std::string range_text(std::int64_t min, std::int64_t max) {
  if (max == std::numeric_limits<std::int64_t>::max()) {
    return "an integer of at least " + std::to_string(min);
  }
  return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

std::string range_text(double min, double max) {
  constexpr double kHuge = 1e300;
  const auto text = [](double x) { return json(x).dump(); };
  if (max < kHuge) return "a number from " + text(min) + " to " + text(max);
  if (min > -kHuge) return "a number of at least " + text(min);
  return "a finite number";
}

// Throws Error for text that is nested too deeply or gives a key twice in one object. Ends at what
// is not JSON without an error.
class JsonCheck final : public nlohmann::json_sax<json> {
 public:
  JsonCheck(const std::string& source, const std::string& remedy, int depth)
      : source_(&source), remedy_(&remedy), depth_(static_cast<std::size_t>(depth)) {}

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*size*/) override { return open(); }
  bool start_array(std::size_t /*size*/) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    throw Error(*source_ + ": field " + shown(name) +
                " is given twice in one object, expected once; " + *remedy_);
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const json::exception& /*fault*/) override {
    return false;
  }

 private:
  bool open() {
    if (keys_.size() >= depth_)
      throw Error(*source_ + ": JSON nested deeper than " + std::to_string(depth_) +
                  " levels, expected fewer; " + *remedy_);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  const std::string* source_;
  const std::string* remedy_;
  std::size_t depth_;
  std::vector<std::set<std::string>> keys_;  // of each object or array that is open
};

// Returns what names a number that Python writes and JSON does not have, near `byte` of `text`.
std::string python_number(std::string_view text, std::size_t byte) {
  constexpr std::size_t kNear = 9;
  const std::string_view near = text.substr(byte > kNear ? byte - kNear : 0, 2 * kNear);
  for (const std::string_view word : {"Infinity", "NaN"}) {
    if (near.find(word) != std::string_view::npos)
      return ", where '" + std::string(word) + "' is no number of JSON";
  }
  return "";
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& source,
                          const std::string& remedy, JsonLimits limits) {
  if (text.size() > limits.bytes) {
    throw Error(source + ": " + std::to_string(text.size()) + " bytes of JSON, expected at most " +
                std::to_string(limits.bytes) + "; " + remedy);
  }
  json parsed;
  try {
    // Not json::parse with a callback, whose time grows with the square of an array's elements.
    JsonCheck check(source, remedy, limits.depth);
    static_cast<void>(json::sax_parse(text, &check));
    parsed = json::parse(text);
  } catch (const json::parse_error& e) {
    // Counted from 1; the end of the text is a byte beyond it.
    const bool ended = e.byte > text.size();
    throw Error(source + ": not JSON" +
                (text.empty() ? ": empty"
                 : ended      ? ": it ends too early, after " + std::to_string(text.size()) +
                               (text.size() == 1 ? " byte" : " bytes")
                         : " at byte " + std::to_string(e.byte) + " of " +
                               std::to_string(text.size()) + python_number(text, e.byte)) +
                ", expected a JSON object; " + remedy);
  } catch (const json::out_of_range&) {  // a number such as 1e999
    throw Error(source + ": a number beyond the range of a double, expected finite numbers; " +
                remedy);
  }
  if (!parsed.is_object()) {
    throw Error(source + ": the document is " + shown(parsed) + ", expected a JSON object; " +
                remedy);
  }
  return parsed;
}

JsonDocument::JsonDocument(std::string_view text, std::string_view source, std::string_view remedy,
                           JsonLimits limits)
    : source_(source),
      remedy_(remedy),
      json_(std::make_unique<const json>(parse_json(text, source_, remedy_, limits))) {}

JsonDocument::~JsonDocument() = default;

JsonValue JsonDocument::root() const { return {*this, *json_, ""}; }

void JsonValue::fail(std::string_view expected) const {
  const std::string subject = path_.empty() ? "the document" : "field '" + path_ + "'";
  throw Error(document_->source() + ": " + subject + " is " + shown(*json_) + ", expected " +
              std::string(expected) + "; " + document_->remedy());
}

JsonValue JsonValue::at(std::string_view key) const {
  if (!json_->is_object()) fail("an object");
  std::string path = path_;
  if (!path.empty()) path += '.';
  path += key;
  const auto found = json_->find(key);
  if (found == json_->end()) {
    throw Error(document_->source() + ": field '" + path + "' is missing, expected a value; " +
                document_->remedy());
  }
  return {*document_, *found, std::move(path)};
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!json_->is_object()) fail("an object");
  const auto found = json_->find(key);
  if (found == json_->end() || found->is_null()) return std::nullopt;
  return at(key);
}

void JsonValue::expect_keys(std::initializer_list<std::string_view> keys) const {
  if (!json_->is_object()) fail("an object");
  for (const auto& [key, value] : json_->items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    std::string known;
    for (const std::string_view k : keys) {
      known += known.empty() ? "" : ", ";
      known += k;
    }
    fail_key(key, "only " + known);
  }
}

void JsonValue::fail_key(std::string_view key, std::string_view expected) const {
  std::string message = document_->source();
  message.append(": unknown field ").append(shown(nlohmann::json(key)));
  if (!path_.empty()) message.append(" in '").append(path_).append("'");
  throw Error(message.append(", expected ").append(expected).append("; ") + document_->remedy());
}

std::size_t JsonValue::size(std::size_t max) const {
  if (!json_->is_array() || json_->size() > max) {
    fail("an array of at most " + std::to_string(max));
  }
  return json_->size();
}

JsonValue JsonValue::at(std::size_t index) const {
  if (!json_->is_array() || index >= json_->size()) fail("an array with more elements");
  std::string path = path_;
  path.append("[").append(std::to_string(index)).append("]");
  return {*document_, (*json_)[index], std::move(path)};
}

std::int64_t JsonValue::integer(std::int64_t min, std::int64_t max) const {
  if (!json_->is_number_integer()) fail(range_text(min, max));
  if (json_->is_number_unsigned() &&
      json_->get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail(range_text(min, max));
  }
  const auto value = json_->get<std::int64_t>();
  if (value < min || value > max) fail(range_text(min, max));
  return value;
}

double JsonValue::number(double min, double max) const {
  if (!json_->is_number()) fail(range_text(min, max));
  const auto value = json_->get<double>();
  if (!std::isfinite(value) || value < min || value > max) fail(range_text(min, max));
  return value;
}

bool JsonValue::boolean() const {
  if (!json_->is_boolean()) fail("true or false");
  return json_->get<bool>();
}

std::string JsonValue::text(std::size_t max_length) const {
  if (!json_->is_string() || json_->get_ref<const std::string&>().size() > max_length) {
    fail("a string of at most " + std::to_string(max_length) + " bytes");
  }
  return json_->get<std::string>();
}

std::string JsonValue::line(std::size_t max_length) const {
  std::string line = text(max_length);
  if (const std::string fault = fault_of_text(line); !fault.empty()) fail("no " + fault);
  return line;
}

bool JsonValue::is_null() const { return json_->is_null(); }
bool JsonValue::is_object() const { return json_->is_object(); }
bool JsonValue::is_array() const { return json_->is_array(); }

void expect_schema(const JsonValue& root, std::string_view schema) {
  // Mostly another kind of file, where a missing field would mean little.
  if (root.json().is_object() && !root.json().contains("schema")) {
    root.fail(std::string("one that begins with \"schema\": \"").append(schema).append("\""));
  }
  const JsonValue field = root.at("schema");
  if (!field.json().is_string() || field.json().get_ref<const std::string&>() != schema) {
    std::string expected("\"");
    expected.append(schema).append("\"");
    field.fail(expected);
  }
}

std::string to_text(const nlohmann::ordered_json& value) {
  std::string text = value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text += '\n';
  return text;
}

}  // namespace tandem::model
