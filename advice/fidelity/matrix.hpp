#pragma once

// The configurations of `tandem fidelity`: factors, their levels, and which half is set aside.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "advice/fidelity/covering.hpp"

namespace tandem::study {

struct Factor {
  std::string_view name;    // a column of fidelity.csv
  std::string_view prefix;  // of its level in a configuration's name
  std::vector<std::string_view> levels;
};

// No level of this factor applies, as of the network with one device.
inline constexpr std::string_view kNoLevel = "none";

// The factors, in the order of a configuration's name.
[[nodiscard]] const std::vector<Factor>& factors();

// The factors as a covering problem: which levels exclude one another.
[[nodiscard]] CoveringProblem matrix_problem();

// A level of each factor.
class Configuration {
 public:
  // Throws logic_error unless `row` has a level of each factor.
  explicit Configuration(CoveringRow row);
  // The level of a factor. Throws logic_error if there is none of this name.
  [[nodiscard]] std::string_view level(std::string_view factor) const;
  // The levels that apply, joined: "tensor-llama-q8_0-x4-uneven-ring-1ms-1Gbps-resident-p64-r1".
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t devices() const;
  [[nodiscard]] const CoveringRow& row() const { return row_; }

 private:
  CoveringRow row_;
  std::string name_;
};

// Returns whether the configuration `name` is in the half that must not be used for tuning the cost
// model: the first byte of the name's SHA-256 is odd, whatever the other configurations.
[[nodiscard]] bool is_set_aside(std::string_view name);

enum class Half : std::uint8_t { shown, set_aside };

// The configurations of a half, which have all allowed pairs of levels, in the order of the
// covering design: the first ones cover most.
[[nodiscard]] std::vector<Configuration> configurations(Half half);

}  // namespace tandem::study
