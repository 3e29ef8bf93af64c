#include "tenon/schema/sentences.h"

#include <algorithm>
#include <vector>

#include "tenon/base/utf8.h"

namespace tenon::schema::sentences {
namespace {

// At most 80 bytes and "...", without half a character at the end.
std::string cut(std::string text) {
  constexpr std::size_t kMostBytes = 80;
  if (text.size() <= kMostBytes) return text;
  text.resize(kMostBytes);
  text.resize(text.size() - utf8::open_tail(text));
  return text + "...";
}

// Arrays and objects may be large, so only their kind is told.
std::string shown(const json::Value& value) {
  if (value.if_array() != nullptr) return "an array";
  if (value.if_object() != nullptr) return "an object";
  return cut(json::to_string(value));
}

std::string quoted(std::string_view text) {
  return cut(json::quoted(text));
}

// "an integer, a string or null"
std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out.append(i + 1 == words.size() ? " or " : ", ");
    out.append(words[i]);
  }
  return out;
}

std::string names_of(Types types) {
  std::vector<std::string> names;
  constexpr std::pair<Types, std::string_view> kNames[] = {
      {Types(Type::object), "an object"},   {Types(Type::array), "an array"},
      {Types(Type::string), "a string"},    {Types::number(), "a number"},
      {Types(Type::integer), "an integer"}, {Types(Type::boolean), "a boolean"},
      {Types(Type::null), "null"}};
  for (const auto& [part, name] : kNames) {
    if ((types & part) != part) continue;
    // Numbers include integers.
    if (part == Types(Type::integer) && (types & Types::number()) == Types::number()) continue;
    names.emplace_back(name);
  }
  return listed(names);
}

std::string_view name_of(json::Kind kind) {
  constexpr std::string_view kNames[] = {"null",     "a boolean", "a number",
                                         "a string", "an array",  "an object"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string nothing_fits() {
  return "is not allowed here";
}

std::string wrong_type(const json::Value& value, Types types) {
  const std::string what =
      value.if_number() != nullptr ? shown(value) : std::string(name_of(value.kind()));
  return "is " + what + ", must be " + names_of(types);
}

std::string none_of(const json::Value& value, const Enumeration& allowed) {
  std::string out = "is " + shown(value) + ", must be ";
  constexpr std::size_t kMostShown = 10;
  // `enum: []`, which nothing fits.
  if (allowed.values().empty()) return out + "one of no values";
  if (allowed.values().size() > kMostShown) {
    return out + "one of " + std::to_string(allowed.values().size()) + " values";
  }
  std::vector<std::string> words;
  for (const json::Value& word : allowed.values()) words.push_back(cut(json::to_string(word)));
  return out + listed(words);
}

std::string beyond(const json::Number& number, std::string_view relation,
                   const json::Number& bound) {
  return "is " + cut(number.text) + ", must be " + std::string(relation) + cut(bound.text);
}

std::string not_multiple(const json::Number& number, const json::Number& divisor) {
  return "is " + cut(number.text) + ", must be a multiple of " + cut(divisor.text);
}

std::string wrong_count(std::string_view thing, std::uint64_t count, std::string_view relation,
                        std::uint64_t bound) {
  // The plural of "item for ..." is the plural of its first word.
  std::string things(thing);
  if (count != 1) things.insert(std::min(things.find(' '), things.size()), "s");
  return "has " + std::to_string(count) + " " + things + ", must have " + std::string(relation) +
         std::to_string(bound);
}

std::string no_match(std::string_view text, std::string_view pattern) {
  return "is " + quoted(text) + ", must match the pattern " + cut(std::string(pattern));
}

std::string not_format(std::string_view text, std::string_view format) {
  return "is " + quoted(text) + ", must have the format " + cut(std::string(format));
}

std::string equal(std::pair<std::size_t, std::size_t> items) {
  return "has equal items, " + std::to_string(items.first) + " and " + std::to_string(items.second);
}

std::string missing(std::string_view name, const std::string* because) {
  std::string out = "has no member " + quoted(name);
  if (because != nullptr) out.append(", which ").append(quoted(*because)).append(" requires");
  return out;
}

std::string of_name(std::string_view name, std::string_view sentence) {
  return "has a member " + quoted(name) + ", whose name " + std::string(sentence);
}

std::string fits_forbidden() {
  return "fits the schema that it must not fit";
}

std::string no_branch(std::size_t branches, std::string_view keyword) {
  return "fits none of the " + std::to_string(branches) + " branches of " + std::string(keyword);
}

std::string two_branches(std::size_t first, std::size_t second) {
  return "fits branches " + std::to_string(first) + " and " + std::to_string(second) +
         ", must fit exactly one";
}

}  // namespace tenon::schema::sentences
