#pragma once

// Where other threads hand requests in and get answers, while a session serves them.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/serve/answer_text.hpp"
#include "exec/serve/service_desk.hpp"
#include "exec/session/request_source.hpp"
#include "exec/tokenizer/tokenizer.hpp"
#include "model/transformer/transformer.hpp"
#include "planner/plan/capacity.hpp"
#include "planner/plan/inference_request.hpp"

namespace tandem::exec {

struct DeskLimits {
  planner::Capacity capacity{};  // of the plan that is served
  std::int64_t chunk = 0;        // as in planner::ServingOptions
  std::int64_t candidates = 0;   // planner::Plan::candidates
  std::size_t queue = 64;        // requests that may wait beyond those that are served together
};

enum class Finish { stop, length, failed };

// More of an answer.
struct AnswerPart {
  std::string text{};
  ChosenToken token{};  // of a part that has not failed
  bool is_last = false;
  Finish finish = Finish::stop;  // of the last part
  std::int64_t tokens = 0;       // of the answer so far
  std::int64_t cached = 0;       // tokens of the prompt that were not read again
  std::string failure{};         // why it failed
};

// Thread-safe.
class RequestDesk final : public RequestSource, public ServiceDesk {
 public:
  // Called by the thread that serves, or by close(); must not block and not call the desk.
  using TakePart = std::function<void(const AnswerPart& part)>;

  // A request ends at one of `stop_tokens`. `tokenizer` outlives this.
  RequestDesk(const Tokenizer& tokenizer, const model::Transformer& transformer,
              std::vector<std::int64_t> stop_tokens, const DeskLimits& limits);

  // Returns the most positions of a request, prompt and answer.
  [[nodiscard]] std::int64_t most_positions() const { return most_positions_; }
  // Returns the most tokens that an answer to a prompt of so many may have; below 1: none.
  [[nodiscard]] std::int64_t most_tokens(std::int64_t prompt) const;
  // Returns the limit of an answer that states none: the request's even share of the capacity, but
  // at least 512 tokens where there is memory for them.
  [[nodiscard]] std::int64_t usual_tokens(std::int64_t prompt) const;
  // Returns the tokens that end an answer.
  [[nodiscard]] const std::vector<std::int64_t>& stop_tokens() const { return stop_tokens_; }
  // Returns the most requests that are served and wait at once.
  [[nodiscard]] std::size_t most_requests() const;
  // Throws Error for a request that can never be served here: too long, or with sampling or
  // log-probabilities of more candidates than devices send.
  void check(const LiveRequest& live) const;

  // Throws DeskFull unless so many more requests can be submitted now, by the one thread that does.
  void expect_room(std::size_t requests);
  // Hands in a request of at most new_tokens, whose answer's text shows `shown`; returns its
  // number. Throws as check() does, DeskFull and DeskClosed.
  std::size_t submit(LiveRequest live, std::vector<std::string> stops, TakePart take,
                     ShownToken shown = {});
  // The request is not wanted any more: no part comes after this has returned.
  void cancel(std::size_t number);
  void close(const std::string& reason) override;
  [[nodiscard]] bool is_closed() const override;
  [[nodiscard]] Counts counts() const override;
  void serve(const planner::Plan& plan, const ExecuteOptions& options,
             const std::function<void()>& on_ready) override;

  News take() override;
  void await(Clock::time_point deadline) override;
  void on_begin(std::size_t request, std::int64_t cached) override;
  bool on_token(std::size_t request, const ChosenToken& token, bool last) override;

 private:
  struct Answer {
    AnswerText text;
    TakePart take;
    std::int64_t prompt_tokens = 0;
    std::int64_t tokens = 0;
    std::int64_t cached = 0;
  };

  std::vector<std::int64_t> stop_tokens_;
  const Tokenizer* tokenizer_;
  DeskLimits limits_;
  std::int64_t most_positions_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  News news_;
  std::string closed_;  // why; empty: open
  std::size_t next_ = 0;
  std::map<std::size_t, Answer> answers_;  // under way
  Counts counts_;
};

}  // namespace tandem::exec
