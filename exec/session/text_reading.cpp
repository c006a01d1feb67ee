// Texts that an encoder reads, one after another, in one session.

#include "exec/session/text_reading.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "exec/session/master_session.hpp"
#include "model/base/error.hpp"
#include "planner/strategy/common/lowering.hpp"

namespace tandem::exec {
namespace {

void read_one_text(MasterSession& session, const planner::Plan& plan, std::int32_t i,
                   const std::vector<std::int32_t>& text, TextSource& source) {
  session.check();
  const Clock::time_point begin = Clock::now();
  const auto rows = static_cast<std::int32_t>(text.size());
  const model::Batch batch = planner::scored_batch(rows, 0);
  session.announce(i, batch, text);
  session.device().read(
      i, batch, text,
      [](const Scores&) -> std::int32_t { throw Error("plan: an encoder samples nothing"); },
      begin);
  source.on_hidden(finite_states(session.device().hidden(rows), plan.model));
}

}  // namespace

std::vector<float> finite_states(std::vector<float> states, const model::Transformer& transformer) {
  if (std::ranges::all_of(states, [](float x) { return std::isfinite(x); })) return states;
  throw Error("model " + transformer.name +
              ": a hidden state is not a finite number, expected finite ones; the weights are "
              "damaged, copy or download them again");
}

void read_texts(const planner::Plan& plan, const GenerateOptions& options, TextSource& source,
                Interrupt& interrupt) {
  const RunOptions run{
      .workload = {.prompt_tokens = static_cast<std::int64_t>(options.prompt.size()),
                   .new_tokens = 0},
      .pace = options.pace,
      .dilation = options.dilation,
      .scored_rows = 1};
  MasterSession session(plan, options, run, interrupt);
  static_cast<void>(session.run([&] {
    session.voice().stage("");
    if (options.on_begin) session.voice().with(options.on_begin);
    std::int32_t i = 0;
    while (!source.is_closed()) {
      if (const auto text = source.next_text())
        read_one_text(session, plan, i++, *text, source);
      else
        session.wait_a_moment([&](Clock::time_point until) { source.await_text(until); });
    }
    return i;
  }));
}

}  // namespace tandem::exec
