#pragma once

// What a sweep can vary: fields of platform, model, workload and plan, by name.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advice/scenario_source.hpp"
#include "planner/search/search.hpp"

namespace tandem::study {

// What a field's values are; numbers are kept in SI base units.
enum class FieldUnit { text, count, number, seconds, rate, bytes, flops };

// How one run is set up; fields write to it.
struct Setup {
  std::string platform{};
  std::string model{};
  std::optional<std::size_t> devices{};  // the platform's first so many
  std::vector<std::function<void(model::Device&)>> device_changes{};
  std::vector<std::function<void(model::Link&)>> link_changes{};
  // Device, or empty for all, and how many times longer it computes. Of several for a device the
  // last counts, whatever rates the changes set.
  std::vector<std::pair<std::string, double>> slowdowns{};
  std::vector<std::string> named_devices{};  // that changes are for
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
  model::CacheFormat cache = model::CacheFormat::f32;
  model::WireFormat wire = model::WireFormat::f32;
  planner::HeadPlacement head = planner::HeadPlacement::master;
  std::int32_t candidates = 0;
};

struct Value {
  std::string text{};   // as in the CSV: of numbers the shortest, in base units
  double number = 0.0;  // if the field's unit is not text
};

struct Field {
  std::string_view name;
  FieldUnit unit;
  std::string_view help;  // one line
  // Writes `value` to `setup`. `selector` is the device or link in brackets; empty: all of them.
  // Throws Error for a value that cannot be.
  std::function<void(Setup& setup, const std::string& selector, const Value& value)> apply;
};

[[nodiscard]] const std::vector<Field>& fields();

// A field as the command line names it: "link.latency", "device[laptop].memory".
struct FieldUse {
  const Field* field = nullptr;
  std::string selector{};
  // Column of the CSV: the name, and the unit of numbers ("link.latency_s").
  [[nodiscard]] std::string column() const;
};
// Throws Error naming the nearest field.
[[nodiscard]] FieldUse find_field(const std::string& name);

// One value with its unit. Throws Error (subject, text, what was expected).
[[nodiscard]] Value parse_value(FieldUnit unit, const std::string& text,
                                const std::string& subject);
// `number` as a value of `unit`; counts are rounded.
[[nodiscard]] Value make_value(FieldUnit unit, double number);

// Reads models and platforms, each once.
class Library {
 public:
  explicit Library(Scenarios scenarios) : scenarios_(std::move(scenarios)) {}

  // The setup's request with its model and its cluster, changed as the fields say. Throws Error.
  [[nodiscard]] planner::Request request(const Setup& setup);
  // A digest of the contents of the setup's platform and model.
  [[nodiscard]] std::string digest(const Setup& setup);

 private:
  Scenarios scenarios_;
  std::map<std::string, model::Cluster> clusters_;
  std::map<std::string, model::Transformer> models_;
  std::map<std::pair<std::string, std::string>, std::string> digests_;  // by platform and model
};

}  // namespace tandem::study
