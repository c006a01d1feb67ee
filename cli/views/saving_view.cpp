#include "cli/views/saving_view.hpp"

#include <ostream>
#include <string>

#include "cli/flags/predicted_workload.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"
#include "model/transformer/wire_format.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPrice =
    "numbers that travel are rounded to 8 bits, which 'tandem eval' measures";

std::string flag_of(const study::MessageSaving& saving) {
  return "--wire-type " + std::string(to_string(saving.wire));
}

}  // namespace

std::optional<study::MessageSaving> saving_of(const planner::Plan& plan,
                                              const std::optional<Served>& served,
                                              const model::Result& predicted,
                                              planner::Objective objective) {
  if (!served) return study::message_saving(plan, nullptr, predicted, objective);
  const study::ServedWorkload workload = for_prediction(*served);
  return study::message_saving(plan, &workload, predicted, objective);
}

void print_saving(const std::optional<study::MessageSaving>& saving, std::ostream& out) {
  if (!saving) return;
  out << flag_of(*saving) << " would save " << model::fixed(100.0 * saving->part, 0) << "% ("
      << to_text(model::Seconds{saving->seconds}) << "): " << kPrice << '\n';
}

Json saving_json(const std::optional<study::MessageSaving>& saving) {
  Json list = Json::array();
  if (saving) {
    list.push_back({{"flag", flag_of(*saving)},
                    {"seconds", saving->seconds},
                    {"part", saving->part},
                    {"price", kPrice}});
  }
  return list;
}

}  // namespace tandem::cli
