#include "serve/tool_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/moderate_json.hpp"

namespace tandem::serve {
namespace {

using CallJson = nlohmann::json;
constexpr std::size_t kNowhere = std::string_view::npos;
constexpr std::string_view kWhiteSpace = " \n\r\t";

std::size_t behind_space(std::string_view text, std::size_t from) {
  return std::min(text.find_first_not_of(kWhiteSpace, from), text.size());
}

// Returns the end of the string of JSON that begins at `from`; kNowhere: it has none yet.
std::size_t string_end(std::string_view text, std::size_t from) {
  for (std::size_t i = from + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return kNowhere;
}

// The same for an object or a list.
std::size_t structure_end(std::string_view text, std::size_t from) {
  return StructureScan().end(text, from);
}

// Returns the end of any value.
std::size_t value_end(std::string_view text, std::size_t from) {
  if (text[from] == '"') return string_end(text, from);
  if (text[from] == '{' || text[from] == '[') return structure_end(text, from);
  return text.find_first_of(",}] \n\r\t", from);
}

// Returns the text of the member `key` of `object`, which is valid JSON.
std::string_view member_text(std::string_view object, std::string_view key) {
  const std::string quoted = '"' + std::string(key) + '"';
  std::string_view found;
  std::size_t at = behind_space(object, 1);
  while (object[at] == '"') {
    const std::size_t end = string_end(object, at);
    const std::string_view name = object.substr(at, end - at);
    const std::size_t value = behind_space(object, behind_space(object, end) + 1);
    const std::size_t close = value_end(object, value);
    if (name == quoted) found = object.substr(value, close - value);
    at = behind_space(object, close);
    if (object[at] == ',') at = behind_space(object, at + 1);
  }
  return found;
}

// Returns the texts of the objects in a list, which is valid JSON of objects.
std::vector<std::string_view> objects_of(std::string_view list) {
  std::vector<std::string_view> objects;
  for (std::size_t at = list.find('{'); at != kNowhere;) {
    const std::size_t end = structure_end(list, at);
    objects.push_back(list.substr(at, end - at));
    at = list.find('{', end);
  }
  return objects;
}

// Returns the bytes at the end of `text` that begin `word` without being all of it.
std::size_t begun_bytes(std::string_view text, std::string_view word) {
  std::size_t bytes = std::min(text.size(), word.size() - 1);
  while (bytes > 0 && !word.starts_with(text.substr(text.size() - bytes))) --bytes;
  return bytes;
}

}  // namespace

std::size_t StructureScan::end(std::string_view text, std::size_t from) {
  for (at_ = std::max(at_, from); at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      escaped_ = c == '\\';
      in_string_ = c != '"';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      return at_ + 1;
    }
  }
  return kNowhere;
}

ToolText::ToolText(ToolTextOptions options)
    : options_(std::move(options)),
      at_(options_.is_required             ? At::call
          : options_.form->opening.empty() ? At::beginning
                                           : At::text),
      random_(options_.seed) {}

ToolPiece ToolText::push(std::string_view text) {
  kept_ += text;
  return take(false);
}

ToolPiece ToolText::finish() { return take(true); }

ToolPiece ToolText::take(bool last) {
  ToolPiece piece;
  for (bool goes_on = true; goes_on;) {
    switch (at_) {
      case At::beginning:
        goes_on = take_beginning(piece);
        break;
      case At::text:
        goes_on = take_text(piece, last);
        break;
      case At::call:
        goes_on = take_call(piece, last);
        break;
      case At::behind:
        goes_on = take_behind(piece, last);
        break;
      case At::rest:
        release(piece, kept_.size());
        goes_on = false;
        break;
    }
  }
  if (last) release(piece, kept_.size());
  return piece;
}

void ToolText::release(ToolPiece& piece, std::size_t bytes) {
  piece.text += kept_.substr(0, bytes);
  kept_.erase(0, bytes);
}

bool ToolText::take_beginning(ToolPiece& /*piece*/) {
  const std::size_t begin = behind_space(kept_, 0);
  if (begin == kept_.size()) return false;
  at_ = kept_[begin] == '{' ? At::call : At::rest;
  return true;
}

bool ToolText::take_text(ToolPiece& piece, bool last) {
  if (any_ && !between_) {  // white space between calls is no text
    kept_.erase(0, behind_space(kept_, 0));
    if (kept_.empty()) return false;
    between_ = true;
  }
  const std::string_view opening = options_.form->opening;
  const std::size_t found = kept_.find(opening);
  if (found == std::string::npos) {
    release(piece, kept_.size() - (last ? 0 : begun_bytes(kept_, opening)));
    return false;
  }
  // Calls come behind all text of a piece.
  release(piece, found);
  raw_ = opening.size();
  at_ = At::call;
  return true;
}

bool ToolText::take_call(ToolPiece& piece, bool last) {
  const std::size_t begin = behind_space(kept_, raw_);
  const bool is_open = begin < kept_.size();
  const bool is_one = is_open && kept_[begin] == (options_.form->is_list ? '[' : '{');
  const std::size_t end = is_one ? scan_.end(kept_, begin) : kNowhere;
  if (end == kNowhere && (is_one || !is_open) && !last) return false;
  if (end != kNowhere && add_calls(std::string_view(kept_).substr(begin, end - begin), piece)) {
    kept_.erase(0, end);
    at_ = At::behind;
    between_ = false;
  } else {
    // Another call may follow behind another opening.
    const bool goes_on = !options_.form->opening.empty() && !options_.is_required;
    release(piece, end != kNowhere ? end : std::max<std::size_t>(raw_, 1));
    at_ = goes_on ? At::text : At::rest;
  }
  raw_ = 0;
  scan_ = {};
  return !kept_.empty();
}

bool ToolText::take_behind(ToolPiece& /*piece*/, bool last) {
  const ToolForm& form = *options_.form;
  const std::string_view word = form.closing.empty() ? form.separator : form.closing;
  const std::size_t begin = behind_space(kept_, 0);
  const std::string_view there = std::string_view(kept_).substr(begin);
  if (there.size() < word.size() && word.starts_with(there)) {
    if (last) kept_.clear();  // nothing, or a closing that was cut
    return false;
  }
  const bool closes = !word.empty() && there.starts_with(word);
  kept_.erase(0, begin + (closes ? word.size() : 0));
  if (!form.separator.empty())
    at_ = closes ? At::beginning : At::rest;
  else
    at_ = form.is_list ? At::rest : At::text;
  return !kept_.empty();
}

bool ToolText::add_calls(std::string_view json, ToolPiece& piece) {
  if (!is_moderate(json)) return false;
  const CallJson parsed = CallJson::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || parsed.empty()) return false;
  const std::string key(options_.form->arguments);
  const auto is_call = [&](const CallJson& call) {
    return call.is_object() && call.value("name", CallJson()).is_string() &&
           call.value(key, CallJson()).is_object() &&
           std::ranges::find(options_.tools, call["name"].get<std::string>()) !=
               options_.tools.end();
  };
  if (!(parsed.is_array() ? std::ranges::all_of(parsed, is_call) : is_call(parsed))) return false;
  for (const std::string_view object :
       parsed.is_array() ? objects_of(json) : std::vector<std::string_view>{json}) {
    const CallJson call = CallJson::parse(object);
    // As it was written, unless an escaped name hides what counts.
    const std::string_view raw = member_text(object, key);
    const bool is_written =
        !raw.empty() && CallJson::parse(raw, nullptr, /*allow_exceptions=*/false) == call[key];
    piece.calls.push_back({.id = next_id(),
                           .name = call["name"].get<std::string>(),
                           .arguments = is_written ? std::string(raw) : call[key].dump()});
  }
  any_ = true;
  return true;
}

std::string ToolText::next_id() {
  constexpr std::string_view kCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr std::size_t kLength = 9;
  std::uniform_int_distribution<std::size_t> place(0, kCharacters.size() - 1);
  std::string id;
  while (id.size() < kLength) id += kCharacters[place(random_)];
  return id;
}

}  // namespace tandem::serve
