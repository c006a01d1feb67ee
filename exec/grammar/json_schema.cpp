#include "exec/grammar/json_schema.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "exec/grammar/json_rules.hpp"
#include "model/base/json_value.hpp"
#include "model/base/plain_text.hpp"

namespace tandem::exec {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kShown = 60;
constexpr std::size_t kMostItems = 1U << 16U;

// Without effect on what conforms.
constexpr std::array<std::string_view, 9> kAnnotations{"$comment",   "$schema",     "default",
                                                       "deprecated", "description", "examples",
                                                       "readOnly",   "title",       "writeOnly"};
constexpr std::array<std::string_view, 2> kDefinitions{"$defs", "definitions"};
constexpr std::array<std::string_view, 3> kOfObjects{"additionalProperties", "properties",
                                                     "required"};
constexpr std::array<std::string_view, 3> kOfArrays{"items", "maxItems", "minItems"};
constexpr const char* kSupported =
    "not supported, expected type, properties, required, additionalProperties, items, minItems, "
    "maxItems, enum, const, anyOf, $ref, $defs or an annotation; take it out";

std::string shown(const OrderedJson& value) {
  return model::one_line(value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace), kShown);
}

std::string place_of(const std::string& place, const std::string& key) {
  return std::string(place).append(".").append(key);
}

template <class List>
bool is_in(const List& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

// The one text of a value. Control characters beyond ASCII's first, which output does not show, are
// escaped with all that is not ASCII.
std::string text_of(const OrderedJson& value) {
  std::string text = value.dump();
  const auto is_control = [&](std::size_t i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    return byte == 0x7F || (byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(i)) return value.dump(-1, ' ', /*ensure_ascii=*/true);
  }
  return text;
}

// Returns whether `value` has a whole number that its double cannot hold exactly.
bool is_rounded(const OrderedJson& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_structured())
    return std::ranges::any_of(value, [](const OrderedJson& part) { return is_rounded(part); });
  return value.is_number_float() && std::abs(value.get<double>()) >= kExact;
}

bool is_of(const OrderedJson& value, std::string_view type) {
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "object") return value.is_object();
  return type == "array" ? value.is_array() : value.is_null();
}

class Schema {
 public:
  Schema(const OrderedJson& root, std::string place)
      : root_(root), place_(std::move(place)), rules_(grammar_) {}

  ByteGrammar grammar() {
    const GrammarRule text = grammar_.add_rule();
    const GrammarState begin = rules_.space(grammar_.start(text));
    grammar_.set_end(grammar_.call(begin, referred("", place_)));
    try {
      grammar_.check();
    } catch (const Error& error) {
      throw SchemaError(place_, error.what());
    }
    return std::move(grammar_);
  }

 private:
  using Types = std::vector<std::string>;

  // The rule of the schema at a JSON pointer; made before what it contains, which may refer to it.
  GrammarRule referred(const std::string& pointer, const std::string& place) {
    const auto found = referred_.find(pointer);
    if (found != referred_.end()) return found->second;
    const GrammarRule rule = grammar_.add_rule();
    referred_[pointer] = rule;
    grammar_.set_end(grammar_.call(grammar_.start(rule),
                                   rule_of(root_.at(OrderedJson::json_pointer(pointer)), place)));
    return rule;
  }

  GrammarRule rule_of(const OrderedJson& schema, const std::string& place) {
    if (schema.is_boolean()) {
      if (schema.get<bool>()) return rules_.value();
      throw SchemaError(place, "false, to which no value conforms, expected a schema");
    }
    if (!schema.is_object()) throw SchemaError(place, shown(schema) + ", expected a schema");
    check_keywords(schema, place);
    if (const OrderedJson* const target = find(schema, "$ref")) {
      alone(schema, place, {"$ref"});
      return reference(*target, place + ".$ref");
    }
    if (const OrderedJson* const any = find(schema, "anyOf")) {
      alone(schema, place, {"anyOf"});
      return any_of(*any, place + ".anyOf");
    }
    const std::optional<Types> types = types_of(schema, place);
    if (find(schema, "enum") != nullptr || find(schema, "const") != nullptr) {
      alone(schema, place, {"enum", "const", "type"});
      return literal(schema, types, place);
    }
    return typed(schema, types ? *types : inferred(schema), place);
  }

  static const OrderedJson* find(const OrderedJson& schema, std::string_view key) {
    const auto found = schema.find(key);
    return found == schema.end() ? nullptr : &*found;
  }

  static void check_keywords(const OrderedJson& schema, const std::string& place) {
    constexpr std::array<std::string_view, 5> kOthers{"$ref", "anyOf", "const", "enum", "type"};
    for (const auto& [key, value] : schema.items()) {
      if (is_in(kAnnotations, key) || is_in(kDefinitions, key) || is_in(kOfObjects, key) ||
          is_in(kOfArrays, key) || is_in(kOthers, key))
        continue;
      throw SchemaError(place + "." + model::one_line(key, kShown), kSupported);
    }
  }

  // Throws for a keyword beside `these`, annotations and definitions.
  static void alone(const OrderedJson& schema, const std::string& place,
                    std::initializer_list<std::string_view> these) {
    for (const auto& [key, value] : schema.items()) {
      if (is_in(these, key) || is_in(kAnnotations, key) || is_in(kDefinitions, key)) continue;
      throw SchemaError(place_of(place, key), "beside '" + std::string(*these.begin()) +
                                                  "', expected that alone; take one of them out");
    }
  }

  GrammarRule reference(const OrderedJson& target, const std::string& place) {
    const std::string text = target.is_string() ? target.get<std::string>() : "";
    constexpr const char* kExpected =
        ", expected \"#\" or the place of a schema in this one, as \"#/$defs/name\"";
    if (!text.starts_with('#') || text.find('%') != std::string::npos)
      throw SchemaError(place, shown(target) + kExpected);
    const std::string pointer = text.substr(1);
    try {
      std::string inside = pointer;
      std::ranges::replace(inside, '/', '.');
      if (root_.contains(OrderedJson::json_pointer(pointer)))
        return referred(pointer, place_ + inside);
    } catch (const OrderedJson::exception&) {
      throw SchemaError(place, shown(target) + kExpected);
    }
    throw SchemaError(place, shown(target) + ", where nothing is" + kExpected);
  }

  GrammarRule any_of(const OrderedJson& list, const std::string& place) {
    if (!list.is_array() || list.empty())
      throw SchemaError(place, shown(list) + ", expected a list of schemas");
    std::vector<GrammarRule> kinds;
    for (const OrderedJson& one : list)
      kinds.push_back(rule_of(one, place + "[" + std::to_string(kinds.size()) + "]"));
    return one_of(kinds);
  }

  GrammarRule one_of(const std::vector<GrammarRule>& kinds) {
    if (kinds.size() == 1) return kinds.front();
    const GrammarRule rule = grammar_.add_rule();
    const GrammarState end = grammar_.add_state();
    grammar_.set_end(end);
    for (const GrammarRule kind : kinds) grammar_.add_call(grammar_.start(rule), kind, end);
    return rule;
  }

  static std::optional<Types> types_of(const OrderedJson& schema, const std::string& place) {
    constexpr std::array<std::string_view, 7> kTypes{"array",  "boolean", "integer", "null",
                                                     "number", "object",  "string"};
    const OrderedJson* const given = find(schema, "type");
    if (given == nullptr) return std::nullopt;
    Types types;
    for (const OrderedJson& one : given->is_array() ? *given : OrderedJson::array({*given})) {
      if (!one.is_string() || !is_in(kTypes, one.get<std::string>()))
        throw SchemaError(place + ".type", shown(one) +
                                               ", expected array, boolean, integer, null, number, "
                                               "object, string or a list of these");
      if (!is_in(types, one.get<std::string>())) types.push_back(one.get<std::string>());
    }
    if (types.empty()) throw SchemaError(place + ".type", "[], expected a type");
    return types;
  }

  // A schema without a type has that of its keywords; one without keywords, any.
  static Types inferred(const OrderedJson& schema) {
    const auto any = [&](const auto& keys) {
      return std::ranges::any_of(keys, [&](std::string_view key) { return schema.contains(key); });
    };
    Types types;
    if (any(kOfObjects)) types.emplace_back("object");
    if (any(kOfArrays)) types.emplace_back("array");
    return types;
  }

  GrammarRule literal(const OrderedJson& schema, const std::optional<Types>& types,
                      const std::string& place) {
    const OrderedJson* const list = find(schema, "enum");
    const OrderedJson* const only = find(schema, "const");
    if (list != nullptr && (!list->is_array() || list->empty()))
      throw SchemaError(place + ".enum", shown(*list) + ", expected a list of values");
    std::vector<std::string> texts;
    for (const OrderedJson& value : list != nullptr ? *list : OrderedJson::array({*only})) {
      if (is_rounded(value))
        throw SchemaError(place + (list != nullptr ? ".enum" : ".const"),
                          shown(value) +
                              " is rounded, expected whole numbers of up to 64 bits "
                              "and others below 2^53; make it a string");
      const bool typed = !types || std::ranges::any_of(*types, [&](const std::string& type) {
        return is_of(value, type);
      });
      if (typed && (list == nullptr || only == nullptr || value == *only))
        texts.push_back(text_of(value));
    }
    if (texts.empty())
      throw SchemaError(place + (list != nullptr ? ".enum" : ".const"),
                        "no value of the type, expected some");
    const GrammarRule rule = grammar_.add_rule();
    for (const GrammarState end : rules_.literals(grammar_.start(rule), texts))
      grammar_.set_end(end);
    return rule;
  }

  GrammarRule typed(const OrderedJson& schema, const Types& types, const std::string& place) {
    if (types.empty()) return rules_.value();
    for (const auto& [key, value] : schema.items()) {
      const bool fits = (!is_in(kOfObjects, key) || is_in(types, "object")) &&
                        (!is_in(kOfArrays, key) || is_in(types, "array"));
      if (!fits)
        throw SchemaError(place_of(place, key), "of another type, expected the keywords of " +
                                                    types.front() + "; take it out");
    }
    std::vector<GrammarRule> kinds;
    kinds.reserve(types.size());
    for (const std::string& type : types) kinds.push_back(of_type(schema, type, place));
    return one_of(kinds);
  }

  GrammarRule of_type(const OrderedJson& schema, std::string_view type, const std::string& place) {
    if (type == "object") return object(schema, place);
    if (type == "array") return array(schema, place);
    if (type == "string") return rules_.string();
    if (type == "number") return rules_.number();
    if (type == "integer") return rules_.integer();
    return type == "boolean" ? rules_.boolean() : rules_.null();
  }

  static std::optional<std::size_t> count_of(const OrderedJson& schema, const char* key,
                                             const std::string& place) {
    const OrderedJson* const given = find(schema, key);
    if (given == nullptr) return std::nullopt;
    if (!given->is_number_unsigned() || given->get<std::uint64_t>() > kMostItems)
      throw SchemaError(
          place_of(place, key),
          shown(*given) + ", expected a whole number from 0 to " + std::to_string(kMostItems));
    return given->get<std::size_t>();
  }

  GrammarRule array(const OrderedJson& schema, const std::string& place) {
    const std::size_t least = count_of(schema, "minItems", place).value_or(0);
    const std::optional<std::size_t> most = count_of(schema, "maxItems", place);
    if (most && *most < least)
      throw SchemaError(place + ".maxItems", "less than minItems, expected at least that");
    const OrderedJson* const items = find(schema, "items");
    if (items == nullptr && least == 0 && !most) return rules_.array();
    return rules_.list(items == nullptr ? rules_.value() : rule_of(*items, place + ".items"), least,
                       most);
  }

  GrammarRule object(const OrderedJson& schema, const std::string& place) {
    const OrderedJson* const properties = find(schema, "properties");
    const OrderedJson* const additional = find(schema, "additionalProperties");
    if (properties != nullptr && !properties->is_object())
      throw SchemaError(place + ".properties", shown(*properties) + ", expected an object");
    const bool lists = properties != nullptr && !properties->empty();
    const std::vector<bool> required = required_of(schema, place);
    const bool closed = additional != nullptr && *additional == false;
    if (lists && additional != nullptr && !closed)
      throw SchemaError(place + ".additionalProperties",
                        shown(*additional) +
                            " beside properties, not supported; expected false, or leave it out");
    if (lists) return members(*properties, required, place + ".properties");
    if (closed) return empty_object();
    if (additional == nullptr || *additional == true) return rules_.object();
    return rules_.map(rule_of(*additional, place + ".additionalProperties"));
  }

  // By property.
  static std::vector<bool> required_of(const OrderedJson& schema, const std::string& place) {
    const OrderedJson* const properties = find(schema, "properties");
    std::vector<bool> required(properties == nullptr ? 0 : properties->size());
    const OrderedJson* const given = find(schema, "required");
    if (given == nullptr) return required;
    if (!given->is_array())
      throw SchemaError(place + ".required", shown(*given) + ", expected a list of properties");
    for (const OrderedJson& name : *given) {
      const bool known = properties != nullptr && name.is_string() &&
                         properties->contains(name.get_ref<const std::string&>());
      if (!known)
        throw SchemaError(place + ".required",
                          shown(name) + ", expected one of the properties; list it there");
      const auto at = properties->find(name.get_ref<const std::string&>());
      required[static_cast<std::size_t>(std::distance(properties->begin(), at))] = true;
    }
    return required;
  }

  GrammarRule empty_object() {
    const GrammarRule rule = grammar_.add_rule();
    const GrammarState open = rules_.space(grammar_.literal(grammar_.start(rule), "{"));
    grammar_.set_end(grammar_.literal(open, "}"));
    return rule;
  }

  // An object whose properties come in their order; those not required may be left out.
  GrammarRule members(const OrderedJson& properties, const std::vector<bool>& required,
                      const std::string& place) {
    const GrammarRule rule = grammar_.add_rule();
    const GrammarState close = grammar_.add_state();
    grammar_.set_end(grammar_.literal(close, "}"));
    std::vector<std::string> keys;
    std::vector<GrammarState> before;  // each property's colon
    std::vector<GrammarState> behind;  // its value
    for (const auto& [name, value] : properties.items()) {
      keys.push_back(text_of(name));
      before.push_back(grammar_.add_state());
      behind.push_back(grammar_.call(rules_.space(grammar_.literal(before.back(), ":")),
                                     rule_of(value, place + "." + model::one_line(name, kShown))));
    }
    // The property that comes next may be any up to the first that is required.
    const auto choose = [&](GrammarState from, std::size_t first) {
      const auto next =
          std::find(required.begin() + static_cast<std::ptrdiff_t>(first), required.end(), true);
      const auto end = std::min(keys.size(), static_cast<std::size_t>(next - required.begin()) + 1);
      const std::vector<std::string> some(keys.begin() + static_cast<std::ptrdiff_t>(first),
                                          keys.begin() + static_cast<std::ptrdiff_t>(end));
      const std::vector<GrammarState> ends = rules_.literals(from, some);
      for (std::size_t i = 0; i < ends.size(); ++i) grammar_.add_jump(ends[i], before[first + i]);
      return next == required.end();  // the object may end instead
    };
    const GrammarState open = rules_.space(grammar_.literal(grammar_.start(rule), "{"));
    if (choose(open, 0)) grammar_.add_jump(open, close);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool last = i + 1 == keys.size();
      if (last || choose(rules_.space(grammar_.literal(behind[i], ",")), i + 1))
        grammar_.add_jump(rules_.space(behind[i]), close);
    }
    return rule;
  }

  const OrderedJson& root_;
  std::string place_;
  ByteGrammar grammar_;
  JsonRules rules_;
  std::map<std::string, GrammarRule> referred_;  // by JSON pointer
};

}  // namespace

SchemaError::SchemaError(std::string its_place, std::string its_problem)
    : Error(its_place + ": " + its_problem),
      place(std::move(its_place)),
      problem(std::move(its_problem)) {}

ByteGrammar json_schema_grammar(const OrderedJson& schema, const std::string& place) {
  try {
    return Schema(schema, place).grammar();
  } catch (const SchemaError&) {
    throw;
  } catch (const Error& error) {
    throw SchemaError(place, error.what());  // too large
  }
}

ByteGrammar json_schema_grammar(std::string_view schema, const std::string& place) {
  static_cast<void>(model::parse_json(schema, place, "write a JSON schema", {.depth = 128}));
  return json_schema_grammar(OrderedJson::parse(schema), place);
}

}  // namespace tandem::exec
