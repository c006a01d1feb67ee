#include "cli/files/plan_argument.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/files/files.hpp"
#include "cli/files/scenarios.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::cli {
namespace {

// Whether `known` has `name`; false where the program has no scenarios, as on a device.
bool is_one_of(const std::string& name, const std::function<std::vector<std::string>()>& known) {
  try {
    const std::vector<std::string> names = known();
    return std::ranges::find(names, name) != names.end();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_plan_argument(const std::string& path, const std::string& remedy) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return;
  constexpr std::size_t kShown = 100;
  const std::string subject = "argument plan.json: '" + model::printable(path, kShown) + "': ";
  const std::string expected = ", expected a plan that 'tandem plan' wrote; ";
  const std::string example = "make one with 'tandem plan --platform ";
  if (is_one_of(path, [] { return scenario_names("platforms", ".xml"); }))
    throw Error(subject + "a platform" + expected + example + path +
                " --model M --out plan.json', and give that file");
  if (is_one_of(path, known_models))
    throw Error(subject + "a model" + expected + example + "P --model " + path +
                " --out plan.json', and give that file");
  throw Error(subject + "no such file" + expected + remedy);
}

planner::PlanFile plan_argument(const std::string& path) {
  check_plan_argument(path);
  return planner::parse_plan_file(read_file(path), path);
}

}  // namespace tandem::cli
