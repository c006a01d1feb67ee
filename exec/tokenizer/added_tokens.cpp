#include "exec/tokenizer/added_tokens.hpp"

#include <unicode/uchar.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec {
namespace {

unsigned char first_byte(std::string_view text) { return static_cast<unsigned char>(text.front()); }

// \w of Unicode's regular expressions (UTS 18, annex C).
bool is_word(UChar32 c) {
  if (c < 0) return false;
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 ||
         (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0;
}

bool is_space(UChar32 c) { return c >= 0 && u_isUWhiteSpace(c) != 0; }

std::size_t skip_space_before(std::string_view text, std::size_t at, std::size_t from) {
  while (at > from) {
    const Utf8Character c = character_before(text, at);
    if (!is_space(c.code)) break;
    at -= c.bytes;
  }
  return at;
}

std::size_t skip_space_behind(std::string_view text, std::size_t at) {
  for (;;) {
    const Utf8Character c = character_at(text, at);
    if (!is_space(c.code)) return at;
    at += c.bytes;
  }
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  return !is_word(character_before(text, begin).code) && !is_word(character_at(text, end).code);
}

// isspace of the C locale; none of these bytes is part of another UTF-8 character.
bool is_ascii_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

// A token found in a text, with the white space that it absorbs.
struct Found {
  std::size_t turn = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  const AddedToken* token = nullptr;
};

// U+FDD0, which Unicode keeps free for such use.
constexpr std::string_view kGuardMark = "\xEF\xB7\x90";
constexpr std::string_view kUnguardable = "\xEF\xBF\xBD";

}  // namespace

std::string unguarded(std::string_view text, WrittenTokens written) {
  if (written != WrittenTokens::guarded) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t mark = std::min(text.find(kGuardMark, at), text.size());
    out += text.substr(at, mark - at);
    at = mark + kGuardMark.size();
  }
  return out;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, TokenSearch search)
    : search_(search), tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
  std::vector<std::int64_t> by_length;
  if (search == TokenSearch::longest) {
    // The order of equally long tokens is std::sort's, as in llama.cpp.
    std::ranges::sort(tokens_, {}, &AddedToken::id);
    std::vector<std::size_t> order(tokens_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return tokens_[a].text.size() > tokens_[b].text.size();
    });
    for (const std::size_t index : order) by_length.push_back(tokens_[index].id);
  }
  std::ranges::stable_sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    const unsigned char x = first_byte(a.text);
    const unsigned char y = first_byte(b.text);
    return x != y ? x < y : a.text.size() > b.text.size();
  });
  for (const AddedToken& token : tokens_) ++begin_.at(first_byte(token.text) + 1U);
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_.at(i) += begin_.at(i - 1);
  std::unordered_map<std::int64_t, std::size_t> turns;
  for (const std::int64_t id : by_length) turns.emplace(id, turns.size());
  if (search == TokenSearch::longest) {
    for (const AddedToken& token : tokens_) turn_.push_back(turns.at(token.id));
  }
}

const AddedToken* AddedTokens::token_at(std::string_view text, std::size_t at, bool special) const {
  const std::size_t byte = first_byte(text.substr(at));
  for (std::uint32_t i = begin_[byte]; i < begin_[byte + 1]; ++i) {
    if (!special && tokens_[i].special) continue;
    if (text.substr(at).starts_with(tokens_[i].text)) return &tokens_[i];
  }
  return nullptr;
}

std::string AddedTokens::guarded(std::string_view text) const {
  const std::string valid = valid_utf8(text);
  std::string out;
  for (std::size_t at = 0; at < valid.size();) {
    const std::string_view rest = std::string_view(valid).substr(at);
    const std::string_view character = rest.substr(0, character_at(valid, at).bytes);
    const std::size_t byte = first_byte(rest);
    const auto first = tokens_.begin() + begin_[byte];
    const auto last = tokens_.begin() + begin_[byte + 1];
    const auto is_here = [rest](const AddedToken& token) {
      return token.special && rest.starts_with(token.text);
    };
    const bool found = std::any_of(first, last, is_here);
    const bool is_one = std::any_of(first, last, [&](const AddedToken& token) {
      return is_here(token) && token.text == character;
    });
    out += is_one ? kUnguardable : character;
    if (found) out += kGuardMark;
    at += character.size();
  }
  return out;
}

// Finds all tokens, each in its turn from left to right. A token is found unless an earlier one, or
// the white space that it absorbed, overlaps it.
std::vector<Fragment> AddedTokens::split_by_length(std::string_view text, bool special) const {
  std::vector<Found> places;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t byte = first_byte(text.substr(at));
    for (std::uint32_t i = begin_[byte]; i < begin_[byte + 1]; ++i) {
      const AddedToken& token = tokens_[i];
      if ((token.special && !special) || !text.substr(at).starts_with(token.text)) continue;
      places.push_back(
          {.turn = turn_[i], .begin = at, .end = at + token.text.size(), .token = &token});
    }
  }
  std::ranges::sort(places, {},
                    [](const Found& found) { return std::pair(found.turn, found.begin); });
  std::map<std::size_t, Found> found;  // by where it begins
  for (Found place : places) {
    const auto behind = found.lower_bound(place.begin);
    const std::size_t most = behind == found.end() ? text.size() : behind->first;
    const std::size_t least = behind == found.begin() ? 0 : std::prev(behind)->second.end;
    if (place.begin < least || place.end > most) continue;
    while (place.token->lstrip && place.begin > least && is_ascii_space(text[place.begin - 1]))
      --place.begin;
    while (place.token->rstrip && place.end < most && is_ascii_space(text[place.end])) ++place.end;
    found.emplace(place.begin, place);
  }
  std::vector<Fragment> fragments;
  std::size_t done = 0;
  for (const auto& [begin, place] : found) {
    if (begin > done) fragments.push_back({.text = text.substr(done, begin - done)});
    fragments.push_back({.text = text.substr(begin, place.end - begin), .id = place.token->id});
    done = place.end;
  }
  if (done < text.size()) fragments.push_back({.text = text.substr(done)});
  return fragments;
}

std::vector<Fragment> AddedTokens::split(std::string_view text, bool special) const {
  if (search_ == TokenSearch::longest) return split_by_length(text, special);
  std::vector<Fragment> fragments;
  std::size_t done = 0;
  const auto add_text = [&](std::size_t end) {
    if (end > done) fragments.push_back({.text = text.substr(done, end - done)});
  };
  std::size_t at = 0;
  while (!tokens_.empty() && at < text.size()) {
    const AddedToken* token = token_at(text, at, special);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    at += token->text.size();
    if (begin < done) continue;  // within what the last one took along
    std::size_t end = at;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->lstrip) begin = skip_space_before(text, begin, done);
    if (token->rstrip) end = skip_space_behind(text, end);
    add_text(begin);
    fragments.push_back({.text = text.substr(begin, end - begin), .id = token->id});
    done = end;
  }
  add_text(text.size());
  return fragments;
}

}  // namespace tandem::exec
