#include "sim/platform/xml_document.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "model/base/error.hpp"
#include "model/base/file_kind.hpp"
#include "model/base/plain_text.hpp"
#include "model/base/word_list.hpp"

namespace tandem::sim {
namespace {

constexpr int kDeepest = 64;

bool contains(std::initializer_list<std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string join(std::initializer_list<std::string_view> a,
                 std::initializer_list<std::string_view> b = {}) {
  std::string text;
  for (const auto& list : {a, b}) {
    for (const std::string_view name : list) {
      if (!text.empty()) text += ", ";
      text += name;
    }
  }
  return text.empty() ? "none" : text;
}

std::string shortened(std::string_view text) { return model::one_line(text, 60); }

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_text(pugi::xml_node node) {
  return node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata;
}

// https://www.w3.org/TR/xml/#NT-Char
bool is_xml_character(std::uint32_t c) {
  return c == 0x9 || c == 0xA || c == 0xD || (c >= 0x20 && c <= 0xD7FF) ||
         (c >= 0xE000 && c <= 0xFFFD) || (c >= 0x10000 && c <= 0x10FFFF);
}

// The number of "#65" or "#x41", whatever it is; nothing if it is none.
std::optional<std::uint32_t> character_number(std::string_view name) {
  if (!name.starts_with('#')) return std::nullopt;
  name.remove_prefix(1);
  const int base = name.starts_with('x') ? 16 : 10;
  if (base == 16) name.remove_prefix(1);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number, base);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// Returns the text after the first "&" that is not a character reference; empty: none.
std::string_view bad_reference(std::string_view text) {
  for (std::size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    const std::string_view name = rest.substr(0, rest.find(';'));
    if (name.size() < rest.size()) {
      if (contains({"amp", "lt", "gt", "quot", "apos"}, name)) continue;
      if (const auto number = character_number(name); number && is_xml_character(*number)) continue;
    }
    return text.substr(at, std::min<std::size_t>(name.size() + 2, 20));
  }
  return {};
}

// Returns whether it begins as UTF-16 or UTF-32, as written by some editors.
bool is_wide(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
         text.substr(0, 4).find('\0') != std::string_view::npos;
}

}  // namespace

XmlDocument::XmlDocument(std::string_view text, std::string source) : source_(std::move(source)) {
  model::expect_kind(text, source_, model::kPlatformKind);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_ends_.push_back(static_cast<std::ptrdiff_t>(i));
  }
  check_encoding(text);
  // With parse_fragment, text outside the top element is kept, and root() can refuse it. Blank text
  // is kept, as a line's end between two comments is one.
  const pugi::xml_parse_result result =
      document_.load_buffer(text.data(), text.size(),
                            pugi::parse_default | pugi::parse_ws_pcdata | pugi::parse_fragment |
                                pugi::parse_doctype | pugi::parse_declaration,
                            pugi::encoding_utf8);
  if (!result) {
    throw Error(place(result.offset) + ": " + result.description() +
                ", expected well-formed XML; mend that line");
  }
  check_references(text);
  check_prolog(text);
}

// Requires UTF-8, as SimGrid reads and shows the text as such.
void XmlDocument::check_encoding(std::string_view text) const {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) {
    throw Error(
        place(0) +
        ": begins with a byte order mark, expected \"<\", as SimGrid refuses the mark; save "
        "it as UTF-8 without BOM");
  }
  if (is_wide(text)) {
    throw Error(place(0) + ": UTF-16 or binary, expected XML text in UTF-8; save it as UTF-8");
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 && c != '\n' && c != '\r' && c != '\t') {
      throw Error(place(static_cast<std::ptrdiff_t>(i)) + ": control character " +
                  std::to_string(static_cast<int>(c)) +
                  ", expected XML text in UTF-8; is it a platform file?");
    }
  }
  if (const std::size_t bad = model::not_utf8(text); bad != std::string_view::npos) {
    throw Error(place(static_cast<std::ptrdiff_t>(bad)) + ": byte " +
                std::to_string(static_cast<int>(static_cast<unsigned char>(text[bad]))) +
                " is no part of a UTF-8 character, expected XML text in UTF-8; save it as UTF-8 "
                "(from Latin-1: iconv -f latin1 -t utf-8)");
  }
}

// pugixml leaves unknown references as they are and ends a value at &#0;: so they are looked for in
// values before it replaces any.
void XmlDocument::check_references(std::string_view text) const {
  if (text.find('&') == std::string_view::npos) return;
  pugi::xml_document plain;
  plain.load_buffer(text.data(), text.size(),
                    (pugi::parse_default | pugi::parse_fragment) & ~pugi::parse_escapes,
                    pugi::encoding_utf8);
  struct Walker : pugi::xml_tree_walker {
    std::string_view bad;
    std::ptrdiff_t offset = 0;
    bool for_each(pugi::xml_node& node) override {
      if (node.type() == pugi::node_pcdata) bad = bad_reference(node.value());
      for (const pugi::xml_attribute attribute : node.attributes()) {
        if (bad.empty()) bad = bad_reference(attribute.value());
      }
      offset = node.offset_debug();
      return bad.empty();
    }
  } walker;
  plain.traverse(walker);
  if (walker.bad.empty()) return;
  throw Error(place(walker.offset) + ": \"" + std::string(walker.bad) +
              "\", expected &amp; &lt; &gt; &quot; &apos; or the number of a character that XML "
              "has; write the character itself");
}

void XmlDocument::check_prolog(std::string_view text) const {
  for (const pugi::xml_node node : document_) {
    const std::string where = place(node.offset_debug());
    if (node.type() == pugi::node_declaration) {
      std::string encoding = node.attribute("encoding").value();
      std::transform(encoding.begin(), encoding.end(), encoding.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      if (encoding != "" && encoding != "UTF-8" && encoding != "UTF8" && encoding != "US-ASCII" &&
          encoding != "ASCII") {
        throw Error(where + ": encoding=\"" + shortened(encoding) +
                    "\", expected UTF-8; save it as UTF-8 and correct the declaration");
      }
      // SimGrid takes blanks before it, which many published files have.
      if (!trimmed(text).starts_with("<?xml")) {
        throw Error(where +
                    ": <?xml ...?> is not at the beginning, expected nothing but blanks before "
                    "it; remove what is");
      }
    }
    if (node.type() == pugi::node_doctype &&
        std::string_view(node.value()).find('[') != std::string_view::npos) {
      throw Error(where +
                  ": DOCTYPE with definitions of its own, expected a reference to simgrid.dtd; "
                  "write entities out");
    }
    if (is_text(node) && !trimmed(node.value()).empty()) {
      throw Error(where + ": text \"" + shortened(trimmed(node.value())) +
                  "\" outside the top element, expected well-formed XML: one element and nothing "
                  "around it; remove it");
    }
  }
}

std::string XmlDocument::place(std::ptrdiff_t offset) const {
  return source_ + ":" + std::to_string(line(offset));
}

std::size_t XmlDocument::line(std::ptrdiff_t offset) const {
  const auto at = std::lower_bound(line_ends_.begin(), line_ends_.end(), offset);
  return static_cast<std::size_t>(at - line_ends_.begin()) + 1;
}

pugi::xml_node XmlDocument::root(const char* name) const {
  const pugi::xml_node root = document_.document_element();
  if (!root) {
    throw Error(place(0) + ": no element, expected well-formed XML with <" + name +
                "> at its top; give a SimGrid platform file");
  }
  if (std::string_view(root.name()) != name) {
    fail(root,
         std::string("is the top element, expected <") + name + ">; give a SimGrid platform file");
  }
  for (pugi::xml_node next = root.next_sibling(); next; next = next.next_sibling()) {
    if (next.type() == pugi::node_element)
      fail(next, std::string("follows </") + name + ">, expected one top element; remove it");
  }
  for (pugi::xml_node before = root.previous_sibling(); before;
       before = before.previous_sibling()) {
    if (before.type() != pugi::node_doctype) continue;
    const std::string_view type = before.value();
    if (type.substr(0, type.find_first_of(" \t\r\n")) == name) return root;
    fail(root, "has the DOCTYPE \"" + shortened(type) + "\", expected that of " + name +
                   "; correct it: <!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">");
  }
  fail(root, std::string("has no DOCTYPE before it, which SimGrid insists on; add the line "
                         "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"));
}

std::vector<pugi::xml_node> XmlDocument::elements() const {
  struct Walker : pugi::xml_tree_walker {
    std::vector<pugi::xml_node> found{};
    bool for_each(pugi::xml_node& node) override {
      if (node.type() == pugi::node_element) found.push_back(node);
      return depth() < kDeepest;
    }
  } walker;
  // SimGrid recurses into zones.
  if (!document_.document_element().traverse(walker))
    fail(walker.found.back(), "is nested deeper than " + std::to_string(kDeepest) +
                                  " elements, expected a flatter platform; merge its zones");
  return std::move(walker.found);
}

std::string XmlDocument::text(pugi::xml_node node) const {
  std::string text;
  for (const pugi::xml_node child : node.children()) {
    if (is_text(child)) {
      text += child.value();
    } else {
      fail(child, "inside <" + std::string(node.name()) + ">, expected text only; remove it");
    }
  }
  return text;
}

std::string XmlDocument::where(pugi::xml_node at) const {
  std::string text = source_ + ":" +
                     std::to_string(line(std::max<std::ptrdiff_t>(0, at.offset_debug()))) + ": <" +
                     shortened(at.name());
  if (const std::string_view id = at.attribute("id").value(); !id.empty()) {
    text += " " + shortened(id);
  }
  return text + ">";
}

void XmlDocument::fail(pugi::xml_node at, const std::string& message) const {
  throw Error(where(at) + " " + message);
}

void XmlDocument::expect(pugi::xml_node node, std::initializer_list<std::string_view> required,
                         std::initializer_list<std::string_view> optional,
                         std::initializer_list<std::string_view> children, bool has_text) const {
  for (const pugi::xml_attribute attribute : node.attributes()) {
    const std::string_view name = attribute.name();
    if (!contains(required, name) && !contains(optional, name)) {
      std::vector<std::string_view> known(required);
      known.insert(known.end(), optional);
      fail(node, "has attribute " + shortened(name) + "=\"" + shortened(attribute.value()) +
                     "\", expected only " + join(required, optional) +
                     model::did_you_mean(name, known) +
                     "; remove it: tandem would ignore what it means");
    }
    if (node.attribute(attribute.name()) != attribute) {
      fail(node, "has attribute " + std::string(name) + " twice, expected once; remove one");
    }
  }
  for (const std::string_view name : required) {
    if (!node.attribute(std::string(name).c_str())) {
      fail(node,
           "lacks attribute " + std::string(name) + ", expected " + join(required) + "; add it");
    }
  }
  for (const pugi::xml_node child : node.children()) {
    if (is_text(child)) {
      if (has_text || (child.type() == pugi::node_pcdata && trimmed(child.value()).empty()))
        continue;
      fail(node,
           "contains text \"" + shortened(child.value()) + "\", expected elements only; remove it");
    }
    if (!contains(children, child.name())) {
      fail(child, "inside <" + std::string(node.name()) + ">: not supported, expected " +
                      join(children) + "; " + "write the platform with those");
    }
  }
}

}  // namespace tandem::sim
