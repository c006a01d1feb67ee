#include "serve/plan_question.hpp"

#include <algorithm>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/json_value.hpp"
#include "serve/api_request.hpp"
#include "serve/cluster_json.hpp"

namespace tandem::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostAway = 1024;
constexpr std::int64_t kMostTokens = 100'000'000;

Json request_times_json(const RequestTimes& times) {
  const auto later = static_cast<double>(std::max<std::int64_t>(0, times.new_tokens - 1));
  return {{"ttft_s", times.ttft_s},
          {"token_latency_s", times.token_latency_s ? Json(*times.token_latency_s) : Json()},
          {"request_s", times.ttft_s + later * times.token_latency_s.value_or(0.0)}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

PlanQuestion parse_plan_question(std::string_view body) {
  try {
    const model::JsonDocument document(body, "question", "send what the page sends");
    const model::JsonValue root = document.root();
    root.expect_keys({"without", "prompt_tokens", "new_tokens", "format"});
    PlanQuestion question{.prompt_tokens = root.at("prompt_tokens").integer(1, kMostTokens),
                          .new_tokens = root.at("new_tokens").integer(1, kMostTokens)};
    if (const auto away = root.find("without")) {
      const std::size_t count = away->size(kMostAway);
      question.without.reserve(count);
      for (std::size_t i = 0; i < count; ++i) {
        std::string name = away->at(i).line();
        if (std::ranges::find(question.without, name) != question.without.end())
          away->at(i).fail("each device once");
        question.without.push_back(std::move(name));
      }
    }
    if (const auto format = root.find("format")) question.format = format->line();
    return question;
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

Json plan_json(const PlanQuestion& question, const PlanFound& found) {
  Json json{{"question",
             {{"without", question.without},
              {"prompt_tokens", question.prompt_tokens},
              {"new_tokens", question.new_tokens},
              {"format", text_or_null(question.format)}}},
            {"plan", nullptr},
            {"reason", text_or_null(found.reason)},
            {"to_the_end", found.to_the_end},
            {"present", found.present ? request_times_json(*found.present) : Json()},
            {"present_reason", text_or_null(found.present_reason)}};
  if (found.plan)
    json["plan"] = {{"strategy", found.plan->strategy},
                    {"layers", found.plan->model.layers},
                    {"devices", devices_json(*found.plan)},
                    {"times", request_times_json(found.times)}};
  return json;
}

}  // namespace tandem::serve
