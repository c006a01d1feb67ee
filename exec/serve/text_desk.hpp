#pragma once

// Where other threads hand in texts and get their embeddings, while a session with an encoder
// serves them one after another.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/serve/pooling.hpp"
#include "exec/serve/service_desk.hpp"
#include "exec/session/text_source.hpp"

namespace tandem::exec {

struct TextDeskLimits {
  std::int64_t tokens = 0;           // of a text at most
  std::size_t width = 0;             // of the hidden states
  const Pooling* pooling = nullptr;  // of the embeddings
  std::size_t queue = 64;            // requests that may wait beyond the one that is served
};

// One embedding of a request, or why there is none.
struct TextEmbedding {
  std::size_t text = 0;         // of the request, from 0, in their order
  std::vector<float> vector{};  // of length 1
  std::string failure{};        // not empty: it and all later ones have failed
};

// Thread-safe.
class TextDesk final : public TextSource, public ServiceDesk {
 public:
  using Text = std::vector<std::int32_t>;
  // Called by the thread that serves, or by close(); must not block and not call the desk.
  using TakeEmbedding = std::function<void(const TextEmbedding& embedding)>;

  explicit TextDesk(const TextDeskLimits& limits) : limits_(limits) {}

  [[nodiscard]] const TextDeskLimits& limits() const { return limits_; }
  // Hands in a request: texts of 1 to limits().tokens tokens, at least one. Returns its number.
  // Throws DeskFull and DeskClosed.
  std::size_t submit(std::vector<Text> texts, TakeEmbedding take);
  // The request is not wanted any more: no embedding comes after this has returned.
  void cancel(std::size_t number);

  void close(const std::string& reason) override;
  [[nodiscard]] bool is_closed() const override;
  [[nodiscard]] Counts counts() const override;
  void serve(const planner::Plan& plan, const ExecuteOptions& options,
             const std::function<void()>& on_ready) override;

  std::optional<Text> next_text() override;
  void await_text(Clock::time_point deadline) override;
  void on_hidden(std::span<const float> states) override;

 private:
  struct Texts {
    std::vector<Text> texts{};
    TakeEmbedding take{};
    std::size_t done = 0;
  };

  TextDeskLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string closed_;  // why; empty: open
  std::size_t next_ = 0;
  std::map<std::size_t, Texts> requests_;  // by number, which is their order
  std::optional<std::size_t> served_;      // whose text is being read; it may have been cancelled
  Counts counts_;
};

}  // namespace tandem::exec
