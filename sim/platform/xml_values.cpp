#include "sim/platform/xml_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/base/plain_text.hpp"
#include "model/base/quantity_text.hpp"

namespace tandem::sim {

using pugi::xml_node;

std::optional<double> bare_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string with_unit(std::string_view text, std::string_view unit) {
  return bare_number(text) ? std::string(text) + std::string(unit) : std::string(text);
}

std::string read_id(const XmlDocument& document, xml_node node) {
  std::string name = node.attribute("id").value();
  if (const std::string fault = model::fault_of_name(name); !fault.empty())
    document.fail(node, "has an id with " + fault + "; rename it");
  return name;
}

void refuse_our_props(const XmlDocument& document, xml_node node) {
  for (const xml_node prop : node.children("prop")) {
    document.expect(prop, {"id", "value"}, {}, {});
    if (is_ours(prop))
      document.fail(prop, "expected in a <host> or <link> only; move or remove it");
  }
}

bool is_ours(xml_node prop) {
  return std::string_view(prop.attribute("id").value()).substr(0, 7) == "tandem:";
}

bool is_split_duplex(xml_node link) {
  const std::string_view policy = link.attribute("sharing_policy").value();
  return policy == "SPLITDUPLEX" || policy == "FULLDUPLEX";
}

void refuse_unprefixed(const XmlDocument& document, xml_node prop, const std::string& owner,
                       std::initializer_list<std::string_view> names) {
  const std::string id = prop.attribute("id").value();
  if (std::ranges::find(names, id) != names.end())
    document.fail(prop, "of " + owner + " would be ignored, expected tandem:" + id +
                            "; add the prefix, or rename what is for another program");
}

void require_positive(const XmlDocument& document, xml_node node, std::string_view what,
                      double value) {
  if (value > 0.0 && std::isfinite(value)) return;
  document.fail(node, "has " + std::string(what) + " " + std::to_string(value) +
                          ", expected a positive, finite number; mend it");
}

model::BytesPerSecond read_rate(const XmlDocument& document, xml_node node, const char* attribute) {
  const auto rate = model::parse_rate(with_unit(node.attribute(attribute).value(), "Bps"),
                                      document.where(node) + " " + attribute);
  require_positive(document, node, attribute, rate.value());
  return rate;
}

}  // namespace tandem::sim
