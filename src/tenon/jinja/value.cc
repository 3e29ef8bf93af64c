#include "tenon/jinja/value.h"

namespace tenon::jinja {

std::string_view type_name(const Value& value) {
  switch (value.tag) {
    case Tag::missing:
    case Tag::undefined:
      return "Undefined";
    case Tag::none:
      return "NoneType";
    case Tag::boolean:
      return "bool";
    case Tag::integer:
    case Tag::big_integer:
      return "int";
    case Tag::real:
      return "float";
    case Tag::string:
    case Tag::rope:
      return value.is_markup() ? "Markup" : "str";
    case Tag::list:
    case Tag::json_list:
      return "list";
    case Tag::tuple:
      return "tuple";
    case Tag::dict:
    case Tag::json_dict:
      return "dict";
    case Tag::range:
      return "range";
    case Tag::name_space:
      return "TemplateNamespace";
    case Tag::macro:
      return "Macro";
    case Tag::method:
      return "builtin_function_or_method";
    case Tag::function:
      return "function";
    case Tag::loop:
      return "LoopContext";
    case Tag::iterator:
      return value.iterator->type_name;
    case Tag::view:
      return value.view->kind == View::Kind::keys     ? "dict_keys"
             : value.view->kind == View::Kind::values ? "dict_values"
                                                      : "dict_items";
    case Tag::cycler:
      return "Cycler";
    case Tag::joiner:
      return "Joiner";
    case Tag::slice:
      return "slice";
    case Tag::bytes:
      return "bytes";
    case Tag::self:
      return "TemplateReference";
    case Tag::block:
      return "BlockReference";
  }
  return "object";
}

std::string object_name(Tag tag) {
  if (tag == Tag::none) return "None";
  Value value;
  value.tag = tag;
  if (tag == Tag::iterator) return "generator object";
  if (tag == Tag::view) return "dict view object";
  return std::string(type_name(value)) + " object";
}

// The same object, not an equal one. Floats and undefined values are never the same here.
bool identical(const Value& a, const Value& b) {
  if (a.tag != b.tag) return false;
  switch (a.tag) {
    case Tag::none:
      return true;
    case Tag::boolean:
      return a.boolean == b.boolean;
    case Tag::integer:
    case Tag::function:
      return a.integer == b.integer;
    // The same bytes in memory: a view of one string is the string itself.
    case Tag::string:
      return a.text == b.text && a.size == b.size;
    case Tag::real:
    case Tag::undefined:
      return false;
    default:
      return a.pointer == b.pointer;
  }
}

std::size_t entry_count(const Value& mapping) {
  return mapping.is(Tag::json_dict) ? mapping.json_dict->size() : mapping.dict->size;
}

Value of_iterator(Iterator* iterator, bool is_data) {
  Value value;
  value.tag = Tag::iterator;
  value.flags = is_data ? kData : 0;
  value.iterator = iterator;
  return value;
}

// The name is kept where a string keeps its bytes.
Value undefined_name(std::string_view name) {
  Value value = make_string(name);
  value.tag = Tag::undefined;
  value.lack = static_cast<std::uint8_t>(Lack::name);
  return value;
}

Value undefined_hint(std::string_view hint) {
  Value value = undefined_name(hint);
  value.lack = static_cast<std::uint8_t>(Lack::hint);
  return value;
}

Value undefined_attribute(const Value& object, std::string_view name) {
  Value value = undefined_name(name);
  value.lack = static_cast<std::uint8_t>(Lack::attribute);
  value.of = object.tag;
  return value;
}

Value unsafe_attribute(const Value& object, std::string_view name) {
  Value value = undefined_attribute(object, name);
  value.lack = static_cast<std::uint8_t>(Lack::unsafe);
  return value;
}

}  // namespace tenon::jinja
