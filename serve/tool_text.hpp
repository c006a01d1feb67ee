#pragma once

// The calls of tools in an answer, found as its text comes.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tool_forms.hpp"

namespace tandem::serve {

struct ToolCall {
  std::string id{};  // nine letters and digits, which Mistral's templates demand
  std::string name{};
  std::string arguments{};  // an object of JSON, as the model wrote it
};

// What is known after more text: what is no call, then calls.
struct ToolPiece {
  std::string text{};
  std::vector<ToolCall> calls{};
};

struct ToolTextOptions {
  const ToolForm* form = nullptr;
  std::vector<std::string> tools{};  // names of those that may be called
  bool is_required = false;          // the text begins behind ToolForm::required
  std::uint64_t seed = 0;            // of the ids
};

// Finds the end of an object or a list of JSON in a text that grows.
class StructureScan {
 public:
  // Returns the end of what begins at `from`; npos: it has none yet. Goes on where it stopped.
  [[nodiscard]] std::size_t end(std::string_view text, std::size_t from);

 private:
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// Text that may be the beginning of a call is kept back until that is decided. What is written as a
// call and is none (no JSON, an unknown tool, arguments that are no object) is text.
class ToolText {
 public:
  explicit ToolText(ToolTextOptions options);

  [[nodiscard]] ToolPiece push(std::string_view text);
  // Returns the text that was kept back. Call once, after the last text.
  [[nodiscard]] ToolPiece finish();
  // Returns whether there were calls.
  [[nodiscard]] bool has_calls() const { return any_; }

 private:
  enum class At {
    beginning,  // of a form without an opening
    text,       // in front of an opening
    call,       // behind an opening or a separator: `kept_` begins with `raw_` bytes of it
    behind,     // a call: its closing or a separator may come
    rest        // no calls come any more
  };
  // Each takes what it can from kept_; returns whether another state may take more.
  bool take_beginning(ToolPiece& piece);
  bool take_text(ToolPiece& piece, bool last);
  bool take_call(ToolPiece& piece, bool last);
  bool take_behind(ToolPiece& piece, bool last);
  ToolPiece take(bool last);
  // Moves `bytes` of kept_ to the text of `piece`.
  void release(ToolPiece& piece, std::size_t bytes);
  // Appends the calls of `json` to `piece`; returns whether all are calls.
  bool add_calls(std::string_view json, ToolPiece& piece);
  std::string next_id();

  ToolTextOptions options_;
  At at_;
  std::string kept_;
  std::size_t raw_ = 0;  // bytes of kept_ in front of the call
  StructureScan scan_;   // of the call
  bool any_ = false;
  bool between_ = false;  // text has come behind the last call
  std::mt19937_64 random_;
};

}  // namespace tandem::serve
