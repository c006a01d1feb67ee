#include <algorithm>
#include <tandem/run.hpp>
#include <thread>
#include <utility>

#include "api/data.hpp"
#include "exec/session/execute.hpp"
#include "exec/session/hosts.hpp"
#include "exec/session/interrupt.hpp"
#include "exec/weights/files/read_file.hpp"

namespace tandem {
namespace {

exec::RemoteAt remote_of(const Workers& workers, const planner::Plan& plan) {
  const std::string text = exec::read_text(workers.hosts_file, kLargestText);
  exec::RemoteAt remote{.workers = exec::parse_hosts(text, workers.hosts_file.string(), plan)};
  if (!workers.key_file.empty()) remote.key = exec::read_key_file(workers.key_file);
  return remote;
}

exec::EmulatedOn emulation_of(const Emulated& emulated) {
  return {.program = emulated.program,
          .pace = emulated.nominal_pace ? exec::Pace::nominal : exec::Pace::measured};
}

}  // namespace

Run run(const Plan& plan, const RunOptions& options) {
  const planner::Plan& planned = plan.data().plan;
  exec::Interrupt interrupt;
  const std::stop_callback stopping(options.stop, [&] { interrupt.trip("stopped by the caller"); });

  exec::ExecuteOptions how;
  how.weights = options.weights;
  how.prompt = options.prompt;
  if (const auto* workers = std::get_if<Workers>(&options.devices))
    how.devices = remote_of(*workers, planned);
  if (const auto* emulated = std::get_if<Emulated>(&options.devices))
    how.devices = emulation_of(*emulated);
  how.new_tokens = options.new_tokens;
  how.ignore_eos = options.ignore_eos;
  how.sampling = {.temperature = options.temperature,
                  .top_p = options.top_p,
                  .seed = options.seed,
                  .top_k = options.top_k,
                  .min_p = options.min_p,
                  .repetition_penalty = options.repetition_penalty,
                  .presence_penalty = options.presence_penalty,
                  .frequency_penalty = options.frequency_penalty};
  how.threads = options.threads > 0
                    ? options.threads
                    : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  how.cache_dir = options.cache_dir;
  how.interrupt = &interrupt;
  if (options.on_text)
    how.on_text = [&](std::size_t /*request*/, std::string_view text) { options.on_text(text); };
  how.on_warning = options.on_warning;

  exec::Execution done = exec::execute(planned, how);
  return {
      .tokens = std::move(done.tokens),
      .text = done.texts.empty() ? std::string() : std::move(done.texts.front()),
      .hidden = std::move(done.hidden),
      .result = Result(std::make_shared<const Result::Data>(Result::Data{std::move(done.result)}))};
}

}  // namespace tandem
