#include "study/propositions/verdict_tally.hpp"

#include <bit>

namespace tandem::study {

std::string_view to_string(Assumption assumption) {
  switch (assumption) {
    case Assumption::release_rule:
      return "release rule";
    case Assumption::window:
      return "window";
    case Assumption::start_up:
      return "start-up";
    case Assumption::heterogeneity:
      return "heterogeneity";
    case Assumption::largest:
      return "largest blocks";
    case Assumption::model:
      return "window beyond the model";
    case Assumption::full_window:
      return "window not full";
  }
  return "";
}

int Assumptions::size() const { return std::popcount(bits_); }

std::string to_text(Assumptions assumptions) {
  std::string text;
  for (int i = 0; i < kAssumptions; ++i) {
    const auto assumption = static_cast<Assumption>(i);
    if (!assumptions.has(assumption)) continue;
    if (!text.empty()) text += " + ";
    text += to_string(assumption);
  }
  return text.empty() ? "none" : text;
}

Assumptions explain(const std::vector<Assumption>& candidates,
                    const std::function<bool(Assumptions)>& agrees) {
  const unsigned sets = 1U << candidates.size();
  for (int size = 1; size <= static_cast<int>(candidates.size()); ++size) {
    for (unsigned set = 1; set < sets; ++set) {
      if (std::popcount(set) != size) continue;
      Assumptions restored;
      for (std::size_t i = 0; i < candidates.size(); ++i)
        if ((set >> i & 1U) != 0) restored.add(candidates[i]);
      if (agrees(restored)) return restored;
    }
  }
  return {};
}

void Tally::add(const ClassKey& key, const std::function<std::string()>& example) {
  Class& entry = classes[key];
  if (entry.count++ == 0 && key.says != key.is) entry.example = example();
  if (key.says != key.is && key.broken.empty()) ++unexplained;
}

std::int64_t Tally::count() const {
  std::int64_t total = 0;
  for (const auto& [key, entry] : classes) total += entry.count;
  return total;
}

std::int64_t Tally::count(std::string_view says, std::string_view is) const {
  std::int64_t total = 0;
  for (const auto& [key, entry] : classes)
    if (key.says == says && key.is == is) total += entry.count;
  return total;
}

std::int64_t Tally::agreeing() const {
  std::int64_t total = 0;
  for (const auto& [key, entry] : classes)
    if (key.says == key.is) total += entry.count;
  return total;
}

}  // namespace tandem::study
