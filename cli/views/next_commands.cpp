#include "cli/views/next_commands.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string_view>

#include "cli/files/scenarios.hpp"
#include "exec/session/master.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::cli {

using model::shell_word;

std::string prompt_flags(const Arguments& arguments) {
  constexpr std::array kSwitches{std::string_view("--chat"), std::string_view("--raw-prompt")};
  constexpr std::array kTexts{std::string_view("--prompt"), std::string_view("--system")};
  std::string text;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::string name = word.substr(0, word.find('='));
    if (std::ranges::find(kSwitches, name) != kSwitches.end()) text += ' ' + name;
    if (std::ranges::find(kTexts, name) == kTexts.end()) continue;
    const bool next = name == word && i + 1 < arguments.size();
    text += ' ' + name + ' ' + shell_word(next ? arguments[++i] : word.substr(name.size() + 1));
  }
  return text;
}

void print_next(const planner::PlanFile& file, const std::string& path, const std::string& model,
                bool runs, const std::string& prompt, std::ostream& out) {
  std::error_code ignored;
  const std::filesystem::path weights = find_weights(model);
  const bool known = std::filesystem::exists(weights, ignored) && weights.extension() != ".json";
  const std::vector<bool> workers = exec::workers_of(file.plan);
  const bool alone = std::ranges::none_of(workers, [](bool works) { return works; });
  const std::string plan = shell_word(path);
  out << "\npredict: tandem simulate " << plan << "\nrun:     tandem run " << plan << " --weights "
      << (known ? shell_word(model) : "DIR") << (alone ? "" : " --emulate") << prompt
      << (runs || !file.plan.model.architecture().generates()
              ? ""
              : " --workload FILE   (requests with prompts: the planned ones have none)")
      << '\n';
}

}  // namespace tandem::cli
