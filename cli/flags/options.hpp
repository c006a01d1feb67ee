#pragma once

// Command lines, parsed strictly: no guessing, no abbreviations, nothing ignored without a word.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/flags/commands.hpp"

namespace tandem::cli {

// The command line makes no sense: exit code 2. One line.
class Usage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user asked for help: `what()` is the text for standard output, exit code 0; `markdown` the
// same for the reference pages.
class HelpRequested : public std::runtime_error {
 public:
  HelpRequested(const std::string& text, std::string as_markdown)
      : std::runtime_error(text), markdown(std::move(as_markdown)) {}
  std::string markdown;
};

struct Flag {
  std::string_view name;   // without the dashes
  std::string_view value;  // placeholder of its value ("FILE", "N"); empty: a switch
  std::string_view help;   // one line, which ends with the default, "[64]", or with "(required)"
  bool repeatable = false;
  bool may_be_empty = false;  // "" is a value
};

struct Syntax {
  std::string_view command;  // "plan", "model inspect"
  std::string_view summary;
  // Placeholders; each is required, except a last one in brackets: "[plan.json]". A last one may
  // stand for several: "plan.json..." for one or more, "[more.json ...]" for any number.
  std::vector<std::string_view> positionals;
  std::vector<Flag> flags;  // --help is added
  // Flags that `help COMMAND` shows, with examples; `help COMMAND --all` shows all. Empty: all.
  std::vector<std::string_view> common{};
  std::string_view examples{};
};

// The flags and positional arguments of one command line.
class Options {
 public:
  // Throws Usage for an unknown, repeated, valueless or superfluous flag and for a wrong number of
  // positional arguments; HelpRequested on --help.
  Options(const Syntax& syntax, const Arguments& arguments);

  // The names below must be in the syntax (logic_error otherwise).
  [[nodiscard]] bool has(std::string_view flag) const;
  // Throws Usage for the first of `flags` that is given: it has no effect `when` ("without
  // '--emulate'", with a remedy behind a semicolon if it is another one than leaving the flag out).
  // Every flag that the mode makes idle goes here.
  void refuse(std::initializer_list<std::string_view> flags, const std::string& when) const;
  // For flags that only permit, show or place something, so that a result is the same with them
  // and without: each of `flags` that is given is accepted, with a remark that says so.
  void accept_idle(std::initializer_list<std::string_view> flags, const std::string& when) const;
  // A sentence that settle() prints. Empty: none.
  void remark(const std::string& text) const;
  // To be called when all that decides what is done has been read, and before it is done: throws
  // Usage for a flag that is given but has been asked for by nothing below, so has no effect. After
  // that no other flag may be asked for (logic_error). Prints the remarks, unless --quiet is given,
  // to standard error: "tandem run: ...".
  void settle();

  // For a command that runs itself again with one thing changed, before settle().
  void set_positional(std::size_t i, const std::string& word) { positionals_.at(i) = word; }
  void set(std::string_view flag, const std::string& value);

  [[nodiscard]] const std::string& positional(std::size_t i) const { return positionals_.at(i); }
  [[nodiscard]] std::size_t positionals() const { return positionals_.size(); }
  [[nodiscard]] std::optional<std::string> text(std::string_view flag) const;
  [[nodiscard]] std::string text_or(std::string_view flag, std::string_view fallback) const;
  [[nodiscard]] std::vector<std::string> all(std::string_view flag) const;
  // Throws Usage, naming the flag, if it is absent.
  [[nodiscard]] std::string required(std::string_view flag) const;
  // Whole decimal numbers and reals within [least, most]. Throw Error (flag, value, range) for
  // anything else.
  [[nodiscard]] std::int64_t integer_or(std::string_view flag, std::int64_t fallback,
                                        std::int64_t least, std::int64_t most) const;
  // Several of them, separated by commas.
  [[nodiscard]] std::vector<std::int64_t> integers_or(std::string_view flag, std::int64_t fallback,
                                                      std::int64_t least, std::int64_t most) const;
  [[nodiscard]] double number_or(std::string_view flag, double fallback, double least,
                                 double most) const;
  // Returns the one of `choices` that the value is, whatever the case of its letters. Throws Error,
  // naming the flag and the choices, if it is none of them.
  [[nodiscard]] std::string choice_or(std::string_view flag, std::string_view fallback,
                                      const std::vector<std::string_view>& choices) const;

 private:
  [[nodiscard]] const std::vector<std::string>& values(std::string_view flag) const;

  std::string command_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positionals_;
  mutable std::set<std::string, std::less<>> asked_;  // flags that have been asked for
  mutable std::vector<std::string> remarks_;
  bool settled_ = false;
};

// One line of help for each command that has a summary, under the headings of their groups; the
// names of those that this build lacks come last.
[[nodiscard]] std::string summaries(std::span<const Command> commands);
// The same as Markdown tables; `parent` is what precedes a name ("tandem", "tandem model").
[[nodiscard]] std::string summaries_markdown(std::span<const Command> commands,
                                             std::string_view parent);

// The command called `name`. Throws Usage with the nearest name; `parent` is what precedes it
// ("tandem", "tandem model").
[[nodiscard]] const Command& find_command(std::span<const Command> commands,
                                          const std::string& name, std::string_view parent);

}  // namespace tandem::cli
