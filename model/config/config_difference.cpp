#include <nlohmann/json.hpp>

#include "model/base/error.hpp"
#include "model/transformer/transformer.hpp"

namespace tandem::model {

std::vector<FieldDifference> differences(const Transformer& first, const Transformer& second) {
  // Compares what is written: a field added to both directions of config.json is included by that.
  Transformer renamed = second;
  renamed.name = first.name;
  renamed.formats = first.formats;
  renamed.cache = first.cache;
  const auto a = nlohmann::ordered_json::parse(to_config_json(first));
  const auto b = nlohmann::ordered_json::parse(to_config_json(renamed));
  std::vector<std::string> fields;
  for (const auto& [field, value] : a.items()) fields.push_back(field);
  for (const auto& [field, value] : b.items()) {
    if (!a.contains(field)) fields.push_back(field);
  }
  std::vector<FieldDifference> found;
  const nlohmann::ordered_json none;
  for (const std::string& field : fields) {
    const nlohmann::ordered_json& of_first = a.contains(field) ? a.at(field) : none;
    const nlohmann::ordered_json& of_second = b.contains(field) ? b.at(field) : none;
    if (of_first != of_second) found.push_back({field, of_first.dump(), of_second.dump()});
  }
  require(!found.empty() || first == renamed, "to_config_json writes every field of a model");
  return found;
}

}  // namespace tandem::model
