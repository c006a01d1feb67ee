#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <tandem/plan.hpp>
#include <tandem/result.hpp>
#include <variant>
#include <vector>

namespace tandem {

// The plan's other devices are machines on which `tandem worker`, or serve(), listens.
struct Workers {
  std::filesystem::path hosts_file;  // lines "device-name host:port"
  std::filesystem::path key_file{};  // the key that all share; empty: nothing is encrypted
};

// The plan's other devices are processes of this machine, as slow as the plan's platform says. The
// thread that calls run() must live as long as they do.
struct Emulated {
  std::filesystem::path program;  // a `tandem`, whose command `worker` each device runs
  bool nominal_pace = false;      // computing takes the profile's times instead of measured ones
};

struct RunOptions {
  std::filesystem::path weights;  // Hugging Face folder or GGUF file of the plan's model
  std::variant<std::string, std::vector<std::int32_t>> prompt{};  // a text, or its token ids
  // Where the other devices are; std::monostate: the plan's master works alone.
  std::variant<std::monostate, Workers, Emulated> devices{};
  std::optional<std::int64_t> new_tokens{};  // at most so many; none: as many as planned
  bool ignore_eos = false;                   // go on after a token that ends a text
  double temperature = 0.0;                  // 0: the likeliest token
  double top_p = 1.0;                        // of the likeliest of this total probability
  std::int64_t top_k = 0;                    // of so many likeliest; 0: of all
  std::uint64_t seed = 0;
  double min_p = 0.0;  // of those with at least this part of the likeliest's probability
  double repetition_penalty = 1.0;    // divides positive logits of tokens of prompt and answer
  double presence_penalty = 0.0;      // subtracted from the logits of tokens of the answer
  double frequency_penalty = 0.0;     // the same, for each time that the answer has the token
  int threads = 0;                    // computing threads of this process; 0: all cores
  std::filesystem::path cache_dir{};  // of sliced weights; empty: ~/.cache/tandem
  std::stop_token stop{};             // ends the run with std::runtime_error
  // Called one at a time, on any thread; an exception ends the run.
  std::function<void(std::string_view text)> on_text{};          // more text, prompt included
  std::function<void(const std::string& warning)> on_warning{};  // what went wrong and ends nothing
};

struct Run {
  std::vector<std::int32_t> tokens;  // new ones
  std::string text;                  // prompt and new tokens
  std::vector<float> hidden;         // of an encoder instead: the last states, [prompt, hidden]
  Result result;                     // what was measured
};

// Executes one request in this process, which is the plan's master, and on the plan's other
// devices. Throws std::runtime_error with what is wrong and what to do: a folder without the plan's
// model, a device that cannot be reached or is lost, too little memory. Then no thread, process or
// connection is left behind.
[[nodiscard]] Run run(const Plan& plan, const RunOptions& options);

}  // namespace tandem
