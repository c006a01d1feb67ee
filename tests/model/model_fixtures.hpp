#pragma once

// What several tests of the model start from.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "model/base/error.hpp"
#include "model/cluster/cluster.hpp"
#include "model/transformer/transformer.hpp"
#include "tests/support/source_tree.hpp"

namespace tandem::model::test {

// The message of the Error that `action` throws; empty if it throws none.
template <class Action>
std::string error_of(Action action) {
  try {
    (void)action();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline Transformer named_model(const std::string& name) {
  const std::string path = testing::in_sources("scenarios/models/" + name + ".json").string();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_config_json(text.str(), path);
}

inline Range all_heads(const Transformer& t) { return {0, static_cast<std::int32_t>(t.heads)}; }
inline Range all_columns(const Transformer& t) {
  return {0, static_cast<std::int32_t>(t.intermediate)};
}

inline Device device(const std::string& name) {
  return {.name = name,
          .cores = 4,
          .flop_rate = FlopsPerSecond{50e9},
          .memory_bandwidth = BytesPerSecond{20e9},
          .memory = Bytes{8e9},
          .disk_bandwidth = BytesPerSecond{500e6}};
}

// `count` devices d0, d1, ... behind one router, each with a link of its own.
inline Cluster star(int count, Seconds latency = Seconds{1e-3},
                    BytesPerSecond bandwidth = BytesPerSecond{1e6}) {
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<Edge> edges;
  for (int i = 0; i < count; ++i) {
    const std::string name = "d" + std::to_string(i);
    devices.push_back(device(name));
    links.push_back({.name = name + "-link", .latency = latency, .bandwidth = bandwidth});
    edges.push_back({.from = name, .to = "core", .hops = {{i, Direction::up}}});
  }
  return {"star", devices, {"core"}, links, edges};
}

// A small Llama with grouped heads: 6 heads on 3 key/value heads of 4.
inline Transformer small_llama() {
  Transformer t;
  t.name = "small";
  t.layers = 2;
  t.hidden = 24;
  t.heads = 6;
  t.kv_heads = 3;
  t.head_dim = 4;
  t.intermediate = 40;
  t.vocab = 50;
  t.max_context = 64;
  return t;
}

}  // namespace tandem::model::test
