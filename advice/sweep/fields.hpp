#pragma once

// The fields of platform, model, workload and plan that a sweep can vary, by name.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advice/prompt_chunks.hpp"
#include "advice/scenario_source.hpp"
#include "planner/search/search.hpp"

namespace tandem::study {

// The type of a field's values; numbers are kept in SI base units.
enum class FieldUnit { text, count, number, seconds, rate, bytes, flops };

// The setup of one run; fields write to it.
struct Setup {
  std::string platform{};
  std::string model{};
  std::optional<std::size_t> devices{};  // the number of first devices of the platform
  std::vector<std::function<void(model::Device&)>> device_changes{};
  std::vector<std::function<void(model::Link&)>> link_changes{};
  // Device (empty: all) and slowdown factor. The last entry for a device counts, whatever rates the
  // changes set.
  std::vector<std::pair<std::string, double>> slowdowns{};
  std::vector<std::string> named_devices{};  // targets of changes
  std::vector<std::string> named_links{};
  std::string strategy = "tensor";
  std::optional<std::string> partition{};
  std::optional<std::string> allreduce{};
  std::string master{};
  std::int64_t prompt_tokens = 64;
  std::optional<std::int64_t> new_tokens{};  // none: 32, and 0 of an encoder
  planner::WindowRequest window{.blocks = std::nullopt, .retain = std::nullopt};
  model::ReleaseRule release = model::ReleaseRule::early;
  std::optional<model::Bytes> memory_limit{};
  std::optional<model::CacheFormat> cache{};  // none: by the weights (default_types.hpp)
  std::optional<model::WireFormat> wire{};
  planner::HeadPlacement head = planner::HeadPlacement::master;
  std::int32_t candidates = 0;
  PromptReading prompt{};
};

struct Value {
  std::string text{};   // as in the CSV: for numbers the shortest text, in base units
  double number = 0.0;  // if the field's unit is not text
};

struct Field {
  std::string_view name;
  FieldUnit unit;
  std::string_view help;  // one line
  // Writes `value` to `setup`. `selector` is the device or link in brackets; empty: all of them.
  // Throws Error for an impossible value.
  std::function<void(Setup& setup, const std::string& selector, const Value& value)> apply;
};

[[nodiscard]] const std::vector<Field>& fields();

// A field as the command line names it: "link.latency", "device[laptop].memory".
struct FieldUse {
  const Field* field = nullptr;
  std::string selector{};
  // Returns the column of the CSV: the name, and the unit of numbers ("link.latency_s").
  [[nodiscard]] std::string column() const;
};
// Finds a field. Throws Error naming the nearest field.
[[nodiscard]] FieldUse find_field(const std::string& name);

// Parses one value with its unit. Throws Error (subject, text, what was expected).
[[nodiscard]] Value parse_value(FieldUnit unit, const std::string& text,
                                const std::string& subject);
// Returns `number` as a value of `unit`; counts are rounded.
[[nodiscard]] Value make_value(FieldUnit unit, double number);

// Reads models and platforms, each once.
class Library {
 public:
  explicit Library(Scenarios scenarios) : scenarios_(std::move(scenarios)) {}

  // Returns the setup's request with its model and its cluster after all changes. Throws Error.
  [[nodiscard]] planner::Request request(const Setup& setup);
  // Returns a digest of the contents of the setup's platform and model.
  [[nodiscard]] std::string digest(const Setup& setup);

 private:
  Scenarios scenarios_;
  std::map<std::string, model::Cluster> clusters_;
  std::map<std::string, model::Transformer> models_;
  std::map<std::pair<std::string, std::string>, std::string> digests_;  // by platform and model
};

}  // namespace tandem::study
