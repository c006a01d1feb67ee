#include "cli/flags/options.hpp"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <iostream>
#include <numeric>
#include <utility>

#include "cli/flags/unknown_flag.hpp"
#include "model/base/error.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"
#include "model/base/word_list.hpp"

namespace tandem::cli {
namespace {

namespace po = boost::program_options;

// The program and a command of it: "tandem plan".
std::string call(std::string_view command) {
  return std::string(program().name) + " " + std::string(command);
}

std::string see_help(std::string_view command) {
  return "see '" + call("help ") + std::string(command) + "'";
}

// What a flag looks like in the help text.
std::string spelling(const Flag& flag) {
  std::string text = "--" + std::string(flag.name);
  if (!flag.value.empty()) text += " " + std::string(flag.value);
  return text;
}

constexpr std::string_view kRequired = "(required)";

// "tandem plan --platform P --model M [flags]"
std::string usage(const Syntax& syntax) {
  std::string text = call(syntax.command);
  for (const std::string_view positional : syntax.positionals)
    text += " " + std::string(positional);
  for (const Flag& flag : syntax.flags)
    if (flag.help.ends_with(kRequired)) text += " " + spelling(flag);
  return text + " [flags]";
}

std::string help_text(const Syntax& syntax, std::vector<Flag> flags, bool all) {
  std::string text = "usage: " + usage(syntax) + "\n\n" + std::string(syntax.summary) + "\n\n";
  const std::size_t number = flags.size();
  const bool fewer = !all && !syntax.common.empty();
  if (fewer)
    std::erase_if(flags, [&](const Flag& flag) {
      return std::ranges::find(syntax.common, flag.name) == syntax.common.end();
    });
  std::size_t width = 0;
  for (const Flag& flag : flags) width = std::max(width, spelling(flag).size());
  for (const Flag& flag : flags) {
    const std::string left = spelling(flag);
    text += "  " + left + std::string(width + 2 - left.size(), ' ') + std::string(flag.help) + '\n';
  }
  if (fewer)
    text += "\nexamples:\n" + std::string(syntax.examples) + "\n'" +
            call("help " + std::string(syntax.command)) + " --all' shows all " +
            std::to_string(number) + " flags.\n";
  return text;
}

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') escaped += "&lt;";
    if (c == '|' || c == '*') escaped += '\\';
    if (c != '<') escaped += c;
  }
  return escaped;
}

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

// What a flag means, and its default: the last brackets of its help, or "required".
std::pair<std::string_view, std::string_view> meaning_and_default(const Flag& flag) {
  const std::string_view help = flag.help;
  if (help.ends_with(kRequired))
    return {help.substr(0, help.size() - kRequired.size() - 1), "required"};
  const std::size_t open = help.rfind(" [");
  if (!help.ends_with(']') || open == std::string_view::npos)
    return {help, flag.value.empty() ? "off" : "none"};
  return {help.substr(0, open), help.substr(open + 2, help.size() - open - 3)};
}

std::string help_markdown(const Syntax& syntax) {
  const bool lines = syntax.summary.find("\n  ") != std::string_view::npos;  // as they are broken
  const std::string fence = lines ? "```text\n" : "";
  std::string text = "    " + usage(syntax) + "\n\n" + fence + std::string(syntax.summary) +
                     (lines ? "\n```" : "") +
                     "\n\n| flag | argument | default | meaning |\n|---|---|---|---|\n";
  for (const Flag& flag : syntax.flags) {
    const auto [meaning, fallback] = meaning_and_default(flag);
    const bool unsaid = flag.repeatable && meaning.find("repeated") == std::string_view::npos;
    text += "| " + code("--" + std::string(flag.name)) + " | " + code(flag.value) + " | " +
            cell(fallback) + " | " + cell(meaning) + (unsaid ? "; may be repeated" : "") + " |\n";
  }
  return text;
}

po::options_description describe(const std::vector<Flag>& flags) {
  po::options_description description;
  for (const Flag& flag : flags) {
    const std::string name(flag.name);
    if (flag.value.empty()) {
      description.add_options()(name.c_str(), po::bool_switch());
    } else if (flag.repeatable) {
      description.add_options()(name.c_str(), po::value<std::vector<std::string>>()->composing());
    } else {
      description.add_options()(name.c_str(), po::value<std::string>());
    }
  }
  return description;
}

// "--prompt=" as "--prompt" and an empty word, as the parser takes it, if the flag may be empty.
Arguments with_empty_values(const Arguments& arguments, const std::vector<Flag>& flags) {
  Arguments words;
  for (const std::string& word : arguments) {
    const bool empty = std::ranges::any_of(flags, [&](const Flag& flag) {
      return flag.may_be_empty && word == "--" + std::string(flag.name) + "=";
    });
    words.push_back(empty ? word.substr(0, word.size() - 1) : word);
    if (empty) words.emplace_back();
  }
  return words;
}

std::string whole_number(std::int64_t value) { return std::to_string(value); }

}  // namespace

Options::Options(const Syntax& syntax, const Arguments& arguments) : command_(syntax.command) {
  std::vector<Flag> flags = syntax.flags;
  flags.push_back({"help", "", "show this text"});
  for (const Flag& flag : flags) values_[std::string(flag.name)];
  if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end())
    throw HelpRequested(
        help_text(syntax, flags, std::ranges::find(arguments, "--all") != arguments.end()),
        help_markdown(syntax));

  const po::options_description description = describe(flags);
  po::parsed_options parsed(&description);
  try {
    parsed = po::command_line_parser(with_empty_values(arguments, flags))
                 .options(description)
                 .style(po::command_line_style::allow_long |
                        po::command_line_style::long_allow_adjacent |
                        po::command_line_style::long_allow_next)
                 .run();
  } catch (const po::unknown_option& error) {
    throw Usage(unknown_flag(error.get_option_name(), syntax));
  } catch (const po::error_with_option_name& error) {
    const std::string name = error.get_option_name();
    const bool is_switch = std::any_of(flags.begin(), flags.end(), [&](const Flag& flag) {
      return "--" + std::string(flag.name) == name && flag.value.empty();
    });
    throw Usage("flag '" + name + (is_switch ? "' takes no value; " : "' needs a value; ") +
                see_help(command_));
  } catch (const po::error& error) {
    throw Usage(std::string(error.what()) + "; " + see_help(command_));
  }

  for (const po::option& option : parsed.options) {
    if (option.position_key >= 0 || option.string_key.empty()) {
      for (const std::string& word : option.value) {
        // Without short options the parser takes "-x" for a positional argument.
        if (word.size() > 1 && word.front() == '-') throw Usage(unknown_flag(word, syntax));
        positionals_.push_back(word);
      }
      continue;
    }
    const auto flag = std::find_if(flags.begin(), flags.end(), [&](const Flag& candidate) {
      return candidate.name == option.string_key;
    });
    std::vector<std::string>& values = values_[option.string_key];
    if (!values.empty() && !flag->repeatable)
      throw Usage("flag '--" + option.string_key + "' is given twice; give it once");
    const std::string value = option.value.empty() ? "" : option.value.front();
    if (value.empty() && !flag->value.empty() && !flag->may_be_empty)
      throw Usage("flag '--" + option.string_key + "' needs a value; " + see_help(command_));
    values.push_back(value);
  }

  const auto needed = static_cast<std::size_t>(
      std::ranges::count_if(syntax.positionals, [](std::string_view p) { return p[0] != '['; }));
  if (positionals_.size() < needed)
    throw Usage("missing argument " + std::string(syntax.positionals[positionals_.size()]) + "; " +
                see_help(command_));
  const bool repeats = !syntax.positionals.empty() && (syntax.positionals.back().ends_with("...") ||
                                                       syntax.positionals.back().ends_with("...]"));
  if (!repeats && positionals_.size() > syntax.positionals.size())
    throw Usage("unexpected argument '" + positionals_[syntax.positionals.size()] + "'; " +
                see_help(command_));
  for (std::size_t i = 0; i < positionals_.size(); ++i) {
    if (positionals_[i].empty())
      throw Usage("argument " +
                  std::string(syntax.positionals[std::min(i, syntax.positionals.size() - 1)]) +
                  " is empty; " + see_help(command_));
  }
}

const std::vector<std::string>& Options::values(std::string_view flag) const {
  const auto found = values_.find(flag);
  require(found != values_.end(), "the flag is not in the command's syntax");
  const bool is_new = asked_.insert(std::string(flag)).second;
  require(!settled_ || !is_new, "a flag is asked for before the options are settled");
  return found->second;
}

void Options::set(std::string_view flag, const std::string& value) {
  const auto found = values_.find(flag);
  require(found != values_.end(), "the flag is not in the command's syntax");
  found->second = {value};
}

void Options::refuse(std::initializer_list<std::string_view> flags, const std::string& when) const {
  for (const std::string_view flag : flags) {
    if (has(flag))
      throw Usage("flag '--" + std::string(flag) + "' has no effect " + when +
                  (when.find(';') == std::string::npos ? "; leave it out" : ""));
  }
}

void Options::accept_idle(std::initializer_list<std::string_view> flags,
                          const std::string& when) const {
  for (const std::string_view flag : flags) {
    if (has(flag)) remark("flag '--" + std::string(flag) + "' has no effect " + when);
  }
}

void Options::remark(const std::string& text) const {
  if (!text.empty() && std::ranges::find(remarks_, text) == remarks_.end())
    remarks_.push_back(text);
}

void Options::settle() {
  for (const auto& [flag, given] : values_) {
    if (!given.empty() && !asked_.contains(flag))
      throw Usage("flag '--" + flag + "' has no effect with the others that are given; leave it " +
                  "out, or " + see_help(command_));
  }
  settled_ = true;
  const auto quiet = values_.find("quiet");
  if (quiet != values_.end() && !quiet->second.empty()) return;
  for (const std::string& text : remarks_) std::cerr << call(command_) << ": " << text << '\n';
}

bool Options::has(std::string_view flag) const { return !values(flag).empty(); }

std::optional<std::string> Options::text(std::string_view flag) const {
  const std::vector<std::string>& given = values(flag);
  return given.empty() ? std::nullopt : std::optional(given.front());
}

std::string Options::text_or(std::string_view flag, std::string_view fallback) const {
  return text(flag).value_or(std::string(fallback));
}

std::vector<std::string> Options::all(std::string_view flag) const { return values(flag); }

std::string Options::required(std::string_view flag) const {
  std::optional<std::string> value = text(flag);
  if (!value) throw Usage("flag '--" + std::string(flag) + "' is required; " + see_help(command_));
  return *std::move(value);
}

namespace {

// `text` as a T within [least, most], or the Error, whose example is the number that `text` begins
// with ("6s"), or else `fallback`.
template <class T, class Show>
T parse_number(std::string_view flag, const std::string& text, T fallback, T least, T most,
               Show show) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool in_range = fault == std::errc() && value >= least && value <= most;
  if constexpr (std::is_floating_point_v<T>) in_range = in_range && std::isfinite(value);
  if (in_range && end == text.data() + text.size()) return value;
  throw Error("--" + std::string(flag) + ": '" + text + "' is not a " +
              (std::is_integral_v<T> ? "whole " : "") + "number from " + show(least) + " to " +
              show(most) + ", for example " +
              show(in_range ? value : std::clamp(fallback, least, most)));
}

}  // namespace

std::int64_t Options::integer_or(std::string_view flag, std::int64_t fallback, std::int64_t least,
                                 std::int64_t most) const {
  const std::optional<std::string> given = text(flag);
  return given ? parse_number(flag, *given, fallback, least, most, whole_number) : fallback;
}

std::vector<std::int64_t> Options::integers_or(std::string_view flag, std::int64_t fallback,
                                               std::int64_t least, std::int64_t most) const {
  const std::optional<std::string> given = text(flag);
  if (!given) return {fallback};
  std::vector<std::int64_t> numbers;
  for (const std::string& number : model::split_list(*given))
    numbers.push_back(parse_number(flag, number, fallback, least, most, whole_number));
  return numbers;
}

double Options::number_or(std::string_view flag, double fallback, double least, double most) const {
  const std::optional<std::string> given = text(flag);
  return given ? parse_number(flag, *given, fallback, least, most, model::shortest_text) : fallback;
}

std::string Options::choice_or(std::string_view flag, std::string_view fallback,
                               const std::vector<std::string_view>& choices) const {
  const std::string value = text_or(flag, fallback);
  std::string known;
  for (const std::string_view choice : choices) {
    if (model::lower_case(choice) == model::lower_case(value)) return std::string(choice);
    known += (known.empty() ? "" : ", ") + std::string(choice);
  }
  throw Error("--" + std::string(flag) + ": unknown value '" + value + "'" +
              model::did_you_mean(value, choices) + "; known: " + known);
}

std::string summaries(std::span<const Command> commands) {
  std::string text;
  std::string missing;
  std::string_view group;
  std::size_t width = 8;
  for (const Command& command : commands)
    if (!command.summary.empty()) width = std::max(width, command.name.size());
  for (const Command& command : commands) {
    if (command.summary.empty()) continue;
    const std::string name(command.name);
    if (!command.available) {
      missing += (missing.empty() ? "" : ", ") + name;
      continue;
    }
    if (command.group != group)
      text += (text.empty() ? "" : "\n") + std::string(command.group) + ":\n";
    group = command.group;
    text += "  " + name + std::string(width + 2 - name.size(), ' ') + std::string(command.summary) +
            '\n';
  }
  if (!missing.empty()) text += "\nNot in this build, which has no simulator: " + missing + '\n';
  return text;
}

std::string summaries_markdown(std::span<const Command> commands, std::string_view parent) {
  std::string text = "| command | does |\n|---|---|\n";
  for (const Command& command : commands)
    if (!command.summary.empty())
      text += "| " + code(std::string(parent) + " " + std::string(command.name)) + " | " +
              cell(command.summary) + " |\n";
  return text;
}

const Command& find_command(std::span<const Command> commands, const std::string& name,
                            std::string_view parent) {
  std::vector<std::string_view> names;
  for (const Command& command : commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  throw Usage("unknown command '" + name + "'" + model::did_you_mean(name, names) + "; see '" +
              std::string(parent) + " --help'");
}

int run_subcommand(std::string_view parent, std::span<const Command> actions,
                   const Arguments& arguments, std::ostream& out) {
  const std::string prefix = call(parent);
  if (arguments.empty()) throw Usage("no action; see '" + prefix + " --help'");
  if (arguments[0] == "--help")
    throw HelpRequested("usage: " + prefix + " ACTION ...\n\n" + summaries(actions) + "\n'" +
                            prefix + " ACTION --help' explains one.\n",
                        summaries_markdown(actions, prefix));
  return find_command(actions, arguments[0], prefix)
      .run(Arguments(arguments.begin() + 1, arguments.end()), out);
}

}  // namespace tandem::cli
