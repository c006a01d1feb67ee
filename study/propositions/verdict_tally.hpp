#pragma once

// Confusion matrices of a proposition against the recurrence, and the classes of their
// disagreements, each named by the violated assumption.

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::study {

// Implicit assumptions of a proposition. `explain` finds the cause of a disagreement among them by
// restoring them.
enum class Assumption : std::uint8_t {
  release_rule,   // the release rule that it is exact for
  window,         // the window that it is exact for
  start_up,       // that the start counts (Proposition 6), or is compensated (3 and 4)
  heterogeneity,  // that all devices are equal
  largest,        // Proposition 5: which blocks are the largest
  model,          // Proposition 5: the model has more blocks than the window
  full_window,    // Proposition 5: the disk fills the window
};
inline constexpr int kAssumptions = 7;
[[nodiscard]] std::string_view to_string(Assumption assumption);

class Assumptions {  // a set
 public:
  constexpr Assumptions() = default;
  constexpr Assumptions(std::initializer_list<Assumption> members) {
    for (const Assumption member : members) bits_ |= bit(member);
  }
  [[nodiscard]] constexpr bool has(Assumption member) const { return (bits_ & bit(member)) != 0; }
  constexpr void add(Assumption member) { bits_ |= bit(member); }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] int size() const;
  friend constexpr auto operator<=>(Assumptions, Assumptions) = default;

 private:
  static constexpr unsigned bit(Assumption member) { return 1U << static_cast<unsigned>(member); }
  unsigned bits_ = 0;
};
[[nodiscard]] std::string to_text(Assumptions assumptions);  // "window + release rule"; "none"

// Returns the smallest set of `candidates` whose restoration leads to agreement (in order of size,
// then of the candidates); empty if even all of them leave the disagreement.
[[nodiscard]] Assumptions explain(const std::vector<Assumption>& candidates,
                                  const std::function<bool(Assumptions)>& agrees);

// One class: draws with the proposition's verdict `says` and the recurrence's verdict `is`. Text,
// as Proposition 5 compares sizes.
struct ClassKey {
  std::string says;
  std::string is;
  Assumptions broken;   // empty if they agree
  std::string window;   // "1", "2", ..., "unlimited"
  std::string release;  // "early", "late"
  std::string devices;  // "equal" or "unequal"
  auto operator<=>(const ClassKey&) const = default;
};

struct Tally {
  std::string name{};
  std::string question{};  // the question to the recurrence
  struct Class {
    std::int64_t count = 0;
    std::string example{};  // the first draw of the class
  };
  std::map<ClassKey, Class> classes{};
  std::int64_t unexplained = 0;

  void add(const ClassKey& key, const std::function<std::string()>& example);
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] std::int64_t count(std::string_view says, std::string_view is) const;
  [[nodiscard]] std::int64_t agreeing() const;
};

}  // namespace tandem::study
