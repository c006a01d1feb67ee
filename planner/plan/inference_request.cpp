#include "planner/plan/inference_request.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "model/base/error.hpp"
#include "model/base/file_kind.hpp"
#include "model/base/json_value.hpp"
#include "model/base/limits.hpp"
#include "model/base/quantity_text.hpp"
#include "planner/plan/prefix_pieces.hpp"

namespace tandem::planner {
namespace {

using model::JsonValue;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
constexpr const char* kRemedy = "correct it (docs/reference/commands.md, Workloads)";

std::vector<std::int32_t> read_ids(const JsonValue& value) {
  std::vector<std::int32_t> ids;
  const std::size_t count = value.size(static_cast<std::size_t>(kMostTokens));
  if (count == 0) value.fail("at least one token");
  ids.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(
        value.at(i).integer(0, std::numeric_limits<std::int32_t>::max())));
  }
  return ids;
}

void read_prompt(const JsonValue& root, InferenceRequest& request) {
  const auto text = root.find("prompt");
  const auto ids = root.find("prompt_ids");
  const auto tokens = root.find("prompt_tokens");
  if (int{text.has_value()} + int{ids.has_value()} + int{tokens.has_value()} != 1)
    root.fail("exactly one of prompt, prompt_ids and prompt_tokens");
  if (text) {
    request.prompt = text->text(model::limits::kPlanBytes);
  } else if (ids) {
    request.prompt_ids = read_ids(*ids);
    request.prompt_tokens = static_cast<std::int64_t>(request.prompt_ids.size());
  } else {
    request.prompt_tokens = tokens->integer(1, kMostTokens);
  }
}

Sampling read_sampling(const JsonValue& root) {
  const Sampling greedy;
  Sampling sampling;
  for (const SamplingNumber& number : sampling_numbers()) {
    const auto value = root.find(number.name);
    if (!value) continue;
    const double x = value->number(number.least, number.most);
    if (!number.allows(x)) value->fail(std::string(number.expected));
    sampling.*number.value = x;
  }
  if (const auto value = root.find("top_k"))
    sampling.top_k = value->integer(0, std::numeric_limits<std::int32_t>::max());
  if (const auto value = root.find("seed"))
    sampling.seed =
        static_cast<std::uint64_t>(value->integer(0, std::numeric_limits<std::int64_t>::max()));
  if (sampling.temperature > 0.0) return sampling;
  for (const SamplingNumber& number : sampling_numbers()) {
    if (number.needs_temperature && sampling.*number.value != greedy.*number.value)
      root.at(number.name).fail(model::shortest_text(greedy.*number.value) + " at temperature 0");
  }
  if (sampling.top_k != 0) root.at("top_k").fail("0 at temperature 0");
  if (sampling.seed != 0) root.at("seed").fail("0 at temperature 0");
  return sampling;
}

InferenceRequest read_request(const JsonValue& root) {
  root.expect_keys({"id", "arrival_s", "prompt", "prompt_ids", "prompt_tokens", "new_tokens",
                    "max_tokens", "temperature", "repetition_penalty", "frequency_penalty",
                    "presence_penalty", "min_p", "top_k", "top_p", "seed", "ignore_eos", "prefix"});
  InferenceRequest request;
  request.id = root.at("id").line(200);
  if (request.id.empty()) root.at("id").fail("a name");
  request.arrival_s = root.at("arrival_s").number(0.0, model::limits::kMostTime);
  read_prompt(root, request);
  request.new_tokens = root.at("new_tokens").integer(0, kMostTokens);
  if (const auto value = root.find("max_tokens"))
    request.max_tokens = value->integer(request.new_tokens, kMostTokens);
  request.sampling = read_sampling(root);
  if (const auto value = root.find("ignore_eos")) request.ignore_eos = value->boolean();
  if (const auto value = root.find("prefix")) {
    if (!root.find("prompt_tokens"))
      value->fail("no such key beside a prompt, whose tokens say what is common");
    request.prefix = read_prefix(*value, request.prompt_tokens + request.new_tokens);
  }
  return request;
}

}  // namespace

std::int64_t InferenceRequest::positions() const {
  return prompt_tokens + std::max<std::int64_t>(0, limit() - 1);
}

std::vector<InferenceRequest> parse_requests(std::string_view text, std::string_view source) {
  model::expect_kind(text, source, model::kWorkloadKind);
  std::vector<InferenceRequest> requests;
  std::set<std::string, std::less<>> ids;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = std::string(source) + ", line " + std::to_string(number);
    if (requests.size() == kMostRequests) {
      throw Error(where + ": expected at most " + std::to_string(kMostRequests) +
                  " requests; split the workload");
    }
    const model::JsonDocument document(line, where, kRemedy);
    InferenceRequest request = read_request(document.root());
    if (!ids.insert(request.id).second)
      document.root().at("id").fail("an id that no line before has");
    requests.push_back(std::move(request));
  }
  if (requests.empty())
    throw Error(std::string(source) + ": no requests, expected a line of JSON for each; " +
                kRemedy);
  std::ranges::stable_sort(requests, {}, &InferenceRequest::arrival_s);
  return requests;
}

std::vector<InferenceRequest> samples_of(const InferenceRequest& sample, std::int64_t count) {
  std::vector<InferenceRequest> requests(static_cast<std::size_t>(count), sample);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = "s" + std::to_string(i + 1);
    if (sample.sampling.temperature > 0.0) requests[i].sampling.seed += i;
  }
  return requests;
}

void check_requests(const std::vector<InferenceRequest>& requests,
                    const model::Transformer& model) {
  for (const InferenceRequest& request : requests) {
    const std::string subject = "request '" + request.id + "': ";
    if (request.prompt_tokens < 1) {
      throw Error(subject +
                  "its prompt is a text, whose tokens are not known here; give prompt_tokens or "
                  "prompt_ids");
    }
    const bool generates = model.architecture().generates();
    if ((request.new_tokens > 0) != generates || (request.limit() > 0) != generates) {
      throw Error(subject + std::to_string(request.limit()) + " new tokens, expected " +
                  (generates ? "at least 1 of " : "0 of the encoder ") + model.name);
    }
    if (request.prompt_tokens + request.limit() > model.max_context) {
      throw Error(subject + std::to_string(request.prompt_tokens) + " prompt and " +
                  (request.max_tokens ? "up to " : "") + std::to_string(request.limit()) +
                  " new tokens, expected at most " + std::to_string(model.max_context) +
                  " together, the context of " + model.name + "; shorten it");
    }
    for (const std::int32_t id : request.prompt_ids) {
      if (id < model.vocab) continue;
      throw Error(subject + "token " + std::to_string(id) + ", expected 0 to " +
                  std::to_string(model.vocab - 1) + ", the vocabulary of " + model.name +
                  "; use its own tokenizer");
    }
  }
}

}  // namespace tandem::planner
