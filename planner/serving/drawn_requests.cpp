#include "planner/serving/drawn_requests.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/limits.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::planner {
namespace {

constexpr double kQuantile99 = 2.3263478740408408;  // of the standard normal distribution
constexpr int kMostDraws = 1000;                    // of one request's lengths
constexpr double kMostLength = 1e9;                 // tokens
constexpr double kMicroseconds = 1e6;               // a second

// The standard's distributions differ from machine to machine, its engines do not.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}
  double uniform() {  // in (0, 1)
    return (static_cast<double>(engine_() >> 11U) + 0.5) * 0x1p-53;
  }
  double exponential() { return -std::log(uniform()); }
  double normal() {  // Box and Muller, Annals of Mathematical Statistics 29(2), 1958
    const double radius = std::sqrt(2.0 * exponential());
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  std::int64_t length(const DrawnLengths& of) {
    const double sigma = std::log(of.p99 / of.median) / kQuantile99;
    const double drawn = of.median * std::exp(sigma * normal());
    return static_cast<std::int64_t>(std::clamp(std::round(drawn), 1.0, kMostLength));
  }
  std::int32_t below(std::int32_t count) {
    return static_cast<std::int32_t>(engine_() % static_cast<std::uint64_t>(count));
  }

 private:
  std::mt19937_64 engine_;
};

void check(const DrawnLengths& lengths, const std::string& of) {
  if (lengths.median >= 1.0 && lengths.p99 >= lengths.median && lengths.p99 <= kMostLength) return;
  throw Error("lengths of " + of + ": median " + model::shortest_text(lengths.median) +
              " and 99th percentile " + model::shortest_text(lengths.p99) +
              ", expected a median of at least 1 and a percentile from there to 1000000000");
}

std::pair<std::int64_t, std::int64_t> lengths_of(Draws& draws, const RequestDraw& draw) {
  for (int i = 0; i < kMostDraws; ++i) {
    const std::int64_t prompt = draws.length(draw.prompt);
    const std::int64_t output = draws.length(draw.output);
    if (draw.most == 0 || prompt + output <= draw.most) return {prompt, output};
  }
  throw Error("lengths: " + std::to_string(kMostDraws) + " draws about " +
              model::shortest_text(draw.prompt.median) + " prompt and " +
              model::shortest_text(draw.output.median) + " new tokens, expected one of at most " +
              std::to_string(draw.most) + " together; scale them down");
}

}  // namespace

std::vector<InferenceRequest> drawn_requests(const RequestDraw& draw) {
  require(draw.count > 0 && draw.most >= 0 && draw.vocabulary >= 0, "drawn_requests: counts");
  check(draw.prompt, "prompts");
  check(draw.output, "answers");
  if (!(draw.rate > 0.0) || !std::isfinite(draw.rate))
    throw Error("rate of requests: " + model::shortest_text(draw.rate) +
                " a second, expected a positive number");
  Draws draws(draw.seed);
  Draws ids(~draw.seed);
  std::vector<InferenceRequest> requests;
  double now = 0.0;
  for (std::int64_t i = 1; i <= draw.count; ++i) {
    now += draws.exponential() / draw.rate;
    if (now > model::limits::kMostTime)
      throw Error("rate of requests: " + model::shortest_text(draw.rate) +
                  " a second, with which request " + std::to_string(i) +
                  " arrives after more than 1000000000 seconds; expected a higher rate");
    const auto [prompt, output] = lengths_of(draws, draw);
    InferenceRequest request{.id = "r" + std::to_string(i),
                             .arrival_s = std::round(now * kMicroseconds) / kMicroseconds,
                             .prompt_tokens = prompt,
                             .new_tokens = output,
                             .ignore_eos = true};
    for (std::int64_t t = 0; draw.vocabulary > 0 && t < prompt; ++t)
      request.prompt_ids.push_back(ids.below(draw.vocabulary));
    requests.push_back(std::move(request));
  }
  return requests;
}

std::string to_json_lines(std::span<const InferenceRequest> requests) {
  std::string text;
  for (const InferenceRequest& request : requests) {
    nlohmann::ordered_json line{{"id", request.id}, {"arrival_s", request.arrival_s}};
    if (request.prompt) {
      line["prompt"] = *request.prompt;
    } else if (!request.prompt_ids.empty()) {
      line["prompt_ids"] = request.prompt_ids;
    } else {
      line["prompt_tokens"] = request.prompt_tokens;
    }
    line["new_tokens"] = request.new_tokens;
    if (request.max_tokens) line["max_tokens"] = *request.max_tokens;
    for (const SamplingNumber& number : sampling_numbers()) {
      const double x = request.sampling.*number.value;
      if (x != Sampling().*number.value) line[std::string(number.name)] = x;
    }
    if (request.sampling.top_k > 0) line["top_k"] = request.sampling.top_k;
    if (request.sampling.temperature > 0.0) line["seed"] = request.sampling.seed;
    if (request.ignore_eos) line["ignore_eos"] = true;
    text += line.dump() + '\n';
  }
  return text;
}

}  // namespace tandem::planner
