#pragma once

// Checked access to JSON from files and peers: every accessor checks presence, type and range, and
// throws Error "source: field 'a.b[3]' is X, expected Y; remedy". Not installed; for our parsers.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::model {

inline constexpr double kMaxNumber = std::numeric_limits<double>::max();  // any that is finite

class JsonValue;

struct JsonLimits {
  std::size_t bytes = std::size_t{16} << 20U;
  int depth = 32;
};

// The JSON object in `text`. Throws Error naming `source` if it is none within the limits, or if an
// object in it has a key twice, of which readers would choose different ones. `remedy` ends every
// message.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& source,
                                        const std::string& remedy, JsonLimits limits = {});

// Parsed text; must outlive its values.
class JsonDocument {
 public:
  // Throws Error as parse_json does.
  JsonDocument(std::string_view text, std::string_view source, std::string_view remedy,
               JsonLimits limits = {});
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  [[nodiscard]] JsonValue root() const;
  [[nodiscard]] const std::string& source() const { return source_; }
  [[nodiscard]] const std::string& remedy() const { return remedy_; }

 private:
  std::string source_;
  std::string remedy_;
  std::unique_ptr<const nlohmann::json> json_;
};

class JsonValue {
 public:
  JsonValue(const JsonDocument& document, const nlohmann::json& json, std::string path)
      : document_(&document), json_(&json), path_(std::move(path)) {}

  // A field of an object: `at` must be there, `find` may be absent or null.
  [[nodiscard]] JsonValue at(std::string_view key) const;
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key) const;
  // Throws Error if the object has a key that is not among `keys`.
  void expect_keys(std::initializer_list<std::string_view> keys) const;
  [[noreturn]] void fail_key(std::string_view key, std::string_view expected) const;

  // Elements of an array of at most `max`.
  [[nodiscard]] std::size_t size(std::size_t max) const;
  [[nodiscard]] JsonValue at(std::size_t index) const;

  [[nodiscard]] std::int64_t integer(std::int64_t min, std::int64_t max) const;
  [[nodiscard]] double number(double min, double max) const;  // finite
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string text(std::size_t max_length = 4096) const;
  // A text that can be shown: UTF-8 without characters that a terminal obeys or does not show.
  [[nodiscard]] std::string line(std::size_t max_length = 4096) const;
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] const nlohmann::json& json() const { return *json_; }

  // Throws the Error that says that this value is not what is expected.
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  const JsonDocument* document_;
  const nlohmann::json* json_;
  std::string path_;  // empty: the document
};

// Reads a "schema" field. Throws Error unless it is `schema`.
void expect_schema(const JsonValue& root, std::string_view schema);

// Text of `json`, indented by two, in the order of its keys; bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json& json);

}  // namespace tandem::model
