#pragma once

// An XML document with file and line in every error. Private to sim/.

#include <cstddef>
#include <initializer_list>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::sim {

class XmlDocument {
 public:
  // Throws Error for text that is not well-formed XML in UTF-8, is binary, defines entities, or
  // refers to entities other than XML's own or to characters that XML does not allow.
  XmlDocument(std::string_view text, std::string source);

  // Returns the root element, which must have that name and follow, alone, a DOCTYPE of that name.
  [[nodiscard]] pugi::xml_node root(const char* name) const;

  [[nodiscard]] const std::string& source() const { return source_; }

  // Returns all elements, in the order of the document.
  [[nodiscard]] std::vector<pugi::xml_node> elements() const;

  // Returns all text of `node`, without comments. Throws Error if it has elements.
  [[nodiscard]] std::string text(pugi::xml_node node) const;

  // Throws Error: source:line: <element id>: message.
  [[noreturn]] void fail(pugi::xml_node at, const std::string& message) const;

  // "source:line: <element id>".
  [[nodiscard]] std::string where(pugi::xml_node at) const;

  // Fails unless the attributes of `node` are among `required` and `optional`, once each with all
  // required ones present, and its children are elements among `children`. Text is allowed only if
  // `has_text`.
  void expect(pugi::xml_node node, std::initializer_list<std::string_view> required,
              std::initializer_list<std::string_view> optional,
              std::initializer_list<std::string_view> children, bool has_text = false) const;

 private:
  [[nodiscard]] std::size_t line(std::ptrdiff_t offset) const;
  [[nodiscard]] std::string place(std::ptrdiff_t offset) const;  // "source:line"
  void check_encoding(std::string_view text) const;
  void check_references(std::string_view text) const;
  void check_prolog(std::string_view text) const;

  std::string source_;
  std::vector<std::ptrdiff_t> line_ends_;
  pugi::xml_document document_;
};

}  // namespace tandem::sim
