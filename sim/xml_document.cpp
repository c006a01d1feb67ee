#include "sim/xml_document.hpp"

#include <algorithm>
#include <utility>

#include "model/error.hpp"

namespace tandem::sim {
namespace {

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

// A hostile name must not fill the terminal.
std::string shortened(std::string_view text) {
  constexpr std::size_t kShown = 60;
  return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
}

}  // namespace

XmlDocument::XmlDocument(std::string_view text, std::string source) : source_(std::move(source)) {
  std::ptrdiff_t offset = 0;
  for (const char c : text) {
    if (c == '\n') line_ends_.push_back(offset);
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') {
      throw Error(source_ + ":" + std::to_string(line(offset)) + ": control character " +
                  std::to_string(static_cast<int>(c)) +
                  ", expected XML text in UTF-8; is it a platform file?");
    }
    ++offset;
  }
  const pugi::xml_parse_result result = document_.load_buffer(
      text.data(), text.size(), pugi::parse_default | pugi::parse_doctype, pugi::encoding_utf8);
  if (!result) {
    throw Error(source_ + ":" + std::to_string(line(result.offset)) + ": " + result.description() +
                ", expected well-formed XML; mend that line");
  }
  for (const pugi::xml_node node : document_) {
    if (node.type() == pugi::node_doctype &&
        std::string_view(node.value()).find('[') != std::string_view::npos) {
      throw Error(source_ + ":" + std::to_string(line(node.offset_debug())) +
                  ": DOCTYPE with definitions of its own, expected a reference to simgrid.dtd; "
                  "write entities out");
    }
  }
}

std::size_t XmlDocument::line(std::ptrdiff_t offset) const {
  const auto at = std::lower_bound(line_ends_.begin(), line_ends_.end(), offset);
  return static_cast<std::size_t>(at - line_ends_.begin()) + 1;
}

pugi::xml_node XmlDocument::root(const char* name) const {
  const pugi::xml_node root = document_.document_element();
  if (std::string_view(root.name()) != name) {
    fail(root,
         std::string("is the top element, expected <") + name + ">; give a SimGrid platform file");
  }
  if (const pugi::xml_node next = root.next_sibling(); next.type() == pugi::node_element) {
    fail(next, std::string("follows </") + name + ">, expected one top element; remove it");
  }
  return root;
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
                         std::initializer_list<std::string_view> children) const {
  for (const pugi::xml_attribute attribute : node.attributes()) {
    const std::string_view name = attribute.name();
    if (!contains(required, name) && !contains(optional, name)) {
      fail(node, "has attribute " + shortened(name) + "=\"" + shortened(attribute.value()) +
                     "\", expected only " + join(required, optional) +
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
    if (child.type() != pugi::node_element) {
      fail(node,
           "contains text \"" + shortened(child.value()) + "\", expected elements only; remove it");
    }
    if (!contains(children, child.name())) {
      fail(child, "inside <" + std::string(node.name()) + ">: not supported, expected " +
                      join(children) + "; " +
                      (std::string_view(child.name()) == "config"
                           ? "remove it: tandem sets SimGrid's options itself"
                           : "write the platform with those"));
    }
  }
}

}  // namespace tandem::sim
