#pragma once

// The systems that CSPS compares, as functions of a prompt's length: Sarathi-Serve and its own
// variants.

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "study/experiment/csps_testbed.hpp"

namespace tandem::study {

inline constexpr std::int64_t kCspsContext = 1048576;  // tokens at most, prompt and answer
inline constexpr double kCspsDevices = 64.0;           // of the testbed
inline constexpr double kSarathiDevices = 8.0;         // that serve a request: TP 4, PP 2
// 3.2.2: "SP-NTP is preferable ... if the input length is greater than 100K".
inline constexpr std::int64_t kCspsLong = 100'000;

// A function of a prompt's length, known at two lengths or more, linear between and beyond them:
// seconds of a new token, which reads everything before it, or of a prompt per token.
class CspsCurve {
 public:
  void add(std::int64_t tokens, double value) { points_[static_cast<double>(tokens)] = value; }
  [[nodiscard]] double operator()(std::int64_t tokens) const;

 private:
  std::map<double, double> points_;
};

// The same for prompts, per token.
class CspsPromptCurve {
 public:
  void add(std::int64_t tokens, double seconds) {
    of_a_token_.add(tokens, seconds / static_cast<double>(tokens));
  }
  [[nodiscard]] double operator()(std::int64_t tokens) const {
    return static_cast<double>(tokens) * of_a_token_(tokens);
  }

 private:
  CspsCurve of_a_token_;
};

// Seconds of a system's requests, by the length of their prompts.
struct CspsSystem {
  std::function<double(std::int64_t)> ttft_s;
  std::function<double(std::int64_t)> token_s;
  std::function<double(std::int64_t)> devices;  // while the prompt is read
};

// Means over requests, each alone on its devices.
struct CspsMeans {
  double ttft_s = 0.0;
  double token_s = 0.0;
  double response_s = 0.0;
  double prompt_tokens = 0.0;
  double device_s = 0.0;  // of all devices, for prompts
};
[[nodiscard]] CspsMeans csps_means(const std::vector<planner::InferenceRequest>& requests,
                                   const CspsSystem& system);

// Returns all prompts' tokens over all seconds.
[[nodiscard]] double csps_prefill_rate(const CspsMeans& means);

// All systems with one of kCspsModels.
class CspsSystems {
 public:
  // Predicts all of them, SP-NTP for each number of devices: advances `progress` by kParts.
  CspsSystems(const Scenarios& scenarios, const CspsTestbed& testbed, std::string_view model,
              Progress& progress);
  static constexpr std::int64_t kParts = kCspsContext / kCspsPartition;

  // The results refer to this object, which must outlive them.
  [[nodiscard]] CspsSystem sarathi() const {
    return {.ttft_s = [this](std::int64_t tokens) { return sarathi_ttft_(tokens); },
            .token_s = [this](std::int64_t tokens) { return sarathi_token_(tokens); },
            .devices = [](std::int64_t) { return kSarathiDevices; }};
  }
  // `drops`: whether prompts on several devices drop rows.
  [[nodiscard]] CspsSystem ntp(bool drops = false) const {
    return {.ttft_s =
                [this, drops](std::int64_t tokens) {
                  return drops ? of(dropping_, tokens)(tokens) : ntp_s(tokens);
                },
            .token_s = [this](std::int64_t tokens) { return of(token_, tokens)(tokens); },
            .devices = [](std::int64_t tokens) { return parts(tokens); }};
  }
  [[nodiscard]] CspsSystem tp() const {
    return {.ttft_s = [this](std::int64_t tokens) { return tp_(tokens); },
            .token_s = [this](std::int64_t tokens) { return of(token_, tokens)(tokens); },
            .devices = [](std::int64_t) { return kSarathiDevices; }};
  }
  // Sarathi-Serve if steps took as long as the text's 1.6 s for 1K tokens implies.
  [[nodiscard]] CspsSystem slow_sarathi() const {
    return {.ttft_s =
                [this](std::int64_t tokens) {
                  return sarathi_ttft_(tokens) + static_cast<double>(chunks(tokens)) * step_s_;
                },
            .token_s = [this](std::int64_t tokens) { return sarathi_token_(tokens) + step_s_; },
            .devices = [](std::int64_t) { return kSarathiDevices; }};
  }
  // SP-NTP for long prompts, SP-TP for others.
  [[nodiscard]] CspsSystem csps(bool drops = false) const {
    const auto either = [](auto of_long, auto of_short) {
      return [of_long, of_short](std::int64_t tokens) {
        return tokens > kCspsLong ? of_long(tokens) : of_short(tokens);
      };
    };
    const CspsSystem many = ntp(drops);
    const CspsSystem eight = tp();
    return {.ttft_s = either(many.ttft_s, eight.ttft_s),
            .token_s = either(many.token_s, eight.token_s),
            .devices = either(many.devices, eight.devices)};
  }

 private:
  static std::int64_t chunks(std::int64_t tokens) { return (tokens + kCspsChunk - 1) / kCspsChunk; }
  static double parts(std::int64_t tokens) {
    return static_cast<double>(csps_devices(CspsPrefill::ntp, tokens));
  }

  // With partly filled devices: the time with full ones, in proportion to one device's time.
  [[nodiscard]] double ntp_s(std::int64_t tokens) const {
    const Full& full = of(full_, tokens);
    return full.ttft_s * one_(tokens) / one_(full.tokens);
  }
  struct Full {
    std::int64_t tokens = 0;
    double ttft_s = 0.0;
  };
  // Of the devices of a prompt.
  template <typename T>
  static const T& of(const std::vector<T>& curves, std::int64_t tokens) {
    return curves.at(csps_devices(CspsPrefill::ntp, tokens) - 1);
  }

  CspsPromptCurve sarathi_ttft_;
  CspsCurve sarathi_token_;
  double step_s_ = 0.0;
  CspsPromptCurve tp_;
  CspsPromptCurve one_;     // on one device, as if it were enough
  std::vector<Full> full_;  // by devices less one
  std::vector<CspsPromptCurve> dropping_;
  std::vector<CspsCurve> token_;
};

}  // namespace tandem::study
