#include "planner/search/measured_model.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "model/base/error.hpp"

namespace tandem::planner {
namespace {

constexpr std::size_t kMostFiles = 1024;

}  // namespace

model::Transformer read_measured_model(const model::JsonValue& model, const std::string& source) {
  model.expect_keys({"name", "config"});
  model::Transformer measured =
      model::parse_config_json(model.at("config").json().dump(), source + ": model.config");
  measured.name = model.at("name").line();
  return measured;
}

std::vector<WeightsFile> read_measured_weights(const model::JsonValue& weights) {
  std::vector<WeightsFile> files;
  for (std::size_t i = 0; i < weights.size(kMostFiles); ++i) {
    const model::JsonValue file = weights.at(i);
    file.expect_keys({"file", "bytes", "tail_sha256"});
    const std::string digest = file.at("tail_sha256").text(64);
    if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string::npos)
      file.at("tail_sha256").fail("64 hexadecimal characters");
    files.push_back({.name = file.at("file").line(),
                     .bytes = file.at("bytes").integer(1, std::int64_t{1} << 52U),
                     .tail_sha256 = digest});
  }
  if (files.empty()) weights.fail("at least one file of weights");
  return files;
}

void check_measured_model(const model::Transformer& measured, const model::Transformer& transformer,
                          const std::string& source, std::string_view remedy) {
  const std::vector<model::FieldDifference> other = model::differences(measured, transformer);
  if (other.empty()) return;
  throw Error(
      source + ": measured of another model, " + measured.name + ": " + other.front().field + " " +
      other.front().first + ", expected " + other.front().second + " as " + transformer.name +
      " has it" +
      (other.size() > 1 ? ", and " + std::to_string(other.size() - 1) + " fields more" : "") +
      "; " + std::string(remedy));
}

}  // namespace tandem::planner
