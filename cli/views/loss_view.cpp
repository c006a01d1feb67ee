#include "cli/views/loss_view.hpp"

#include <cmath>
#include <ostream>
#include <utility>

#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// What the plan's own type saves, beside `option`.
std::string saved_text(const LossAnswer& answer, const TypeOption& option) {
  if (option.selected) return "selected";
  for (const TypeOption& own : answer.options) {
    if (!own.selected || own.what != option.what || !own.seconds || !option.seconds) continue;
    const double part = *option.seconds / *own.seconds - 1.0;
    return model::fixed(100.0 * std::abs(part), 1) + "% " + (part < 0.0 ? "less" : "more");
  }
  return "does not fit";
}

}  // namespace

std::string of_bits(double loss) { return model::shortest_text(std::round(loss * 1e9) / 1e9); }

void print_loss(const LossAnswer& answer, std::ostream& out) {
  out << "\nloss " << of_bits(answer.loss.total()) << " bits per byte, of at most "
      << of_bits(answer.loss.most) << ": messages " << of_bits(answer.loss.messages) << ", cache "
      << of_bits(answer.loss.cache);
  if (answer.loss.dropping > 0.0) out << ", dropped rows " << of_bits(answer.loss.dropping);
  out << " (" << answer.source << ")\n";
  model::Table table({"type of", "", "loses", "time", "", "within the bound"});
  for (const TypeOption& option : answer.options) {
    table.add({option.what, option.type, option.loss ? of_bits(*option.loss) : "not measured",
               option.seconds ? model::to_text(model::Seconds{*option.seconds}) : "-",
               saved_text(answer, option), option.within ? "yes" : "no"});
  }
  table.print(out);
  out << "times with another type are of the same shares\n";
}

Json loss_json(const LossAnswer& answer) {
  Json json = planner::json_of(answer.loss);
  json["file"] = answer.source;
  json["types"] = Json::array();
  for (const TypeOption& option : answer.options) {
    json["types"].push_back({{"of", option.what},
                             {"type", option.type},
                             {"loss", option.loss ? Json(*option.loss) : Json()},
                             {"seconds", option.seconds ? Json(*option.seconds) : Json()},
                             {"selected", option.selected},
                             {"within", option.within}});
  }
  json["remarks"] = answer.remarks;
  return json;
}

}  // namespace tandem::cli
