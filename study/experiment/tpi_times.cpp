// TPI-LLM, section 3.3: times of blocks that it measured on its laptops, and what they add up to.

#include <string>

#include "model/base/text_table.hpp"
#include "model/graph/work.hpp"
#include "study/experiment/tpi.hpp"
#include "study/experiment/tpi_laptops.hpp"

namespace tandem::study {
namespace {

// "we use 4 laptops with Llama 2-7B, setting p_i = 0.25 and w = 4"; milliseconds.
constexpr double kMeasuredAttentionMs = 11.0;
constexpr double kMeasuredFfnMs = 17.0;
constexpr double kMeasuredAllreduceMs = 14.0;
constexpr double kMeasuredAttentionLoadMs = 18.0;
constexpr double kMeasuredFfnLoadMs = 30.0;
constexpr double kMeasuredTokenS = 5.0;  // Table 3, the same model on the same laptops
constexpr double kMeasuredLaptops = 4.0;

// Milliseconds of a layer: with messages, and without.
struct TokenLayer {
  double computed_ms = 0.0;
  double summed_ms = 0.0;  // its two all-reduces
};

TokenLayer layer_times(const Testbed& testbed, const model::Transformer& t) {
  const auto layer_s = [&](const Testbed& of) {
    const std::int64_t half = t.layers / 2;
    return (simulated_run(of, t, "tensor", 0).latency_s -
            simulated_run(of, t.first_layers(half), "tensor", 0).latency_s) /
           static_cast<double>(t.layers - half);
  };
  Testbed free = testbed;
  free.cluster = without_network(testbed.cluster);
  const double computed_s = layer_s(free);
  return {.computed_ms = 1e3 * computed_s, .summed_ms = 1e3 * (layer_s(testbed) - computed_s)};
}

}  // namespace

ExperimentReport tpi_times(const Scenarios& scenarios, Progress& progress) {
  progress.expect(3);
  const model::Transformer t = scenarios.model("llama-2-7b");
  const Testbed testbed{.cluster = scenarios.platform("laptops4")};
  const TokenLayer one_way = layer_times(testbed, t);
  progress.advance(1);
  Testbed halves = testbed;
  halves.cluster = with_links(testbed.cluster, [](model::Link& link) {
    link.latency = model::Seconds{link.latency.value() / 2.0};
  });
  const TokenLayer round_trip = layer_times(halves, t);
  progress.advance(1);
  const Laptops::Disks disks = Laptops(scenarios).disks();
  progress.advance(1);
  ExperimentReport report{.key_names = {"time", "by"}};
  const auto row = [&](const char* of, const char* by, const char* quantity, double paper,
                       double value, std::string note) {
    report.rows.push_back({.keys = {of, by},
                           .quantity = quantity,
                           .paper = Reading::number(paper),
                           .tandem = Reading::number(value),
                           .printed = std::string(of) + quantity,
                           .note = std::move(note)});
  };
  const char* const latency_note =
      "Table 7's latencies are of pings or of one way, which it does not state; as round trips "
      "they "
      "give the measured time";
  row("all-reduce", "Table 7's latencies, one way", "ms", kMeasuredAllreduceMs,
      one_way.summed_ms / 2.0, latency_note);
  row("all-reduce", "Table 7's latencies, round trips", "ms", kMeasuredAllreduceMs,
      round_trip.summed_ms / 2.0, latency_note);
  row("attention and FFN", "nominal rates", "ms", kMeasuredAttentionMs + kMeasuredFfnMs,
      one_way.computed_ms,
      "weights of 202 MB a layer and laptop at the memory's nominal rate; the measured 28 ms are 7 "
      "GB/s, a fifth of it. Table 3's token times are loads, and do not show it");
  const auto dims = static_cast<double>(t.hidden);
  const double attention_bytes = model::kElementBytes * 4.0 * dims * dims / kMeasuredLaptops;
  const double ffn_bytes =
      model::kElementBytes * 3.0 * dims * static_cast<double>(t.intermediate) / kMeasuredLaptops;
  const std::string loads =
      "at the rate that Table 3's yi-34b implies, past the page cache; " +
      model::fixed(1e-9 * attention_bytes / (1e-3 * kMeasuredAttentionLoadMs), 1) + " and " +
      model::fixed(1e-9 * ffn_bytes / (1e-3 * kMeasuredFfnLoadMs), 1) +
      " GB/s are faster than any disk of Table 3 (the Mac Pro's: " + rate_text(disks.master_Bps) +
      "); which laptop was measured is not stated";
  row("load of attention", "other laptops' disks", "ms", kMeasuredAttentionLoadMs,
      1e3 * attention_bytes / disks.others_Bps, loads);
  row("load of the FFN", "other laptops' disks", "ms", kMeasuredFfnLoadMs,
      1e3 * ffn_bytes / disks.others_Bps, loads);
  const double layers_s = 1e-3 * static_cast<double>(t.layers) *
                          (kMeasuredAttentionMs + kMeasuredFfnMs + 2.0 * kMeasuredAllreduceMs);
  report.rows.push_back({.keys = {"a token", "the paper's own times of 32 layers"},
                         .quantity = "s",
                         .paper = Reading::number(kMeasuredTokenS),
                         .tandem = Reading::number(layers_s),
                         .aside = ExperimentRow::Aside::quotient,
                         .note = "56 ms a layer, loads hidden as the section says, are 1.8 s a "
                                 "token; Table 3 has 5 s for the same model on the same laptops"});
  report.remarks = {"laptops4, compute not calibrated; disk of the laptops other than the master " +
                        rate_text(disks.others_Bps) + ", from Table 3's yi-34b",
                    "the section's window is 4, where Table 3 has the default of 2"};
  return report;
}

}  // namespace tandem::study
