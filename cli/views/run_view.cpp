#include "cli/views/run_view.hpp"

#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/flags/workload_flags.hpp"
#include "cli/views/result_tables.hpp"
#include "cli/views/standard_output.hpp"
#include "model/base/error.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/statistics.hpp"
#include "model/base/text_table.hpp"

namespace tandem::cli {

exec::Execution show_execution(const planner::Plan& plan, exec::ExecuteOptions& run,
                               GenerationView& view, PredictionWatch* watch) {
  bool any = false;
  run.on_stage = [&](const std::string& stage) { view.stage(stage); };
  run.on_warning = [&](const std::string& warning) { view.remark(warning); };
  run.on_notice = [&](const std::string& notice) { view.notice(notice); };
  run.on_token = [&, watch](const exec::TokenMoment& token) {
    view.token(watch != nullptr ? watch->token(token) : "");
  };
  run.on_text = [&](std::size_t request, std::string_view text) {
    if (!run.serve || run.serve->is_one) return view.text(text);
    std::string titled = (any ? "\n[" : "[") + run.serve->requests[request].id + "]\n";
    any = true;
    view.text(titled.append(text).append("\n"));
  };
  try {
    exec::Execution done = exec::execute(plan, run);
    view.finish();
    return done;
  } catch (const Error& error) {
    // Of what ended it, a session hands on the text.
    if (std::string_view(error.what()) == ReaderGone().what()) throw ReaderGone();
    throw;
  }
}

void print_summary(const model::Result& result, const planner::Plan& plan) {
  std::cerr << "tandem: ready after " << to_text(model::Seconds{*result.metrics.ready_s}) << "; ";
  if (!plan.model.architecture().generates()) {
    std::cerr << "one pass, " << model::fixed(result.metrics.ttft_s * 1e3, 1) << " ms\n";
    return;
  }
  if (result.requests.size() > 1) {
    std::cerr << result.requests.size() << " requests";
    if (result.metrics.throughput_tokens_per_s)
      std::cerr << ", " << model::fixed(*result.metrics.throughput_tokens_per_s, 2)
                << " tokens a second";
    std::cerr << '\n';
    print_requests(result, std::cerr);
    return;
  }
  std::cerr << result.tokens.size() << (result.tokens.size() == 1 ? " token" : " tokens")
            << ", first after " << model::fixed(result.metrics.ttft_s * 1e3, 1) << " ms";
  const std::vector<double> latencies = result.metrics.token_latencies_s();
  if (!latencies.empty()) {
    std::cerr << ", then " << model::fixed(model::quantile(latencies, 0.5) * 1e3, 1)
              << " ms a token (median)";
  }
  std::cerr << '\n';
}

}  // namespace tandem::cli
