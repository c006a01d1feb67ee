// Reads the plan's JSON.

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/file_kind.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "model/graph/candidates.hpp"
#include "planner/plan/file/plan_file.hpp"
#include "planner/plan/file/plan_loss.hpp"
#include "planner/plan/file/plan_words.hpp"
#include "planner/serving/planned_service_json.hpp"

namespace tandem::planner {
namespace {

namespace limits = model::limits;

using model::JsonValue;
using model::kMaxNumber;
using model::Range;

constexpr std::string_view kMakeAgain = "make the plan again with `tandem plan`";

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxTokens = kMaxInt32;

template <class Enum, std::size_t N>
Enum named(const std::array<std::pair<Enum, std::string_view>, N>& names, const JsonValue& value) {
  const std::string text = value.text();
  std::string known;
  for (const auto& [result, name] : names) {
    if (text == name) return result;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  value.fail("one of " + known);
}

Range read_range(const JsonValue& value) {
  if (value.size(2) != 2) value.fail("two numbers, [begin, end)");
  const auto bound = [&](std::size_t i) {
    return static_cast<std::int32_t>(value.at(i).integer(0, kMaxInt32));
  };
  const Range range{bound(0), bound(1)};
  if (range.begin > range.end) value.fail("[begin, end) with begin <= end");
  return range;
}

model::LayerRuns read_layers(const JsonValue& value) {
  if (value.size(limits::kLayerRuns) == 0 || !value.at(0).is_array()) return read_range(value);
  std::vector<Range> runs;
  for (std::size_t i = 0; i < value.size(limits::kLayerRuns); ++i) {
    const Range run = read_range(value.at(i));
    if (run.empty() || (!runs.empty() && runs.back().end >= run.begin))
      value.at(i).fail("runs of layers that ascend and do not touch");
    runs.push_back(run);
  }
  return model::LayerRuns(runs);
}

model::MemoryUse read_memory(const JsonValue& value) {
  value.expect_keys({"weights", "kv_cache", "activations", "buffers", "program"});
  const auto bytes = [&](std::string_view key) {
    return value.at(key).number(0.0, limits::kMostBytes);
  };
  return {.weights = bytes("weights"),
          .kv_cache = bytes("kv_cache"),
          .activations = bytes("activations"),
          .buffers = bytes("buffers"),
          .program = bytes("program")};
}

model::Part read_part(const JsonValue& value) {
  value.expect_keys({"positions", "heads", "columns"});
  const auto read = [&](std::string_view key, const std::string& what) {
    const auto found = value.find(key);
    const model::Range range = found ? read_range(*found) : model::Range{};
    if (found && range.empty()) found->fail(what + ", or no such key");
    return range;
  };
  const model::Part part{.heads = read("heads", "heads that it computes"),
                         .columns = read("columns", "FFN columns that it computes"),
                         .positions = read("positions", "positions that it keeps")};
  if (part == model::Part()) value.fail("positions, heads or columns, or no such key");
  if (!part.heads.empty() && part.columns.empty())
    value.fail("heads and columns that it computes, or no such key");
  return part;
}

Window read_window(const JsonValue& value) {
  value.expect_keys({"blocks", "retain"});
  const auto count = [&](std::string_view key) {
    return static_cast<std::int32_t>(value.at(key).integer(0, kMaxInt32));
  };
  return {.blocks = count("blocks"), .retain = count("retain")};
}

// The cluster checks the sign.
double read_number(const JsonValue& value, std::string_view key) {
  return value.at(key).number(-kMaxNumber, kMaxNumber);
}

template <class Read>
auto read_all(const JsonValue& array, std::size_t most, const Read& read) {
  std::vector<decltype(read(array))> values;
  const std::size_t size = array.size(most);
  values.reserve(size);
  for (std::size_t i = 0; i < size; ++i) values.push_back(read(array.at(i)));
  return values;
}

model::SpeedChange read_speed(const JsonValue& value) {
  value.expect_keys({"at_s", "factor"});
  return {.at = model::Seconds{read_number(value, "at_s")}, .factor = read_number(value, "factor")};
}

model::Device read_device(const JsonValue& value) {
  value.expect_keys({"name", "cores", "flops_per_s", "memory_bandwidth_Bps", "memory_bytes",
                     "disk_bandwidth_Bps", "slowdown", "speeds"});
  model::Device device;
  device.name = value.at("name").text();
  device.cores = value.at("cores").integer(1, limits::kCores);
  device.flop_rate = model::FlopsPerSecond{read_number(value, "flops_per_s")};
  device.memory_bandwidth = model::BytesPerSecond{read_number(value, "memory_bandwidth_Bps")};
  device.memory = model::Bytes{read_number(value, "memory_bytes")};
  device.disk_bandwidth = model::BytesPerSecond{read_number(value, "disk_bandwidth_Bps")};
  device.slowdown = read_number(value, "slowdown");
  if (const auto speeds = value.find("speeds"))
    device.speeds = read_all(*speeds, limits::kChanges, read_speed);
  return device;
}

model::LinkChange read_change(const JsonValue& value) {
  value.expect_keys({"at_s", "direction", "bandwidth_Bps", "latency_s"});
  model::LinkChange change{.at = model::Seconds{read_number(value, "at_s")},
                           .direction = named(kDirections, value.at("direction"))};
  if (value.find("bandwidth_Bps"))
    change.bandwidth = model::BytesPerSecond{read_number(value, "bandwidth_Bps")};
  if (value.find("latency_s")) change.latency = model::Seconds{read_number(value, "latency_s")};
  return change;
}

model::Link read_link(const JsonValue& value) {
  value.expect_keys({"name", "latency_s", "bandwidth_Bps", "sharing", "jitter_s", "loss",
                     "background_Bps", "changes"});
  model::Link link{.name = value.at("name").text(),
                   .latency = model::Seconds{read_number(value, "latency_s")},
                   .bandwidth = model::BytesPerSecond{read_number(value, "bandwidth_Bps")},
                   .sharing = named(kSharings, value.at("sharing"))};
  if (value.find("jitter_s")) link.jitter = model::Seconds{read_number(value, "jitter_s")};
  if (value.find("loss")) link.loss = read_number(value, "loss");
  if (value.find("background_Bps"))
    link.background = model::BytesPerSecond{read_number(value, "background_Bps")};
  if (const auto changes = value.find("changes"))
    link.changes = read_all(*changes, limits::kChanges, read_change);
  return link;
}

model::Edge read_edge(const JsonValue& value,
                      const std::map<std::string, model::LinkIndex>& links) {
  value.expect_keys({"from", "to", "symmetrical", "hops"});
  const auto read_hop = [&](const JsonValue& hop) {
    hop.expect_keys({"link", "direction"});
    const auto found = links.find(hop.at("link").text());
    if (found == links.end()) hop.at("link").fail("the name of a link");
    return model::Hop{found->second, named(kDirections, hop.at("direction"))};
  };
  return {.from = value.at("from").text(),
          .to = value.at("to").text(),
          .hops = read_all(value.at("hops"), limits::kHops, read_hop),
          .symmetrical = value.at("symmetrical").boolean()};
}

model::Cluster read_cluster(const JsonValue& value) {
  value.expect_keys({"name", "devices", "routers", "links", "routes"});
  std::vector<model::Link> links = read_all(value.at("links"), limits::kNetwork, read_link);
  std::map<std::string, model::LinkIndex> by_name;
  for (std::size_t i = 0; i < links.size(); ++i) {
    by_name.emplace(links[i].name, static_cast<model::LinkIndex>(i));
  }
  const auto read_text = [](const JsonValue& text) { return text.text(); };
  const auto read_route = [&](const JsonValue& route) { return read_edge(route, by_name); };
  return {value.at("name").text(), read_all(value.at("devices"), limits::kDevices, read_device),
          read_all(value.at("routers"), limits::kNetwork, read_text), std::move(links),
          read_all(value.at("routes"), limits::kNetwork, read_route)};
}

model::WeightFormat read_format(const JsonValue& name) {
  const auto format = model::find_any_format(name.text());
  std::string known;
  for (const model::WeightFormat one : model::kAllFormats)
    known += (known.empty() ? "one of " : ", ") + std::string(to_string(one));
  if (!format) name.fail(known);
  return *format;
}

// Reads formats of single layers: matrices by the layer's number.
void read_exceptions(const JsonValue& value, std::int64_t layers, model::WeightFormats& formats) {
  std::int64_t known = 0;
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    const auto own = value.find(std::to_string(layer));
    if (!own) continue;
    ++known;
    own->expect_keys({"query", "key", "value", "out", "gate", "up", "down"});
    for (const model::WeightMatrix matrix : model::kWeightMatrices) {
      if (!is_of_layer(matrix)) continue;
      if (const auto name = own->find(to_string(matrix)))
        formats.set(matrix, layer, read_format(*name));
    }
  }
  if (known != static_cast<std::int64_t>(value.json().size()))
    value.fail("numbers of the model's layers, each with its matrices' formats");
}

model::WeightFormats read_formats(const JsonValue& value, std::int64_t layers) {
  model::WeightFormats formats;
  value.expect_keys({"query_key_value", "query", "key", "value", "out", "gate_up", "gate", "up",
                     "down", "embedding", "head", "layers"});
  for (const model::MatrixGroup& group : model::matrix_groups()) {
    // One format, or each matrix its own.
    const bool apart = group.matrices.size() > 1 && value.find(to_string(group.matrices.front()));
    for (const model::WeightMatrix matrix : group.matrices)
      formats.set(matrix, read_format(value.at(apart ? to_string(matrix) : group.name)));
    if (apart && value.find(group.name))
      value.fail_key(group.name, "nothing, as each of its matrices has a format");
  }
  if (const auto own = value.find("layers")) read_exceptions(*own, layers, formats);
  return formats;
}

model::Transformer read_model(const JsonValue& value, const std::string& subject) {
  value.expect_keys({"name", "config", "weights", "cache"});
  const std::string config = value.at("config").json().dump();
  model::Transformer transformer = model::parse_config_json(config, subject + ": model.config");
  transformer.name = value.at("name").text();
  if (const auto weights = value.find("weights"))
    transformer.formats = read_formats(*weights, transformer.layers);
  if (const auto cache = value.find("cache")) {
    const auto format = model::find_cache_format(cache->text());
    if (!format) cache->fail("one of " + model::cache_format_names());
    if (*format == model::CacheFormat::f32) cache->fail("no such key for f32");
    transformer.cache = *format;
  }
  return transformer;
}

Workload read_workload(const JsonValue& value) {
  value.expect_keys(
      {"prompt_tokens", "new_tokens", "samples", "file", "sha256", "raw_prompts", "requests"});
  return {.prompt_tokens = value.at("prompt_tokens").integer(1, kMaxTokens),
          .new_tokens = value.at("new_tokens").integer(0, kMaxTokens)};
}

Capacity read_capacity(const JsonValue& value) {
  value.expect_keys({"rows", "positions", "sequences", "steps"});
  return {.rows = value.at("rows").integer(0, kMaxInt32),
          .positions = value.at("positions").integer(0, kMaxInt32),
          .sequences = value.at("sequences").integer(0, kMostSequences),
          .steps = value.at("steps").integer(0, kMostSteps)};
}

void read_device_plan(const JsonValue& value, const std::string& subject, Plan& plan) {
  value.expect_keys({"name", "layers", "heads", "columns", "embedding", "head", "window",
                     "memory_bytes", "profile", "part", "vocabulary"});
  const std::size_t d = plan.devices.size();
  const std::string& expected = plan.cluster.devices()[d].name;
  if (value.at("name").text() != expected) {
    value.at("name").fail("\"" + expected + "\", as cluster.devices has it");
  }
  plan.devices.push_back({.share = {.layers = read_layers(value.at("layers")),
                                    .heads = read_range(value.at("heads")),
                                    .columns = read_range(value.at("columns")),
                                    .embedding = value.at("embedding").boolean(),
                                    .head = value.at("head").boolean()},
                          .memory = read_memory(value.at("memory_bytes")),
                          .window = read_window(value.at("window"))});
  if (const auto vocabulary = value.find("vocabulary")) {
    plan.devices.back().share.vocabulary = read_range(*vocabulary);
    if (plan.devices.back().share.vocabulary.empty())
      vocabulary->fail("rows of the LM head that it holds, or no such key");
  }
  if (const auto part = value.find("part")) plan.devices.back().share.part = read_part(*part);
  plan.profiles.push_back(model::parse_profile_json(
      value.at("profile").json().dump(), subject + ": devices[" + std::to_string(d) + "].profile"));
}

AllreduceChoice read_allreduce(const JsonValue& value) {
  value.expect_keys({"prompt", "decode"});
  return {.prompt = value.at("prompt").text(), .decode = value.at("decode").text()};
}

// Names of all devices in the order of the sums, and the group of each, by the same order.
Proximity read_layout(const JsonValue& value, const model::Cluster& cluster) {
  value.expect_keys({"order", "groups"});
  const std::vector<model::DeviceIndex> order =
      read_all(value.at("order"), limits::kDevices,
               [&](const JsonValue& name) { return cluster.find(name.text()); });
  const std::vector<std::int32_t> groups =
      read_all(value.at("groups"), limits::kDevices, [](const JsonValue& group) {
        return static_cast<std::int32_t>(group.integer(0, kMaxInt32));
      });
  if (groups.size() != order.size()) value.at("groups").fail("one for each device of 'order'");
  Proximity layout{.order = order, .group = {}};
  if (!order.empty()) layout.group.resize(cluster.devices().size());
  for (std::size_t i = 0; i < order.size(); ++i)
    layout.group[static_cast<std::size_t>(order[i])] = groups[i];
  return layout;
}

SparseAttention read_sparse(const JsonValue& value, const model::Cluster& cluster,
                            std::int64_t kv_heads) {
  value.expect_keys({"order", "groups", "drop", "overlap", "tiles"});
  const auto read_part = [](const JsonValue& part) { return part.number(0.0, 1.0); };
  const auto read_ratio = [&](const JsonValue& ratio) -> DropRatio {
    if (!ratio.json().is_array()) return {.parts = {read_part(ratio)}};
    DropRatio by_head{.parts = read_all(ratio, limits::kNetwork, read_part)};
    // One part would stand for all heads; the plan checks other lengths.
    if (by_head.parts.size() == 1 && kv_heads != 1)
      ratio.fail("a number, or one for each of the " + std::to_string(kv_heads) +
                 " key/value heads");
    return by_head;
  };
  const auto read_group = [](const JsonValue& group) {
    return static_cast<std::int32_t>(group.integer(0, kMaxInt32));
  };
  const auto read_tiles = [](const JsonValue& count) {
    return static_cast<std::int32_t>(count.integer(1, kMostTiles));
  };
  return {
      .order = read_all(value.at("order"), limits::kDevices,
                        [&](const JsonValue& name) { return cluster.find(name.text()); }),
      .groups = read_all(
          value.at("groups"), static_cast<std::size_t>(kMostLevels),
          [&](const JsonValue& level) { return read_all(level, limits::kDevices, read_group); }),
      .drop = read_all(value.at("drop"), limits::kNetwork,
                       [&](const JsonValue& layer) {
                         return read_all(layer, static_cast<std::size_t>(kMostLevels), read_ratio);
                       }),
      .overlap = value.find("overlap") ? value.at("overlap").boolean() : false,
      .tiles = value.find("tiles")
                   ? read_all(value.at("tiles"), limits::kNetwork,
                              [&](const JsonValue& layer) {
                                return read_all(layer, static_cast<std::size_t>(kMostLevels),
                                                read_tiles);
                              })
                   : std::vector<std::vector<std::int32_t>>()};
}

Plan read_plan(const JsonValue& root, const std::string& source) {
  root.expect_keys({"schema",         "strategy",  "partition",  "allreduce",        "layout",
                    "tiles",          "model",     "cluster",    "master",           "workload",
                    "capacity",       "release",   "devices",    "group_strategy",   "decode_moves",
                    "gather_weights", "wire",      "candidates", "sparse_attention", "policy",
                    "chunk",          "in_flight", "search",     "shares",           "loss",
                    "decisions"});
  Plan plan{.strategy = root.at("strategy").text(),
            .partition = root.at("partition").text(),
            .allreduce = read_allreduce(root.at("allreduce")),
            .tiles = static_cast<std::int32_t>(root.at("tiles").integer(0, kMostTiles)),
            .model = read_model(root.at("model"), source),
            .cluster = read_cluster(root.at("cluster")),
            .master = 0,
            .workload = read_workload(root.at("workload")),
            .capacity = read_capacity(root.at("capacity")),
            .devices = {},
            .profiles = {},
            .release = named(kReleases, root.at("release"))};
  if (const auto strategy = root.find("group_strategy")) {
    plan.group_strategy = strategy->text();
    if (plan.group_strategy.empty()) strategy->fail("\"galaxy\", or no such key");
  }
  if (const auto moves = root.find("decode_moves")) {
    const auto found = find_decode_moves(moves->text());
    if (!found || *found == DecodeMoves::queries)
      moves->fail("\"kv\" or \"migrate\", or no such key");
    plan.decode_moves = *found;
  }
  if (const auto gathers = root.find("gather_weights")) {
    plan.gather_weights = gathers->boolean();
    if (!plan.gather_weights) gathers->fail("true, or no such key");
  }
  if (const auto wire = root.find("wire")) {
    const auto format = model::find_wire_format(wire->text());
    if (!format) wire->fail("one of " + model::wire_format_names());
    if (*format == model::WireFormat::f32) wire->fail("no such key for f32");
    plan.wire = *format;
  }
  if (const auto candidates = root.find("candidates"))
    plan.candidates = static_cast<std::int32_t>(candidates->integer(1, model::kMostCandidates));
  plan.master = plan.cluster.find(root.at("master").text());
  plan.layout = read_layout(root.at("layout"), plan.cluster);
  if (const auto sparse = root.find("sparse_attention"))
    plan.sparse = read_sparse(*sparse, plan.cluster, plan.model.kv_heads);
  const JsonValue devices = root.at("devices");
  if (devices.size(limits::kDevices) != plan.cluster.devices().size()) {
    devices.fail("one element for each of the " + std::to_string(plan.cluster.size()) +
                 " devices of the cluster");
  }
  for (std::size_t d = 0; d < plan.cluster.devices().size(); ++d) {
    read_device_plan(devices.at(d), source, plan);
  }
  plan.validate();
  return plan;
}

std::optional<SearchCut> read_search(const model::JsonValue& root) {
  const auto search = root.find("search");
  if (!search) return std::nullopt;
  search->expect_keys({"evaluations", "to_the_end"});
  if (search->at("to_the_end").boolean()) return std::nullopt;
  return SearchCut{
      .evaluations =
          search->at("evaluations").integer(0, std::numeric_limits<std::int64_t>::max())};
}

std::vector<PlanDecision> read_decisions(const model::JsonValue& root) {
  constexpr std::size_t kMostDecisions = 64;
  std::vector<PlanDecision> decisions;
  const auto all = root.find("decisions");
  if (!all) return decisions;
  for (std::size_t i = 0; i < all->size(kMostDecisions); ++i) {
    const model::JsonValue one = all->at(i);
    one.expect_keys({"axis", "value", "considered"});
    decisions.push_back(
        {.axis = one.at("axis").line(),
         .value = one.at("value").line(),
         .considered = one.at("considered").integer(1, std::numeric_limits<std::int64_t>::max())});
  }
  return decisions;
}

std::map<std::string, model::DeviceShare> read_shares(const model::JsonValue& root,
                                                      const model::Cluster& cluster) {
  std::map<std::string, model::DeviceShare> shares;
  const auto all = root.find("shares");
  if (!all) return shares;
  std::size_t known = 0;
  for (const model::Device& device : cluster.devices()) {
    const auto one = all->find(device.name);
    if (!one) continue;
    ++known;
    one->expect_keys({"share", "cores"});
    const model::DeviceShare share{.share = one->at("share").number(0.0, 1.0),
                                   .cores = one->at("cores").integer(1, limits::kCores)};
    if (!(share.share > 0.0) || share.share >= 1.0)
      one->at("share").fail("a number above 0 and below 1");
    if (model::cores_of(share) != device.cores)
      one->at("cores").fail("of which the share is the " + std::to_string(device.cores) +
                            " cores of the device");
    shares.emplace(device.name, share);
  }
  if (known != all->json().size() || known == 0)
    all->fail("shares of devices of the plan alone, at least one");
  return shares;
}

}  // namespace

PlanFile parse_plan_file(std::string_view text, std::string_view source) {
  model::expect_kind(text, source, model::kPlanKind);
  const model::JsonDocument document(text, source, kMakeAgain, {.bytes = limits::kPlanBytes});
  model::expect_schema(document.root(), kPlanSchema);
  try {
    PlanFile file{.plan = read_plan(document.root(), document.source()),
                  .service = read_planned_service(document.root()),
                  .search = read_search(document.root())};
    file.shares = read_shares(document.root(), file.plan.cluster);
    file.decisions = read_decisions(document.root());
    if (const auto loss = document.root().find("loss")) file.loss = read_plan_loss(*loss);
    if (file.service) file.service->validate(file.plan);
    return file;
  } catch (const Error& error) {
    // Messages of the parts (a cluster, a share) do not name the file.
    const std::string message = error.what();
    if (message.starts_with(document.source())) throw;
    throw Error(document.source() + ": " + message);
  }
}

Plan parse_plan_json(std::string_view text, std::string_view source) {
  return parse_plan_file(text, source).plan;
}

}  // namespace tandem::planner
