#include "exec/testbed/testbed_facts.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "model/base/digest.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kSchema = "tandem.testbed/1";
constexpr double kMostTestbedDilation = 1000.0;

}  // namespace

std::string to_json(const TestbedFacts& facts) {
  return nlohmann::json{{"schema", kSchema},          {"turn", facts.turn},
                        {"network", facts.network},   {"platform", facts.platform},
                        {"dilation", facts.dilation}, {"environment", facts.environment}}
      .dump();
}

TestbedFacts parse_testbed_facts(std::string_view text, std::string_view source) {
  const model::JsonDocument document(text, source, "give the path that `tandem testbed up` prints");
  const model::JsonValue root = document.root();
  model::expect_schema(root, kSchema);
  root.expect_keys({"schema", "turn", "network", "platform", "dilation", "environment"});
  TestbedFacts facts{.turn = root.at("turn").line(),
                     .network = root.at("network").line(),
                     .platform = root.at("platform").line(),
                     .dilation = root.at("dilation").number(1.0, kMostTestbedDilation),
                     .environment = {}};
  const model::JsonValue environment = root.at("environment");
  if (!environment.is_object()) environment.fail("an object");
  for (const auto& [name, value] : environment.json().items())
    facts.environment[name] = environment.at(name).line();
  return facts;
}

std::string network_digest(const model::Cluster& cluster) {
  std::ostringstream text;
  text.precision(17);
  for (const model::Device& device : cluster.devices()) text << device.name << '\n';
  for (const model::Link& link : cluster.links())
    text << link.name << ' ' << link.latency.value() << ' ' << link.bandwidth.value() << ' '
         << static_cast<int>(link.sharing) << '\n';
  for (model::DeviceIndex from = 0; from < cluster.size(); ++from) {
    for (model::DeviceIndex to = 0; to < cluster.size(); ++to) {
      if (from == to) continue;
      for (const model::Hop& hop : cluster.route(from, to).hops)
        text << ' ' << hop.link << ':' << static_cast<int>(hop.direction);
      text << '\n';
    }
  }
  return model::sha256_hex(text.str());
}

}  // namespace tandem::exec
