#pragma once

// A second reading of CSPS's numbers: software's cost by step and by token, where csps_testbed.hpp
// computes operations and bytes. It describes what the paper's programs took, not what its hardware
// can do: at 1K tokens a step works for 8% of its time.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "study/experiment/csps_systems.hpp"

namespace tandem::study {

// Constants fitted to the paper, one to a printed number.
struct CspsStepCosts {
  double peak_flops = 1.0;  // of a device, a data sheet's
  double step_s = 0.0;      // of Sarathi-Serve, whatever it computes; by figure 3's 487 tokens/s
  double efficiency = 1.0;  // of Sarathi-Serve's operations; by figure 3's 191 tokens/s
  double token_s = 0.0;     // R of the paper's equation; by Table 4's CSPS, NeedleBench, GLM-4
};

// The systems of one of kCspsModels with these costs.
//   Sarathi-Serve: one chunk in flight, so that four of its eight devices work. A step of c rows
//   after `context` tokens takes
//     step_s + c (linear + attention context) / (4 efficiency peak)
//   CSPS: T_a + R L (3.2.6), attention at half of the peak on N devices, and all else, which does
//   not shrink with N
//     attention L^2 / 2 / (N peak / 2) + token_s L
//   A new token, which no prompt delays, takes step_s.
// `linear` are a row's operations without attention, embedding and head; `attention` those of a row
// and a token before it.
class CspsStepModel {
 public:
  CspsStepModel(const model::Transformer& transformer, CspsStepCosts costs);

  [[nodiscard]] double sarathi_step_s(std::int64_t prompt_tokens) const;  // of a mean chunk
  [[nodiscard]] double sarathi_ttft_s(std::int64_t prompt_tokens) const;
  // Returns how many sequences of so many tokens eight devices decode together: those that their
  // memory holds beside the weights, at most Sarathi's default of 128, at least one.
  [[nodiscard]] std::int64_t sarathi_sequences(std::int64_t tokens) const;
  [[nodiscard]] double prompt_s(CspsPrefill prefill, std::int64_t prompt_tokens) const;
  // Returns attention's part of it.
  [[nodiscard]] double attention_share(CspsPrefill prefill, std::int64_t prompt_tokens) const;

  [[nodiscard]] CspsSystem sarathi() const;
  [[nodiscard]] CspsSystem csps() const;  // SP-NTP above 100K tokens, SP-TP up to there
  [[nodiscard]] CspsSystem prefilled(CspsPrefill prefill) const;

 private:
  [[nodiscard]] double attention_s(CspsPrefill prefill, std::int64_t prompt_tokens) const;

  CspsStepCosts costs_;
  double linear_ = 0.0;
  double attention_ = 0.0;
  double weight_bytes_ = 0.0;
  double cached_bytes_ = 0.0;  // of a token
};

[[nodiscard]] CspsStepCosts calibrated_csps_steps(const Scenarios& scenarios);

inline constexpr std::size_t kCspsStepRequests = 500;  // of each data set

}  // namespace tandem::study
