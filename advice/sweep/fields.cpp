#include "advice/sweep/fields.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "model/base/csv.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "model/cluster/cluster_edit.hpp"
#include "model/graph/candidates.hpp"
#include "model/predict/stated_profiles.hpp"
#include "planner/partition/proportions.hpp"
#include "planner/search/default_types.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::study {
namespace {

constexpr double kMostCount = 1e9;

std::int64_t count(const Value& value) { return std::llround(value.number); }

std::optional<std::int32_t> count_or_auto(const Value& value, std::string_view zero,
                                          std::string_view name) {
  if (value.text == "auto") return std::nullopt;
  if (value.text == zero) return 0;
  std::int32_t number = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto parsed = std::from_chars(value.text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 1)
    throw Error("field '" + std::string(name) + "': '" + value.text +
                "', expected a number of at least 1, " + std::string(zero) + " or auto");
  return number;
}

planner::HeadPlacement head_placement(std::string_view text) {
  if (text == "master") return planner::HeadPlacement::master;
  if (text == "split") return planner::HeadPlacement::split;
  if (text == "auto") return planner::HeadPlacement::automatic;
  throw Error("field 'plan.head': '" + std::string(text) + "', expected master, split or auto");
}

PromptReading prompt_reading(const Value& value) {
  const std::optional<std::int32_t> rows = count_or_auto(value, "whole", "plan.chunk");
  return {.best = !rows.has_value(), .rows = rows.value_or(0)};
}

std::int32_t candidate_count(const Value& value) {
  if (value.text == "none") return 0;
  std::int32_t number = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto parsed = std::from_chars(value.text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end && number >= 1 &&
      number <= model::kMostCandidates)
    return number;
  throw Error("field 'plan.candidates': '" + value.text + "', expected 1 to " +
              std::to_string(model::kMostCandidates) + ", or none");
}

// A change of one number of every element (a device, a link), or of the one called `selector`.
template <class Element>
void add_change(std::vector<std::string>& named,
                std::vector<std::function<void(Element&)>>& changes, const std::string& selector,
                const Value& value, void (*assign)(Element&, double)) {
  if (!selector.empty()) named.push_back(selector);
  changes.emplace_back([selector, value, assign](Element& element) {
    if (selector.empty() || element.name == selector) assign(element, value.number);
  });
}

Field of_devices(std::string_view name, FieldUnit unit, std::string_view help,
                 void (*assign)(model::Device&, double)) {
  return {name, unit, help,
          [assign](Setup& setup, const std::string& selector, const Value& value) {
            add_change(setup.named_devices, setup.device_changes, selector, value, assign);
          }};
}

Field of_links(std::string_view name, FieldUnit unit, std::string_view help,
               void (*assign)(model::Link&, double)) {
  return {name, unit, help,
          [assign](Setup& setup, const std::string& selector, const Value& value) {
            add_change(setup.named_links, setup.link_changes, selector, value, assign);
          }};
}

// A field of the whole run: find_field() lets it have no selector.
Field of_run(std::string_view name, FieldUnit unit, std::string_view help,
             void (*apply)(Setup&, const Value&)) {
  return {name, unit, help,
          [apply](Setup& setup, const std::string& /*selector*/, const Value& value) {
            apply(setup, value);
          }};
}

std::vector<Field> make_fields() {
  using Unit = FieldUnit;
  static const std::string strategies = planner::strategy_names();
  return {
      of_run("platform", Unit::text, "platform file, or a name in scenarios/platforms",
             [](Setup& s, const Value& v) { s.platform = v.text; }),
      of_run("platform.devices", Unit::count, "only the first N devices of the platform",
             [](Setup& s, const Value& v) { s.devices = static_cast<std::size_t>(count(v)); }),
      of_devices("device.flops", Unit::flops, "computing rate of every device, or of device[NAME]",
                 [](model::Device& d, double x) { d.flop_rate = model::FlopsPerSecond{x}; }),
      of_devices("device.memory", Unit::bytes, "memory",
                 [](model::Device& d, double x) { d.memory = model::Bytes{x}; }),
      of_devices("device.memory_bandwidth", Unit::rate, "sequential read of memory",
                 [](model::Device& d, double x) { d.memory_bandwidth = model::BytesPerSecond{x}; }),
      of_devices("device.disk_bandwidth", Unit::rate, "sequential read of the disk",
                 [](model::Device& d, double x) { d.disk_bandwidth = model::BytesPerSecond{x}; }),
      {"device.slowdown", Unit::number, "how many times longer computing takes",
       [](Setup& s, const std::string& selector, const Value& v) {
         if (!(v.number > 0.0))
           throw Error("field 'device.slowdown': " + model::shortest_text(v.number) +
                       ", expected above 0");
         if (!selector.empty()) s.named_devices.push_back(selector);
         s.slowdowns.emplace_back(selector, v.number);
       }},
      of_links("link.bandwidth", Unit::rate, "bandwidth of every link, or of link[NAME]",
               [](model::Link& l, double x) { l.bandwidth = model::BytesPerSecond{x}; }),
      of_links("link.latency", Unit::seconds, "latency",
               [](model::Link& l, double x) { l.latency = model::Seconds{x}; }),
      of_run("model", Unit::text, "model folder, GGUF file, config.json, or known name",
             [](Setup& s, const Value& v) { s.model = v.text; }),
      of_run("workload.prompt_tokens", Unit::count, "tokens of the prompt",
             [](Setup& s, const Value& v) { s.prompt_tokens = count(v); }),
      of_run("workload.new_tokens", Unit::count, "tokens to generate",
             [](Setup& s, const Value& v) { s.new_tokens = count(v); }),
      of_run("plan.strategy", Unit::text, strategies,
             [](Setup& s, const Value& v) {
               static_cast<void>(planner::find_strategy(v.text));
               s.strategy = v.text;
             }),
      of_run("plan.partition", Unit::text, "auto, galaxy, equal, or proportions A:B:C",
             [](Setup& s, const Value& v) { s.partition = v.text; }),
      of_run("plan.allreduce", Unit::text, "how partial sums are joined",
             [](Setup& s, const Value& v) { s.allreduce = v.text; }),
      of_run("plan.cache_type", Unit::text,
             "f32, f16: how keys and values are kept [by the weights]",
             [](Setup& s, const Value& v) {
               const auto format = model::find_cache_format(v.text);
               if (!format)
                 throw Error("field 'plan.cache_type': '" + v.text + "', expected " +
                             model::cache_format_names());
               s.cache = *format;
             }),
      of_run("plan.wire_type", Unit::text,
             "f32, f16, bf16, q8_0: how activations travel [by the weights]",
             [](Setup& s, const Value& v) {
               const auto format = model::find_wire_format(v.text);
               if (!format)
                 throw Error("field 'plan.wire_type': '" + v.text + "', expected " +
                             model::wire_format_names());
               s.wire = *format;
             }),
      of_run("plan.head", Unit::text, "master, split, auto: where logits are computed",
             [](Setup& s, const Value& v) { s.head = head_placement(v.text); }),
      of_run("plan.candidates", Unit::text, "of a split head: a number of logits sent, none",
             [](Setup& s, const Value& v) { s.candidates = candidate_count(v); }),
      of_run("plan.master", Unit::text, "device with prompt, embedding and head",
             [](Setup& s, const Value& v) { s.master = v.text; }),
      of_run("plan.window", Unit::text, "blocks of weights in memory at once: a number, all, auto",
             [](Setup& s, const Value& v) {
               s.window.blocks = count_or_auto(v, "all", "plan.window");
             }),
      of_run("plan.retain", Unit::text, "one FFN block in N stays in memory: a number, none, auto",
             [](Setup& s, const Value& v) {
               s.window.retain = count_or_auto(v, "none", "plan.retain");
             }),
      of_run("plan.release", Unit::text, "early or late",
             [](Setup& s, const Value& v) {
               if (v.text != "early" && v.text != "late")
                 throw Error("field 'plan.release': '" + v.text + "', expected early or late");
               s.release = v.text == "late" ? model::ReleaseRule::late : model::ReleaseRule::early;
             }),
      of_run("plan.chunk", Unit::text,
             "how a prompt is read: whole, in chunks of a number of tokens, auto [whole]",
             [](Setup& s, const Value& v) { s.prompt = prompt_reading(v); }),
      of_run("plan.memory_limit", Unit::bytes, "no device may use more",
             [](Setup& s, const Value& v) { s.memory_limit = model::Bytes{v.number}; }),
  };
}

std::string_view suffix(FieldUnit unit) {
  switch (unit) {
    case FieldUnit::text:
    case FieldUnit::count:
    case FieldUnit::number:
      return "";
    case FieldUnit::seconds:
      return "_s";
    case FieldUnit::rate:
      return "_Bps";
    case FieldUnit::bytes:
      return "_bytes";
    case FieldUnit::flops:
      return "_per_s";
  }
  throw std::logic_error("sweep: unit out of range");
}

void check_selector(const FieldUse& use, const std::string& name) {
  const bool several =
      use.field->name.starts_with("device.") || use.field->name.starts_with("link.");
  if (several || use.selector.empty()) return;
  throw Error("field '" + name + "[" + use.selector + "]': has no device or link, expected '" +
              name + "'; leave it out");
}

void check_link(const model::Cluster& cluster, const std::string& name) {
  std::string known;
  for (const model::Link& link : cluster.links()) {
    if (link.name == name) return;
    known += (known.empty() ? "" : ", ") + link.name;
  }
  throw Error("link '" + name + "': not in platform '" + cluster.name() + "', expected one of " +
              known.substr(0, 500));
}

// Scales the rates, which the prediction uses.
void slow_down(model::Device& device, const Setup& setup) {
  double factor = 1.0;
  for (const auto& [name, slowdown] : setup.slowdowns) {
    if (name.empty() || name == device.name) factor = slowdown;
  }
  device.flop_rate = model::FlopsPerSecond{device.flop_rate.value() / factor};
  device.memory_bandwidth = model::BytesPerSecond{device.memory_bandwidth.value() / factor};
}

double parse_plain(const std::string& text, const std::string& subject, bool whole) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(value >= 0.0) || value > kMostCount ||
      (whole && (value != std::floor(value) || value < 1.0)))
    throw Error(subject + ": '" + text + "', expected a " +
                (whole ? "whole number from 1 to 1e9" : "number from 0 to 1e9"));
  return value;
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> table = make_fields();
  return table;
}

std::string FieldUse::column() const {
  std::string name(field->name);
  if (!selector.empty()) name.insert(name.find('.'), "[" + selector + "]");
  return name + std::string(suffix(field->unit));
}

FieldUse find_field(const std::string& name) {
  FieldUse use;
  std::string plain = name;
  const std::size_t open = name.find('[');
  if (const std::size_t close = name.find(']');
      open != std::string::npos && close != std::string::npos && close > open) {
    use.selector = name.substr(open + 1, close - open - 1);
    plain.erase(open, close - open + 1);
    if (use.selector.empty())
      throw Error("field '" + name + "': nothing in the brackets, expected a device or link");
  }
  std::vector<std::string_view> known;
  for (const Field& field : fields()) {
    known.push_back(field.name);
    if (field.name != plain) continue;
    use.field = &field;
    check_selector(use, plain);
    return use;
  }
  const std::string_view guess = model::nearest(plain, known);
  std::string names;
  for (const std::string_view field : known) {
    names += names.empty() ? "" : ", ";
    names += field;
  }
  throw Error(
      "field '" + name + "': unknown, " +
      (guess.empty() ? "expected one of " + names : "did you mean '" + std::string(guess) + "'?"));
}

Value make_value(FieldUnit unit, double number) {
  if (unit == FieldUnit::count) number = std::round(number);
  return {model::shortest_text(number), number};
}

Value parse_value(FieldUnit unit, const std::string& text, const std::string& subject) {
  switch (unit) {
    case FieldUnit::text:
      if (text.empty()) throw Error(subject + ": an empty value, expected a word");
      return {text, 0.0};
    case FieldUnit::count:
      return make_value(unit, parse_plain(text, subject, true));
    case FieldUnit::number:
      return make_value(unit, parse_plain(text, subject, false));
    case FieldUnit::seconds:
      return make_value(unit, model::parse_seconds(text, subject).value());
    case FieldUnit::rate:
      return make_value(unit, model::parse_rate(text, subject).value());
    case FieldUnit::bytes:
      return make_value(unit, model::parse_bytes(text, subject).value());
    case FieldUnit::flops:
      return make_value(unit, model::parse_flops(text, subject).value());
  }
  throw std::logic_error("sweep: unit out of range");
}

planner::Request Library::request(const Setup& setup) {
  auto cluster = clusters_.find(setup.platform);
  if (cluster == clusters_.end()) {
    cluster = clusters_.emplace(setup.platform, scenarios_.platform(setup.platform)).first;
  }
  auto transformer = models_.find(setup.model);
  if (transformer == models_.end())
    transformer = models_.emplace(setup.model, scenarios_.model(setup.model)).first;
  model::Cluster changed = cluster->second;
  if (setup.devices) {
    if (*setup.devices > changed.devices().size())
      throw Error("field 'platform.devices': " + std::to_string(*setup.devices) +
                  ", expected at most the " + std::to_string(changed.size()) + " of platform '" +
                  changed.name() + "'");
    changed = first_devices(changed, *setup.devices);
  }
  for (const std::string& name : setup.named_devices) static_cast<void>(changed.find(name));
  for (const std::string& name : setup.named_links) check_link(changed, name);
  for (const auto& change : setup.device_changes) changed = with_devices(changed, change);
  for (const auto& change : setup.link_changes) changed = with_links(changed, change);
  if (!setup.slowdowns.empty()) {
    changed = with_devices(changed, [&](model::Device& device) { slow_down(device, setup); });
  }
  const std::string partition = setup.partition.value_or(std::string(planner::kAutoPartition));
  if (partition != planner::kAutoPartition && partition != "galaxy" && partition != "equal")
    static_cast<void>(planner::parse_proportions(partition, changed));
  if (setup.allreduce) static_cast<void>(planner::parse_allreduce_choice(*setup.allreduce));
  std::vector<model::DeviceProfile> profiles = model::stated_profiles(changed);
  const std::int64_t generated = transformer->second.architecture().generates() ? 32 : 0;
  planner::Request request{.model = transformer->second,
                           .cluster = std::move(changed),
                           .strategy = setup.strategy,
                           .partition = partition,
                           .allreduce = setup.allreduce,
                           .master = setup.master,
                           .workload = {.prompt_tokens = setup.prompt_tokens,
                                        .new_tokens = setup.new_tokens.value_or(generated)},
                           .profiles = std::move(profiles),
                           .window = setup.window,
                           .release = setup.release,
                           .memory_limit = setup.memory_limit,
                           .wire = setup.wire.value_or(model::WireFormat::f32),
                           .open = {.wire = !setup.wire, .cache = !setup.cache},
                           .head = setup.head,
                           .candidates = setup.candidates};
  request.model.cache = setup.cache.value_or(model::CacheFormat::f32);
  request = planner::with_default_types(std::move(request));
  if (!request.master.empty()) static_cast<void>(request.cluster.find(request.master));
  request.workload.validate(request.model);
  return request;
}

std::string Library::digest(const Setup& setup) {
  auto [known, fresh] = digests_.try_emplace({setup.platform, setup.model});
  if (fresh) known->second = scenarios_.digest(setup.platform, setup.model);
  return known->second;
}

}  // namespace tandem::study
