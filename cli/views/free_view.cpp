#include "cli/views/free_view.hpp"

#include <algorithm>
#include <ostream>

#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using planner::Objective;
using study::FreeChange;
using study::FreeChanges;
using study::PlanFlag;

std::string text_of(const std::vector<PlanFlag>& flags) {
  std::string text;
  for (const PlanFlag& flag : flags) {
    text += (text.empty() ? "--" : " --") + flag.name;
    if (!flag.value.empty()) text += " " + model::shell_word(flag.value);
  }
  return text;
}

// Whether `change` is made by adding flags to those that fix the plan; one to another strategy may
// have no place for some of them.
bool adds_flags(const FreeChanges& changes, const FreeChange& change) {
  return std::ranges::all_of(changes.fixed, [&](const PlanFlag& flag) {
    return std::ranges::find(change.flags, flag.name, &PlanFlag::name) != change.flags.end();
  });
}

// The flags that `change` alone has, or all of them if some that fix the plan are not among them.
std::string own_flags(const FreeChanges& changes, const FreeChange& change) {
  if (!adds_flags(changes, change)) return text_of(change.flags);
  std::vector<PlanFlag> own;
  for (const PlanFlag& flag : change.flags) {
    if (std::ranges::find(changes.fixed, flag) == changes.fixed.end()) own.push_back(flag);
  }
  return text_of(own);
}

bool has_fixed(const FreeChanges& changes, const FreeChange& change) {
  if (!adds_flags(changes, change)) return false;
  return std::ranges::any_of(change.flags, [&](const PlanFlag& flag) {
    return std::ranges::find(changes.fixed, flag) != changes.fixed.end();
  });
}

// The flags of the command that `change` replaces, or that must go.
std::vector<std::string> replaced(const FreeChange& change, const FreeWords& words) {
  std::vector<std::string> names;
  for (const std::string& name : words.given) {
    const bool goes = std::ranges::find(change.without, name) != change.without.end() ||
                      std::ranges::find(change.flags, name, &PlanFlag::name) != change.flags.end();
    if (goes && std::ranges::find(names, "--" + name) == names.end()) names.push_back("--" + name);
  }
  return names;
}

std::string size_of_gain(double part) {
  const double size = 100.0 * std::abs(part);
  return model::fixed(size, size < 9.95 ? 1 : 0) + "%";
}

// The objective's name and value.
std::string value_text(const FreeWords& words, double seconds) {
  const std::string time = to_text(model::Seconds{seconds});
  const std::string mean = words.many ? " in the mean" : "";
  switch (words.objective) {
    case Objective::throughput:
      return model::fixed(1.0 / seconds, 2) + " a second";
    case Objective::ttft:
      return "first token " + time + mean;
    case Objective::latency:
      return "a new token " + time + mean;
    case Objective::request:
      break;
  }
  return "request " + time + mean;
}

std::string gain_text(const FreeChanges& changes, const FreeChange& change,
                      const FreeWords& words) {
  const double gain = changes.gain(change);
  if (words.objective != Objective::throughput)
    return size_of_gain(gain) + (gain < 0.0 ? " more" : " less");
  return size_of_gain(changes.unchanged_s / *change.seconds - 1.0) +
         (gain < 0.0 ? " less" : " more");
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// The fastest change of each kind that gains too little.
std::vector<std::string> in_vain(const FreeChanges& changes,
                                 const std::vector<const FreeChange*>& worth,
                                 const FreeWords& words) {
  std::vector<std::string> all;
  std::vector<std::string_view> known;
  known.reserve(worth.size());
  for (const FreeChange* const change : worth) known.push_back(change->kind);
  for (const FreeChange& change : changes.tried) {
    if (!change.seconds || std::ranges::find(known, change.kind) != known.end()) continue;
    known.push_back(change.kind);
    all.push_back(own_flags(changes, change) + " (" + value_text(words, *change.seconds) + ", " +
                  gain_text(changes, change, words) +
                  (changes.gain(change) > 0.0 ? "; " + change.price_text : "") + ")");
  }
  return all;
}

void print_worth(const FreeChanges& changes, const std::vector<const FreeChange*>& worth,
                 const FreeWords& words, std::ostream& out) {
  out << "Free changes, each made by adding its flags to " << words.command << ":\n";
  bool fixed = false;
  for (const FreeChange* const change : worth) {
    out << "  " << own_flags(changes, *change) << ": " << (change->at_least ? "at least " : "")
        << value_text(words, *change->seconds) << ", " << gain_text(changes, *change, words);
    if (change->price == study::Price::nothing)
      out << "; no price: " << change->price_text << '\n';
    else
      out << "; price in " << to_string(change->price) << ": " << change->price_text << '\n';
    fixed |= has_fixed(changes, *change);
    if (const std::vector<std::string> gone = replaced(*change, words); !gone.empty())
      out << "    in place of " << joined(gone) << '\n';
  }
  if (fixed)
    out << "  together with the flags that fix this plan: " << text_of(changes.fixed) << '\n';
}

}  // namespace

void print_free(const FreeChanges& changes, const FreeWords& words, std::ostream& out) {
  const std::vector<const FreeChange*> worth = changes.worth();
  if (!worth.empty()) print_worth(changes, worth, words, out);
  if (const std::vector<std::string> small = in_vain(changes, worth, words); !small.empty())
    out << (worth.empty() ? "No free change gains 1%: " : "Free changes that gain less than 1%: ")
        << joined(small) << ".\n";
  if (!changes.not_tried.empty())
    out << "Free changes not tried, as the search ended: " << joined(changes.not_tried) << ".\n";
}

Json free_json(const FreeChanges& changes, const FreeWords& words) {
  Json json{{"planned_s", changes.planned_s},
            {"unchanged_s", changes.unchanged_s},
            {"fixed_flags", text_of(changes.fixed)},
            {"changes", Json::array()},
            {"not_tried", changes.not_tried}};
  const std::vector<const FreeChange*> worth = changes.worth();
  for (const FreeChange& change : changes.tried) {
    const bool possible = change.seconds.has_value();
    json["changes"].push_back(
        {{"change", change.what},
         {"flags", text_of(change.flags)},
         {"in_place_of", replaced(change, words)},
         {"seconds", possible ? Json(*change.seconds) : Json()},
         {"gain_percent", possible ? Json(100.0 * changes.gain(change)) : Json()},
         {"at_least", change.at_least},
         {"listed", std::ranges::find(worth, &change) != worth.end()},
         {"price", to_string(change.price)},
         {"price_text", change.price_text},
         {"obstacle", possible ? Json() : Json(change.obstacle)}});
  }
  return json;
}

}  // namespace tandem::cli
