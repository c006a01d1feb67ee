#pragma once

// Values of a platform file's attributes. Private to sim/. Each throws Error (source:line: subject,
// value, expected, remedy) for a value that is none.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/units.hpp"
#include "sim/platform/xml_document.hpp"

namespace tandem::sim {

// `text` if it is a number and nothing else.
[[nodiscard]] std::optional<double> bare_number(std::string_view text);

// `text`, with `unit` if it has none: SimGrid takes bare numbers to be in its base unit.
[[nodiscard]] std::string with_unit(std::string_view text, std::string_view unit);

// The id of `node`: a name (model/base/plain_text.hpp) without blanks.
[[nodiscard]] std::string read_id(const XmlDocument& document, pugi::xml_node node);

// A positive bandwidth.
[[nodiscard]] model::BytesPerSecond read_rate(const XmlDocument& document, pugi::xml_node node,
                                              const char* attribute);

void require_positive(const XmlDocument& document, pugi::xml_node node, std::string_view what,
                      double value);

// Whether tandem gives this <prop> a meaning. Others belong to other programs.
[[nodiscard]] bool is_ours(pugi::xml_node prop);

// Throws Error if `prop` has one of `names` without the prefix "tandem:": what somebody wrote for
// tandem would be ignored. `owner` is what it belongs to, as "host laptop".
void refuse_unprefixed(const XmlDocument& document, pugi::xml_node prop, const std::string& owner,
                       std::initializer_list<std::string_view> names);

// Throws Error if an element other than <host> has a <prop> of ours.
void refuse_our_props(const XmlDocument& document, pugi::xml_node node);

}  // namespace tandem::sim
