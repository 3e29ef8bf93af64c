#include "tenon/base/toml.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <toml++/toml.h>

namespace tenon::toml {
namespace {

Position position_of(const ::toml::source_region& region) {
  return {static_cast<std::uint32_t>(region.begin.line),
          static_cast<std::uint32_t>(region.begin.column)};
}

Value value_of(const ::toml::node& node);

// Recursive; the library's parser has already limited the depth.
Table table_of(const ::toml::table& from) {
  std::vector<std::pair<Position, Entry>> entries;
  for (const auto& [key, node] : from) {
    entries.emplace_back(position_of(key.source()), Entry{std::string(key.str()), value_of(node)});
  }
  // The library sorts by key; we sort by position.
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.line, a.first.column) < std::pair(b.first.line, b.first.column);
  });
  Table table;
  for (auto& [position, entry] : entries) table.append(std::move(entry));
  return table;
}

// Dates and times keep the text of TOML's notation.
template <class Time>
DateTime date_time_of(const Time& time) {
  std::ostringstream text;
  text << time;
  return {std::move(text).str()};
}

Value value_of(const ::toml::node& node) {
  const Position position = position_of(node.source());
  switch (node.type()) {
    case ::toml::node_type::string:
      return {node.as_string()->get(), position};
    case ::toml::node_type::integer:
      return {node.as_integer()->get(), position};
    case ::toml::node_type::floating_point:
      return {node.as_floating_point()->get(), position};
    case ::toml::node_type::boolean:
      return {node.as_boolean()->get(), position};
    case ::toml::node_type::date:
      return {date_time_of(node.as_date()->get()), position};
    case ::toml::node_type::time:
      return {date_time_of(node.as_time()->get()), position};
    case ::toml::node_type::date_time:
      return {date_time_of(node.as_date_time()->get()), position};
    case ::toml::node_type::array: {
      Array items;
      for (const ::toml::node& item : *node.as_array()) items.push_back(value_of(item));
      return {std::move(items), position};
    }
    case ::toml::node_type::table:
      return {table_of(*node.as_table()), position};
    // The parser makes no node of this type.
    case ::toml::node_type::none:
      break;
  }
  return {std::string(), position};
}

// "tenon.toml:3:8: what is wrong", as compilers write places.
Error error_at(std::string_view source_name, Position position, std::string_view what) {
  std::string message(source_name);
  message.append(":").append(std::to_string(position.line));
  message.append(":").append(std::to_string(position.column));
  message.append(": ").append(what);
  return {.code = Errc::invalid, .message = std::move(message), .line = position.line};
}

}  // namespace

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"a string",      "an integer",     "a number",
                                         "true or false", "a date or time", "an array",
                                         "a table"};
  return kNames[static_cast<std::size_t>(kind)];
}

const Value* Table::find(std::string_view key) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [key](const Entry& each) { return each.key == key; });
  return entry == entries_.end() ? nullptr : &entry->value;
}

Error Document::error(Position position, std::string_view what) const {
  return error_at(source_name, position, what);
}

Error Document::error(const Entry& entry, std::string_view what) const {
  return error_at(source_name, entry.value.position(), "'" + entry.key + "': " + std::string(what));
}

Expected<Document> parse(std::string_view text, std::string_view source_name,
                         const ParseOptions& options) {
  if (text.size() > options.max_bytes) {
    return Unexpected(Error{Errc::limit_exceeded, std::string(source_name) + ": larger than " +
                                                      std::to_string(options.max_bytes) +
                                                      " bytes"});
  }
  try {
    return Document{std::string(source_name), table_of(::toml::parse(text))};
  } catch (const ::toml::parse_error& failure) {
    return Unexpected(error_at(source_name, position_of(failure.source()), failure.description()));
  }
}

}  // namespace tenon::toml
