#pragma once

// Values of a platform file's attributes. Private to sim/. Each throws Error (source:line: subject,
// value, expected, remedy) for an invalid value.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/units.hpp"
#include "sim/platform/xml_document.hpp"

namespace tandem::sim {

// Returns `text` as a number if it is nothing else.
[[nodiscard]] std::optional<double> bare_number(std::string_view text);

// Returns `text`, with `unit` if it has none: SimGrid reads bare numbers in its base unit.
[[nodiscard]] std::string with_unit(std::string_view text, std::string_view unit);

// Returns the id of `node`: a name (model/base/plain_text.hpp).
[[nodiscard]] std::string read_id(const XmlDocument& document, pugi::xml_node node);

// Returns a positive bandwidth.
[[nodiscard]] model::BytesPerSecond read_rate(const XmlDocument& document, pugi::xml_node node,
                                              const char* attribute);

void require_positive(const XmlDocument& document, pugi::xml_node node, std::string_view what,
                      double value);

// Returns whether this <prop> is one of tandem's. Others belong to other programs.
[[nodiscard]] bool is_ours(pugi::xml_node prop);

// Returns whether SimGrid makes two links of this <link> x, x_UP and x_DOWN.
[[nodiscard]] bool is_split_duplex(pugi::xml_node link);

// Throws Error if `prop` has one of `names` without the prefix "tandem:", as it would be ignored.
// `owner` is the element it belongs to, as "host laptop".
void refuse_unprefixed(const XmlDocument& document, pugi::xml_node prop, const std::string& owner,
                       std::initializer_list<std::string_view> names);

// Throws Error if an element other than <host> has one of tandem's <prop>s.
void refuse_our_props(const XmlDocument& document, pugi::xml_node node);

}  // namespace tandem::sim
