#include "exec/tokenizer/chat/access.hpp"

#include <algorithm>
#include <limits>

#include "exec/tokenizer/chat/arguments.hpp"
#include "exec/tokenizer/chat/characters.hpp"
#include "exec/tokenizer/chat/methods.hpp"
#include "exec/tokenizer/utf8.hpp"

namespace tandem::exec::chat {
namespace {

using Form = Sequence::Form;

bool is_view(const Sequence& sequence) {
  return sequence.form == Form::keys || sequence.form == Form::values ||
         sequence.form == Form::items;
}

std::optional<Value> item_by_index(Budget& budget, const Value& of, std::int64_t index) {
  if (of.is_text()) {
    budget.read(of.text().size());
    const std::size_t size = length_of(of.text());
    if (index < 0) index += static_cast<std::int64_t>(size);
    if (index < 0 || index >= static_cast<std::int64_t>(size)) return std::nullopt;
    const std::size_t at = byte_of(of.text(), static_cast<std::size_t>(index));
    return text_value(budget, of.text().substr(at, character_at(of.text(), at).bytes));
  }
  const Sequence* const list = of.sequence();
  if (list == nullptr || is_view(*list)) return std::nullopt;
  if (index < 0) index += std::ssize(list->items);
  if (index < 0 || index >= std::ssize(list->items)) return std::nullopt;
  return list->items[static_cast<std::size_t>(index)];
}

std::optional<Value> found_item(Budget& budget, const Value& of, const Value& index) {
  if (const Mapping* const mapping = of.mapping()) {
    // A list as a key is looked for in vain.
    const Value* const found = is_hashable(index) ? mapping->find(budget, index) : nullptr;
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const std::optional<std::int64_t> number = index.whole();
  return number ? item_by_index(budget, of, *number) : std::nullopt;
}

[[noreturn]] void fail_undefined(const std::string& what, const Value& of) {
  fail(what + " of " + kind_of(of) + ", expected a value that has it");
}

Value missing(const Value& of, const std::string& name) {
  return undefined_value(kind_of(of) + " has no '" + name + "'");
}

// As Python's slice.indices().
std::int64_t bound_of(const Value& value, std::int64_t otherwise, std::int64_t size,
                      std::int64_t step) {
  if (value.is_undefined() || value.is_none()) return otherwise;
  const std::optional<std::int64_t> given = value.whole();
  if (!given) fail("a slice by " + kind_of(value) + ", expected whole numbers");
  std::int64_t at = *given;
  if (at < 0) at = at < -size ? -1 : at + size;
  return step > 0 ? std::clamp<std::int64_t>(at, 0, size)
                  : std::clamp<std::int64_t>(at, -1, size - 1);
}

Value slice_of_text(Budget& budget, const std::string& text, std::int64_t begin, std::int64_t end,
                    std::int64_t step) {
  if (step == 1) {
    if (begin >= end) return text_value(budget, "");
    const std::size_t first = byte_of(text, static_cast<std::size_t>(begin));
    const std::size_t bytes =
        byte_of(std::string_view(text).substr(first), static_cast<std::size_t>(end - begin));
    return text_value(budget, text.substr(first, bytes));
  }
  budget.make(text.size() * sizeof(std::uint32_t));
  std::vector<std::uint32_t> begins;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).bytes)
    begins.push_back(static_cast<std::uint32_t>(at));
  TextBuilder part(budget);
  for (std::int64_t at = begin; step > 0 ? at < end : at > end; at += step) {
    const std::size_t first = begins[static_cast<std::size_t>(at)];
    part.append(std::string_view(text).substr(first, character_at(text, first).bytes));
  }
  return part.take();
}

}  // namespace

Value attribute_of(Budget& budget, const Value& of, const std::string& name) {
  if (of.is_undefined()) fail_undefined("'" + name + "'", of);
  if (std::optional<Value> method = method_of(budget, of, name)) return *std::move(method);
  budget.read(name.size());
  if (const Mapping* const mapping = of.mapping()) {
    if (const Value* const found = mapping->find(budget, text_value(budget, name))) return *found;
  }
  return missing(of, name);
}

Value item_of(Budget& budget, const Value& of, const Value& index) {
  if (of.is_undefined()) fail_undefined("an item", of);
  if (std::optional<Value> found = found_item(budget, of, index)) return *std::move(found);
  if (!index.is_text()) return undefined_value(kind_of(of) + " has no such item");
  if (std::optional<Value> method = method_of(budget, of, index.text())) return *std::move(method);
  return missing(of, index.text());
}

Value path_of(Budget& budget, const Value& of, const Value& path, const Value& otherwise) {
  if (path.is_none()) return of;
  const auto step = [&](const Value& from, const Value& part) {
    Value found = item_of(budget, from, part);
    return found.is_undefined() && !otherwise.is_none() ? otherwise : found;
  };
  if (!path.is_text()) return step(of, path);
  Value at = of;
  std::string_view rest = path.text();
  while (true) {
    const std::string part(rest.substr(0, rest.find('.')));
    const bool number = !part.empty() && part.size() < 18 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    at = step(at, number ? Value(std::int64_t{std::stoll(part)}) : text_value(budget, part));
    if (part.size() == rest.size()) return at;
    rest.remove_prefix(part.size() + 1);
  }
}

Value slice_of(Budget& budget, const Value& of, const Value& begin, const Value& end,
               const Value& step) {
  const Sequence* const list = of.sequence();
  if (!of.is_text() && (list == nullptr || is_view(*list)))
    fail("a slice of " + kind_of(of) + ", expected a list or a text");
  const std::int64_t by = step.is_undefined() || step.is_none() ? 1 : step.whole().value_or(0);
  if (by == 0)
    fail("a slice by steps of " + (step.whole() ? "0" : kind_of(step)) +
         ", expected another whole number");
  if (of.is_text()) budget.read(2 * of.text().size());
  const std::int64_t size =
      of.is_text() ? static_cast<std::int64_t>(length_of(of.text())) : std::ssize(list->items);
  const std::int64_t first = bound_of(begin, by > 0 ? 0 : size - 1, size, by);
  const std::int64_t last = bound_of(end, by > 0 ? size : -1, size, by);
  // A step longer than the text also selects one element.
  const std::int64_t stride = std::clamp<std::int64_t>(by, -size - 1, size + 1);
  if (of.is_text()) return slice_of_text(budget, of.text(), first, last, stride);
  Values part;
  for (std::int64_t at = first; by > 0 ? at < last : at > last; at += stride)
    part.push_back(list->items[static_cast<std::size_t>(at)]);
  Value made = sequence_value(budget, std::move(part), list->form);
  if (list->form != Form::range) return made;
  const std::int64_t start = list->bounds[0];
  const std::int64_t width = list->bounds[2];
  Sequence range = *made.sequence();
  range.bounds = {start + first * width, start + last * width, width * stride};
  return Value(std::shared_ptr<const Sequence>(std::make_shared<Sequence>(std::move(range))));
}

Value call_value(Budget& budget, const Value& of, const Arguments& arguments) {
  if (const auto* const function = of.get<std::shared_ptr<const Function>>()) {
    if (!(*function)->call)
      fail("the function '" + (*function)->name +
           "' is called, which is not supported in chat templates here");
    return (*function)->call(budget, arguments);
  }
  if (const auto* const loop = of.get<std::shared_ptr<Loop>>()) {
    if (!(*loop)->recurse) fail("a loop is called, expected {% for ... recursive %}");
    return (*loop)->recurse(*bind("loop", arguments, {"iterable"}, 1, Naming::refused)[0]);
  }
  fail(kind_of(of) + " is called, expected a function, a macro or a method");
}

}  // namespace tandem::exec::chat
