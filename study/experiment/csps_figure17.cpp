// CSPS, figure 17: waiting and response times of requests by arrivals per second.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/quantity_text.hpp"
#include "study/device_queue.hpp"
#include "study/experiment/csps_systems.hpp"

namespace tandem::study {
namespace {

constexpr std::int64_t kRequests = 2000;
// "the default request arrival rate [is] 1 req/s" (5.2).
constexpr std::array<double, 4> kRates{0.25, 0.5, 1.0, 2.0};
// Multiples of Sarathi-Serve's time of a request without waiting.
constexpr std::array<double, 2> kLatencies{2.0, 4.0};

// Means over all requests.
struct Queued {
  // Device seconds of prompts over the elapsed device seconds.
  double load = 0.0;
  double wait_s = 0.0;
  double response_s = 0.0;
};

// Requests that arrive at 1 a second, at `rate`: gaps are as much longer.
Queued queued(const std::vector<planner::InferenceRequest>& requests, const CspsSystem& system,
              double rate) {
  std::vector<DeviceJob> jobs;
  jobs.reserve(requests.size());
  for (const planner::InferenceRequest& request : requests)
    jobs.push_back({.arrival_s = request.arrival_s / rate,
                    .devices = static_cast<std::size_t>(system.devices(request.prompt_tokens)),
                    .service_s = system.ttft_s(request.prompt_tokens)});
  const std::vector<double> waits = waits_for_devices(jobs, static_cast<std::size_t>(kCspsDevices));
  Queued means;
  const auto count = static_cast<double>(requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) {
    means.load +=
        rate * jobs[r].service_s * static_cast<double>(jobs[r].devices) / (kCspsDevices * count);
    means.wait_s += waits[r] / count;
    means.response_s += (waits[r] + jobs[r].service_s +
                         static_cast<double>(requests[r].new_tokens - 1) *
                             system.token_s(requests[r].prompt_tokens)) /
                        count;
  }
  return means;
}

// Returns the most requests a second with a mean time of `response_s`; 0 if there is none.
double rate_at(const std::vector<planner::InferenceRequest>& requests, const CspsSystem& system,
               double response_s) {
  constexpr double kSlow = 1e-3;
  constexpr double kFast = 1e3;
  constexpr int kHalvings = 40;
  if (queued(requests, system, kSlow).response_s > response_s) return 0.0;
  double enough = kSlow;
  double much = kFast;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(enough * much);
    (queued(requests, system, middle).response_s > response_s ? much : enough) = middle;
  }
  return enough;
}

}  // namespace

ExperimentReport csps_figure17(const Scenarios& scenarios, Progress& progress) {
  const CspsTestbed testbed = calibrated_csps(scenarios);
  ExperimentReport report{.key_names = {"data set", "model", "rate or latency", "systems"},
                          .remarks = csps_remarks(testbed)};
  report.remarks.emplace_back(
      std::to_string(kRequests) +
      " requests of each data set, log-normal by Table 2 (seed 1), of Poisson arrivals: the same "
      "at each rate but for the gaps. A prompt waits until as many of 64 devices are free as it "
      "takes, first come, first served");
  report.remarks.emplace_back(
      "Sarathi-Serve: eight devices a request, so eight requests at once. CSPS: SP-NTP above 100K "
      "tokens, a device for 64K; SP-TP of eight up to there. Only prompts take devices: new "
      "tokens go beside them and take as long as alone, in both");
  report.remarks.emplace_back(
      "load: of all device seconds; from 1 on the queue grows for as long as requests come, and "
      "means say how many came");
  report.remarks.emplace_back(
      "latency 2x, 4x: the most requests a second whose mean time from arrival to the last token "
      "is so many times Sarathi-Serve's without a queue. The figure's axis says time between "
      "tokens, its text response latency, which these are");
  progress.expect(kCspsModels.size() * static_cast<std::size_t>(CspsSystems::kParts));
  const CspsClaim said = csps_claim(scenarios, "request rate csps over sarathi", "all");
  std::vector<CspsSystems> models;
  models.reserve(kCspsModels.size());
  for (const std::string_view model : kCspsModels)
    models.emplace_back(scenarios, testbed, model, progress);
  std::vector<double> ratios;
  std::vector<double> dropping_ratios;
  for (const std::string_view data_set : kCspsDataSets) {
    const CspsLengths lengths = csps_lengths(scenarios, data_set);
    const std::vector<planner::InferenceRequest> requests =
        planner::drawn_requests({.count = kRequests,
                                 .prompt = lengths.prompt,
                                 .output = lengths.output,
                                 .most = kCspsContext});
    for (std::size_t m = 0; m < kCspsModels.size(); ++m) {
      const std::array<std::pair<std::string, CspsSystem>, 3> systems{
          std::pair("sarathi", models[m].sarathi()), std::pair("csps", models[m].csps()),
          std::pair("csps dropping 22%", models[m].csps(true))};
      const auto show = [&](const std::string& at, const std::string& system, const char* quantity,
                            double value) {
        report.rows.push_back(
            {.keys = {std::string(data_set), std::string(kCspsModels[m]), at, system},
             .quantity = quantity,
             .tandem = Reading::number(value)});
      };
      for (const double rate : kRates) {
        for (const auto& [name, system] : systems) {
          const Queued means = queued(requests, system, rate);
          const std::string at = model::shortest_text(rate) + " req/s";
          show(at, name, "load", means.load);
          show(at, name, "wait_s", means.wait_s);
          show(at, name, "response_s", means.response_s);
        }
      }
      constexpr double kNoQueue = 1e-6;
      const double alone_s = queued(requests, systems[0].second, kNoQueue).response_s;
      for (const double latency : kLatencies) {
        const std::string at = "latency " + model::shortest_text(latency) + "x";
        std::vector<double> rates;
        for (const auto& [name, system] : systems) {
          rates.push_back(rate_at(requests, system, latency * alone_s));
          show(at, name, "rate", rates.back());
        }
        ratios.push_back(rates[1] / rates[0]);
        dropping_ratios.push_back(rates[2] / rates[0]);
        show(at, "csps over sarathi", "rate_ratio", ratios.back());
        show(at, "csps dropping 22% over sarathi", "rate_ratio", dropping_ratios.back());
      }
    }
  }
  for (const auto& [name, values] :
       {std::pair("csps over sarathi", ratios),
        std::pair("csps dropping 22% over sarathi", dropping_ratios)}) {
    const auto [least, most] = std::ranges::minmax(values);
    for (const auto& [end, theirs, ours] :
         {std::tuple("least", said.least, least), std::tuple("most", said.most, most)}) {
      report.rows.push_back({.keys = {"both", "both", end, name},
                             .quantity = "rate_ratio",
                             .paper = Reading::number(theirs),
                             .tandem = Reading::number(ours),
                             .printed = csps_printed_range("rate_ratio", "", end, false)});
    }
  }
  return report;
}

}  // namespace tandem::study
