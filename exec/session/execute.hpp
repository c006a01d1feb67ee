#pragma once

// A plan in, tokens out: what `tandem run` and the library (include/tandem/run.hpp) execute a plan
// with. Everything else of exec/ is behind it.
//
// A plan comes from a file that `tandem plan` wrote (planner/plan/plan.hpp), or from a search
// (planner/search/search.hpp; planner/search/local_plan.hpp for this machine alone):
//
//   const planner::Plan plan = planner::parse_plan_json(text_of_file, "plan.json");
//
//   exec::ExecuteOptions options;
//   options.weights = "tinyllama-1.1b";  // a Hugging Face folder
//   options.prompt = "Once upon a time";
//   options.on_text = [](std::size_t, std::string_view text) { std::cout << text << std::flush; };
//   const exec::Execution done = exec::execute(plan, options);
//   std::cout << done.tokens.size() << " tokens, the first after "
//             << done.result.metrics.ttft_s << " s\n";
//
// A plan over several devices needs to know where the others are:
//
//   options.devices = exec::RemoteAt{.workers = addresses, .key = exec::read_key_file("key")};
//   options.devices = exec::EmulatedOn{.program = "/usr/bin/tandem"};  // or all on this machine

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "exec/compute/sampling.hpp"
#include "exec/emulation/pacer.hpp"
#include "exec/emulation/turn.hpp"
#include "exec/grammar/token_grammar.hpp"
#include "exec/kernels/kernel_set.hpp"
#include "exec/session/master.hpp"
#include "exec/session/text_source.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "exec/transport/endpoint.hpp"
#include "exec/transport/key.hpp"
#include "exec/weights/move_choice.hpp"
#include "model/report/result.hpp"
#include "model/report/trace.hpp"
#include "planner/plan/plan.hpp"

namespace tandem::exec {

// The plan's other devices are processes of this machine, as slow as the plan's platform says. The
// thread that calls execute() must live as long as they do.
struct EmulatedOn {
  std::filesystem::path program;     // a `tandem`, whose command `worker` each device runs
  Pace pace = Pace::measured;        // or nominal
  std::optional<double> dilation{};  // how much more slowly their time passes; none: as is needed
};

// This process and the other devices are in network namespaces of one machine (exec/testbed): paced
// as the plan's platform says, by the wall clock.
struct TestbedRun {
  std::shared_ptr<Turn> turn;  // of all devices, to compute
  double dilation = 1.0;       // so many times slower than the platform's are the links, too
  std::map<std::string, std::string> environment{};  // of the result: how the network is made
};

// The plan's other devices are machines on which `tandem worker` listens.
struct RemoteAt {
  std::vector<Endpoint> workers{};      // by DeviceIndex, as parse_hosts() reads them
  std::optional<Key> key{};             // the key that all share; none: nothing is encrypted
  std::optional<TestbedRun> testbed{};  // none: machines of their own, at their own speed
};

// A token that was chosen.
struct TokenMoment {
  std::size_t request = 0;
  bool is_last = false;  // its request has ended; known of many requests only
  double at_s = 0.0;     // since the first step began, in the devices' time
};

struct ExecuteOptions {
  std::filesystem::path weights;  // Hugging Face folder of the plan's model
  // Where the other devices are; std::monostate if the plan's master works alone.
  std::variant<std::monostate, EmulatedOn, RemoteAt> devices;

  std::variant<std::string, std::vector<std::int32_t>> prompt;  // a text, or its token ids
  std::optional<std::int64_t> new_tokens;         // at most so many; none: as many as planned
  bool ignore_eos = false;                        // go on after a token that ends a text
  SamplingOptions sampling;                       // the likeliest token unless a temperature is set
  std::shared_ptr<const TokenGrammar> grammar{};  // of every answer; null: any text
  // Many requests instead of one prompt; `prompt`, `new_tokens` and `sampling` are then not read.
  std::optional<ServeOptions> serve;

  int threads = 1;                           // computing threads of the master
  KernelSet kernels = default_kernel_set();  // of the master and of emulated devices
  std::filesystem::path cache_dir;           // of sliced weights; empty: default_cache_dir()
  std::optional<std::uint64_t> cache_bytes;  // how large it may become; none: what the disk holds
  bool verify = false;                       // hash cached weights, whatever is known of them
  WeightPlace place = WeightPlace::copied;   // the master's; emulated: copied
  bool timeline = false;                     // keep a span of every task
  // Name the weights in the result by their digest (Result::weights_sha256). After the run, this
  // reads all of their bytes, unless an earlier run with this cache_dir did.
  bool digest_weights = false;
  const Tokenizer* tokenizer = nullptr;  // null: the tokenizer of `weights`
  Interrupt* interrupt = nullptr;        // lets another thread end the run; null: nothing does
  DeviceWatch* watch = nullptr;          // sees what the devices do; null: none

  // These are called one at a time, on any thread; what they throw ends the run.
  // on_text is told more of the text, prompt included; of many requests, each whole text once its
  // request has ended.
  std::function<void(std::size_t request, std::string_view text)> on_text;
  std::function<void(const TokenMoment& token)> on_token;  // after on_text
  // What each token of one prompt was chosen from: a logit for each token of the vocabulary.
  std::function<void(std::span<const float> logits)> on_logits;
  std::function<void(const std::string& stage)> on_stage;   // what is done before the first token
  std::function<void(const std::string& text)> on_warning;  // what went wrong and ends nothing
  std::function<void(const std::string& text)> on_notice;   // for whom the run has to wait
};

struct Execution {
  // The new tokens of the only request; those of many are in `result`.
  std::vector<std::int32_t> tokens;
  std::vector<std::string> texts;  // by request: prompt and new tokens
  std::vector<float> hidden;       // of an encoder instead: the last states, [prompt, hidden]
  std::int64_t prompt_tokens = 0;  // of the only request
  model::Result result;            // what was measured, as `tandem run --out` writes it
  model::Trace trace;              // empty without a timeline
  double drift = 0.0;              // of this machine's speed; at measured pace only
  Clock::time_point ready;         // when everything was in place, and the first step began
};

// Executes `plan` in this process, which is the master, and on the plan's other devices. Returns
// when all tokens are there. Throws Error with one line that says what is wrong and what to do: a
// folder without the plan's model, a device that cannot be reached or is lost, too little memory,
// an interrupt. Then no thread, process or connection is left behind.
[[nodiscard]] Execution execute(const planner::Plan& plan, const ExecuteOptions& options);

// Returns the tokens that end a text of `plan`'s model.
[[nodiscard]] std::vector<std::int64_t> stop_tokens(const planner::Plan& plan,
                                                    const Tokenizer& tokenizer);

// Serves the requests of the source of `options.serve` until it closes; `on_ready` is called when
// everything is in place. Of the options for texts, results and traces none is read. Throws as
// execute() does.
void serve_requests(const planner::Plan& plan, const ExecuteOptions& options,
                    const std::function<void()>& on_ready);

// Serves the texts of `source`, of at most `most_tokens` tokens each, with `plan` of an encoder, as
// serve_requests() does.
void serve_texts(const planner::Plan& plan, const ExecuteOptions& options, TextSource& source,
                 std::int64_t most_tokens, const std::function<void()>& on_ready);

}  // namespace tandem::exec
